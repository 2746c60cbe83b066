"""The audit: entries written with changes, sealed once, in blocks that follow each other; and the keys that sign."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.testing.stores.governance.samples import block, bodies, note, noted, seal
from holdfast.testing.stores.samples import NOW, TENANT, advanced, begun, commit, ended, leased, start, turn
from holdfast.testing.stores.topic import Topic, on_fresh_store


def _bodies(entries: list[p.AuditEntry]) -> str:
    return "".join(entry.body.decode() for entry in entries)


class AuditTopic(Topic):
    @on_fresh_store
    async def test_a_note_becomes_an_entry(self, store: p.Store) -> None:
        """It has all fields of the note, a sequence, and no position yet."""
        assert await commit(store, note("bytes: ü", kind="policy", at=NOW + 3, run=None)) == p.Noted()
        (entry,) = await store.entries(p.AuditQuery(TENANT), 10)
        expected = p.AuditEntry(entry.sequence, TENANT, None, "policy", NOW + 3, "bytes: ü".encode(), None)
        assert entry == expected
        assert await store.unsealed(10) == [expected]

    @on_fresh_store
    async def test_entries_stand_in_the_order_of_their_commits(self, store: p.Store) -> None:
        """Sequences rise within a batch and from one to the next; of all tenants together while not sealed."""
        await store.commit([note("a"), note("b", tenant="bolt")])
        await commit(store, note("c"))
        found = await store.unsealed(10)
        assert _bodies(found) == "abc"
        assert [entry.sequence for entry in found] == sorted({entry.sequence for entry in found})
        assert _bodies(await store.unsealed(2)) == "ab"
        assert await bodies(store) == ["a", "c"]

    @on_fresh_store
    async def test_what_is_noted_with_a_turn_is_noted_once(self, store: p.Store) -> None:
        """Not where the turn is fenced, and not again where it is committed again."""
        change = turn(await leased(store), attached=(note(),))
        assert await commit(store, replace(change, epoch=9)) == p.Fenced()
        assert await bodies(store) == []
        for _ in range(3):
            assert (await advanced(store, change)).attached == (p.Noted(),)
        assert await bodies(store) == ["said"]

    @on_fresh_store
    async def test_what_is_noted_with_a_start_is_noted_once(self, store: p.Store) -> None:
        """Not where the id is taken, and not again where the start is recognised."""
        change = start(owner="ann", attached=(note(),))
        for _ in range(3):
            assert await commit(store, change) == p.Started(1, (p.Noted(),))
        await begun(store, start("two"))
        assert isinstance(await commit(store, start("two", owner="bob", attached=(note("no"),))), p.Exists)
        assert await bodies(store) == ["said"]

    @on_fresh_store
    async def test_a_note_with_an_id_is_written_once(self, store: p.Store) -> None:
        """In one batch or in two, alone or with others, sealed since or not; the answer is always Noted."""
        named = note("named", id="n")
        assert await store.commit([note("a"), named, named, note("b")]) == [p.Noted()] * 4
        assert await commit(store, named) == p.Noted()
        a, entry, _ = await store.unsealed(10)
        assert await seal(store, block(1, 1, 2), [a.sequence, entry.sequence])
        assert await store.commit([named, note("c")]) == [p.Noted()] * 2
        assert await bodies(store) == ["a", "named", "b", "c"]

    @on_fresh_store
    async def test_an_id_is_one_tenants_and_says_nothing_of_what_is_noted(self, store: p.Store) -> None:
        """Each tenant has its own ids. Under a used id nothing is written, even with another body; without an id, each
        note is written."""
        await store.commit([note("first", id="n"), note("other", tenant="bolt", id="n")])
        assert await commit(store, note("second", id="n")) == p.Noted()
        for _ in range(2):
            await store.commit([note("same"), note("same")])
        assert await bodies(store) == ["first", *["same"] * 4]
        assert await bodies(store, "bolt") == ["other"]

    @on_fresh_store
    async def test_what_is_noted_with_a_turn_without_events_is_noted_once(self, store: p.Store) -> None:
        """Such a turn cannot be recognised when committed again, but the ids of its entries are. A fenced turn notes
        nothing."""
        change = turn(await leased(store), count=0, attached=(note("decided", id="n"),))
        assert await commit(store, replace(change, epoch=9)) == p.Fenced()
        for _ in range(3):
            assert (await advanced(store, change)).attached == (p.Noted(),)
        assert await bodies(store) == ["decided"]

    @on_fresh_store
    async def test_sealing_gives_positions_in_the_order_given(self, store: p.Store) -> None:
        """From the block's first on; sealed entries are no longer listed as unsealed."""
        a, b, c = await noted(store, "a", "b", "c")
        assert await seal(store, block(1, 1, 2), [b.sequence, a.sequence])
        assert await store.unsealed(10) == [c]
        assert await store.entries(p.AuditQuery(TENANT), 10) == [replace(b, position=1), replace(a, position=2), c]
        assert await seal(store, block(2, 3, 1), [c.sequence])
        assert await store.unsealed(10) == []
        assert await bodies(store) == ["b", "a", "c"]

    @on_fresh_store
    async def test_a_number_is_sealed_once(self, store: p.Store) -> None:
        """Of two sealers of one number the first wins; the other's entries stay unsealed."""
        a, b = await noted(store, "a", "b")
        assert await seal(store, block(1, 1, 1), [a.sequence])
        assert not await seal(store, block(1, 1, 1), [b.sequence])
        assert not await seal(store, block(1, 1, 1), [a.sequence])
        assert await store.unsealed(10) == [b]
        assert await store.blocks(TENANT, 1, 10) == [block(1, 1, 1)]

    @on_fresh_store
    async def test_an_entry_is_sealed_once(self, store: p.Store) -> None:
        """A block with an entry that is sealed already, of another tenant or missing is refused completely."""
        a, b = await noted(store, "a", "b")
        (foreign,) = await noted(store, "c", tenant="bolt")
        assert await seal(store, block(1, 1, 1), [a.sequence])
        for stray in (a.sequence, foreign.sequence, foreign.sequence + 99):
            assert not await seal(store, block(2, 2, 2), [b.sequence, stray])
        assert await store.unsealed(10) == [b, foreign]
        assert await store.blocks(TENANT, 1, 10) == [block(1, 1, 1)]
        assert await seal(store, block(2, 2, 1), [b.sequence])

    @on_fresh_store
    async def test_blocks_follow_each_other_without_a_gap(self, store: p.Store) -> None:
        """A block that skips or repeats a number or a position is refused completely."""
        a, b = await noted(store, "a", "b")
        assert await seal(store, block(1, 1, 1), [a.sequence])
        for number, first in ((3, 2), (0, 2), (2, 3), (2, 1)):
            assert not await seal(store, block(number, first, 1), [b.sequence])
        assert await store.unsealed(10) == [b]
        assert await seal(store, block(2, 2, 1), [b.sequence])
        assert [sealed.number for sealed in await store.blocks(TENANT, 1, 10)] == [1, 2]

    @on_fresh_store
    async def test_each_tenant_has_a_chain_of_its_own(self, store: p.Store) -> None:
        """The same number and positions in two tenants."""
        (mine,) = await noted(store, "mine")
        (other,) = await noted(store, "other", tenant="bolt")
        assert await seal(store, block(), [mine.sequence])
        assert await seal(store, block(tenant="bolt"), [other.sequence])
        assert await store.blocks("bolt", 1, 10) == [block(tenant="bolt")]
        assert await store.entries(p.AuditQuery("bolt"), 10) == [replace(other, position=1)]
        assert await store.blocks("carol", 1, 10) == []

    @on_fresh_store
    async def test_blocks_are_read_from_a_number_on_or_from_the_end(self, store: p.Store) -> None:
        """In order, unchanged, and no more than the limit."""
        for number, entry in enumerate(await noted(store, *"abcd"), 1):
            assert await seal(store, block(number, number, 1), [entry.sequence])
        chain = [block(number, number, 1) for number in range(1, 5)]
        assert await store.blocks(TENANT, 1, 10) == chain
        assert await store.blocks(TENANT, 2, 2) == chain[1:3]
        assert await store.blocks(TENANT, 5, 10) == []
        assert await store.blocks(TENANT, -1, 10) == chain[3:]
        assert await store.blocks(TENANT, -2, 10) == chain[2:]
        assert await store.blocks(TENANT, -9, 10) == chain

    @on_fresh_store
    async def test_entries_are_listed_by_pages(self, store: p.Store) -> None:
        """Sealed ones by position, then the others by sequence; no page repeats or skips one."""
        a, b, c, _, _ = await noted(store, *"abcde")
        assert await seal(store, block(1, 1, 3), [c.sequence, a.sequence, b.sequence])
        listed: list[p.AuditEntry] = []
        while page := await store.entries(p.AuditQuery(TENANT), 2, listed[-1] if listed else None):
            assert len(page) <= 2
            listed += page
        assert _bodies(listed) == "cabde"

    @on_fresh_store
    async def test_entries_are_listed_from_the_end_on(self, store: p.Store) -> None:
        """Newest first: the others by sequence, then sealed ones by position; also where one is sealed meanwhile."""
        a, b, c, d, _ = await noted(store, *"abcde")
        assert await seal(store, block(1, 1, 3), [c.sequence, a.sequence, b.sequence])
        listed: list[p.AuditEntry] = []
        while page := await store.last_entries(p.AuditQuery(TENANT), 2, listed[-1] if listed else None):
            assert len(page) <= 2
            listed += page
        assert _bodies(listed) == "edbac"
        assert await seal(store, block(2, 4, 1), [d.sequence])
        assert _bodies(await store.last_entries(p.AuditQuery(TENANT), 10, d)) == "bac"
        assert await store.last_entries(p.AuditQuery("bolt"), 10) == []

    @on_fresh_store
    async def test_a_listing_goes_on_where_its_last_entry_was_sealed_meanwhile(self, store: p.Store) -> None:
        """The entries after it in the chain come after it in the list."""
        entries = await noted(store, *"abcd")
        page = await store.entries(p.AuditQuery(TENANT), 2)
        assert await seal(store, block(1, 1, 3), [entry.sequence for entry in entries[:3]])
        assert _bodies(await store.entries(p.AuditQuery(TENANT), 10, page[-1])) == "cd"

    @on_fresh_store
    async def test_entries_are_listed_by_what_is_asked(self, store: p.Store) -> None:
        """Each condition narrows the list; ``since`` is within, ``until`` is not."""
        await store.commit(
            [
                note("a", at=NOW),
                note("b", run="two", at=NOW + 1),
                note("c", kind="receipt", at=NOW + 2),
                note("d", run=None, at=NOW + 3),
                note("e", tenant="bolt"),
            ]
        )

        async def listed_bodies(query: p.AuditQuery) -> str:
            return _bodies(await store.entries(query, 10))

        assert await listed_bodies(p.AuditQuery(TENANT)) == "abcd"
        assert await listed_bodies(p.AuditQuery("bolt")) == "e"
        assert await listed_bodies(p.AuditQuery(TENANT, run="one")) == "ac"
        assert await listed_bodies(p.AuditQuery(TENANT, kind="receipt")) == "c"
        assert await listed_bodies(p.AuditQuery(TENANT, since=NOW + 1, until=NOW + 3)) == "bc"
        assert await listed_bodies(p.AuditQuery(TENANT, "one", "decided", NOW, NOW + 9)) == "a"
        assert await listed_bodies(p.AuditQuery(TENANT, "two", "receipt")) == ""

    @on_fresh_store
    async def test_entries_and_blocks_outlive_their_runs(self, store: p.Store) -> None:
        """Pruning a run leaves no hole in the chain."""
        await ended(store)
        a, b = await noted(store, "a", "b")
        await seal(store, block(), [a.sequence])
        assert await store.prune(NOW + 1, 10) == 1
        assert await store.entries(p.AuditQuery(TENANT), 10) == [replace(a, position=1), b]
        assert await store.blocks(TENANT, 1, 10) == [block()]

    @on_fresh_store
    async def test_signing_keys_are_added_once_and_read_in_order(self, store: p.Store) -> None:
        """Of two that add the same number the first wins; the last one signs."""
        first = p.SigningKey(1, "key 1", b"\x00public", b"\xffprivate", NOW)
        second = p.SigningKey(2, "key 2", b"public", None, NOW + 1, b"by key 1")
        assert await store.signing_keys() == []
        assert [await store.add_signing_key(key) for key in (first, second)] == [True, True]
        assert not await store.add_signing_key(first)
        assert not await store.add_signing_key(replace(second, id="key 3"))
        assert await store.signing_keys() == [first, second]

    @on_fresh_store
    async def test_a_signing_key_comes_with_its_entry_or_not_at_all(self, store: p.Store) -> None:
        """Every added key has its entry in the audit, and a refused key has none."""
        key = p.SigningKey(1, "key 1", b"public", None, NOW)
        assert await store.add_signing_key(key, note("added"))
        assert not await store.add_signing_key(replace(key, id="key 2"), note("not added"))
        assert [entry.body for entry in await store.entries(p.AuditQuery(TENANT), 10)] == [b"added"]

    @on_fresh_store
    async def test_blocks_of_many_tenants_are_sealed_together_and_judged_each_on_its_own(self, store: p.Store) -> None:
        """Several of one tenant follow each other; a refused block does not affect the others."""
        await store.commit([note(body, tenant=tenant) for tenant in ("bolt", "corp", TENANT) for body in "ab"])
        found = {(entry.tenant, entry.body): entry.sequence for entry in await store.unsealed(10)}
        sealings = [
            p.Sealing(block(1, 1, 1, tenant="bolt"), (found["bolt", b"a"],)),
            p.Sealing(block(1, 1, 1), (found["corp", b"a"],)),  # another tenant's
            p.Sealing(block(2, 2, 1, tenant="bolt"), (found["bolt", b"b"],)),
            p.Sealing(block(3, 3, 1, tenant="bolt"), (found["bolt", b"b"],)),  # sealed by the one before
            p.Sealing(block(1, 1, 2, tenant="corp"), (found["corp", b"b"], found["corp", b"a"])),
            p.Sealing(block(3, 3, 1, tenant="corp"), (found[TENANT, b"a"],)),
        ]
        assert await store.seal(sealings) == [True, False, True, False, True, False]
        assert [entry.tenant for entry in await store.unsealed(10)] == [TENANT] * 2
        assert [each.number for each in await store.blocks("bolt", 1, 10)] == [1, 2]
        assert await bodies(store, "corp") == ["b", "a"]
        assert await store.seal([]) == []

    @on_fresh_store
    async def test_the_last_blocks_of_tenants_are_read_together(self, store: p.Store) -> None:
        """Without their digests; a tenant without a block has none."""
        await store.commit([note(body, tenant=tenant) for tenant in ("bolt", TENANT) for body in "ab"])
        for entry in await store.unsealed(10):
            number = len(await store.blocks(entry.tenant, 1, 10)) + 1
            assert await seal(store, block(number, number, 1, tenant=entry.tenant), [entry.sequence])
        bolt, mine = (replace(block(2, 2, 1, tenant=tenant), digests=b"") for tenant in ("bolt", TENANT))
        assert await store.heads() == sorted([bolt, mine], key=lambda head: head.tenant)
        assert await store.heads(["nobody", "bolt"]) == [bolt]
        assert await store.heads([]) == []

    @on_fresh_store
    async def test_the_blocks_that_hold_entries_are_found_together(self, store: p.Store) -> None:
        """Each block once, complete; none for a position that no block holds."""
        entries = await noted(store, *"abcde")
        for number, first, count in ((1, 1, 2), (2, 3, 1), (3, 4, 2)):
            assert await seal(store, block(number, first, count), [e.sequence for e in entries[first - 1 :][:count]])
        assert await store.holders([(TENANT, 5), (TENANT, 1), (TENANT, 2)]) == [block(1, 1, 2), block(3, 4, 2)]
        assert await store.holders([(TENANT, 3)]) == [block(2, 3, 1)]
        assert await store.holders([(TENANT, 0), (TENANT, 6), ("bolt", 1)]) == []
        assert await store.holders([]) == []

    @on_fresh_store
    async def test_the_entries_of_several_runs_are_read_together(self, store: p.Store) -> None:
        """Sealed or not, by sequence, in pages, each run between its own times; none of another run or tenant."""
        notes = [
            note("a", at=NOW),
            note("b", run="two", at=NOW),
            note("c", run="two", at=NOW + 1),
            note("d", run="three"),
            note("e", tenant="bolt"),
            note("f", run=None),
            note("g", at=NOW + 5),
        ]
        await store.commit(notes)
        spans = [p.Span(p.Key(TENANT, "one")), p.Span(p.Key(TENANT, "two"), NOW + 1), p.Span(p.Key("bolt", "one"))]
        assert _bodies(await store.entries_in(spans, 10)) == "aceg"
        found = await store.unsealed(10)
        assert await seal(store, block(1, 1, 2), [found[2].sequence, found[0].sequence])
        entries = await store.entries_in(spans, 10)
        assert _bodies(entries) == "aceg"
        assert [entry.position for entry in entries] == [2, 1, None, None]
        first = await store.entries_in(spans, 2)
        assert _bodies(first) == "ac"
        assert _bodies(await store.entries_in(spans, 2, first[-1])) == "eg"
        assert _bodies(await store.entries_in([p.Span(p.Key(TENANT, "one"), NOW, NOW + 5)], 10)) == "a"
        assert await store.entries_in([], 10) == []
        await store.commit([note("h", kind="receipt")])
        assert _bodies(await store.entries_in([p.Span(p.Key(TENANT, "one"), kind="receipt")], 10)) == "h"
        assert _bodies(await store.entries_in([p.Span(p.Key(TENANT, "one"), kind="decided")], 10)) == "ag"

    @on_fresh_store
    async def test_the_entries_of_tasks_are_read_by_task(self, store: p.Store) -> None:
        """Sealed or not, by sequence, whatever their run; none of another task, kind or tenant, and none that is
        damaged."""

        def about(task: str, number: int) -> str:
            return f'{{"kind":"approval","at":{number},"task":"{task}","reason":"\\"task\\":\\"f-2\\""}}'

        notes = [
            note(about("f-1", 1), kind="approval"),
            note(about("f-2", 2), kind="approval", run="two"),
            note(about("f-1", 3), kind="approval", run="two"),
            note(about("f-1", 4), kind="decision"),
            note(about("f-1", 5), kind="approval", tenant="bolt"),
            note(about("f-3", 6), kind="approval"),
            note('{"task"', kind="approval"),
        ]
        await store.commit(notes)
        one = [notes[0].body, notes[2].body]
        assert [entry.body for entry in await store.entries_of_tasks(TENANT, ["f-1"])] == one
        unsealed = await store.unsealed(10)
        assert await seal(store, block(1, 1, 2), [unsealed[2].sequence, unsealed[1].sequence])
        found = await store.entries_of_tasks(TENANT, ["f-2", "f-1"])
        assert [entry.body for entry in found] == [notes[at].body for at in (0, 1, 2)]
        assert [entry.position for entry in found] == [None, 2, 1]
        assert await store.entries_of_tasks("bolt", ["f-2"]) == []
        assert await store.entries_of_tasks(TENANT, []) == []

    @on_fresh_store
    async def test_only_the_last_key_seals(self, store: p.Store) -> None:
        """A sealer that does not know the new key yet is refused, and reads the keys again."""
        a, b = await noted(store, "a", "b")
        for number in (1, 2):
            key = p.SigningKey(number, f"key {number}", b"public", None, NOW)
            assert await store.add_signing_key(key)
        assert not await seal(store, block(1, 1, 1), [a.sequence])
        assert await seal(store, replace(block(1, 1, 1), signer="key 2"), [a.sequence])
        assert await store.unsealed(10) == [b]

    @on_fresh_store
    async def test_a_new_key_comes_with_the_ends_of_all_chains(self, store: p.Store) -> None:
        """Where a chain has grown since, nothing is added: its new block would be after the end of its key."""
        first = p.SigningKey(1, "key 1", b"public", None, NOW)
        assert await store.add_signing_key(first)
        a, b = await noted(store, "a", "b")
        (other,) = await noted(store, "c", tenant="bolt")
        assert await seal(store, block(1, 1, 1), [a.sequence])
        ends = [p.ChainEnd(TENANT, 1, b"\x00head")]
        key = p.SigningKey(2, "key 2", b"public", None, NOW, b"endorsed", 1, b"\xffroot", b"signed")
        assert await seal(store, block(1, 1, 1, tenant="bolt"), [other.sequence])
        assert not await store.add_signing_key(key, note("no"), ends)
        ends.append(p.ChainEnd("bolt", 1, b"\xffhead"))
        assert await seal(store, block(2, 2, 1), [b.sequence])
        assert not await store.add_signing_key(key, note("no"), ends)
        ends[0] = p.ChainEnd(TENANT, 2, b"\x00head")
        assert await store.add_signing_key(key, note("yes"), ends)
        assert await store.signing_keys() == [first, key]
        assert await store.chain_ends(2) == sorted(ends, key=lambda end: end.tenant)
        assert await store.chain_ends(1) == []
        assert await bodies(store) == ["a", "b", "yes"]
