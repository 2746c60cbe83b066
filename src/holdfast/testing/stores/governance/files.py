"""Files: the files of a run, its evidence among them."""

from __future__ import annotations

import hashlib

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.testing.stores.governance.samples import block, note, noted, seal
from holdfast.testing.stores.samples import (
    COMPLETED,
    NOW,
    TENANT,
    advanced,
    begun,
    commit,
    ended,
    key,
    leased,
    renewal,
    row,
    start,
    turn,
)
from holdfast.testing.stores.topic import Topic, on_fresh_store

GOVERNED = replace(COMPLETED, governed=True)


def kept_file(
    name: str = "report.txt", data: bytes = b"data", *, run: str = "one", generation: int = 0, at: int = NOW
) -> p.KeptFile:
    return p.KeptFile(key(run), generation, name, hashlib.sha256(data).digest(), len(data), at)


async def keep(store: p.Store, about: p.KeptFile, data: bytes, through: int = -1) -> bool:
    """Keep one file."""
    (kept,) = await store.keep_files([p.File(about, data, through)])
    return kept


async def governed_end(store: p.Store, run: str = "one", *, at: int = NOW) -> p.Run:
    """Let a run that has proposed an action complete."""
    await advanced(store, turn(await leased(store, run), GOVERNED, at=at))
    return await row(store, run)


async def due(store: p.Store, limit: int = 10) -> list[str]:
    return [run.key.run for run in await store.evidence_due(limit)]


class Files(Topic):
    @on_fresh_store
    async def test_a_file_is_read_as_it_was_kept(self, store: p.Store) -> None:
        """Its bytes by run, generation and name, and nothing under any other."""
        data = bytes(range(256)) * 300
        await keep(store, kept_file("a.bin", data), data)
        assert await store.file(key(), 0, "a.bin") == data
        assert await store.files(key()) == [kept_file("a.bin", data)]
        for run, generation, name in (("two", 0, "a.bin"), ("one", 1, "a.bin"), ("one", 0, "b.bin")):
            assert await store.file(key(run), generation, name) is None
        assert await store.files(key("two")) == []

    @on_fresh_store
    async def test_a_large_file_is_read_in_parts(self, store: p.Store) -> None:
        """Evidence over a size comes without its bytes; a part beyond the end is empty."""
        data = bytes(range(256)) * 300
        await keep(store, kept_file(p.EVIDENCE, data), data)
        parts = [await store.file_part(key(), 0, p.EVIDENCE, at, 30_000) for at in range(0, 90_001, 30_000)]
        assert parts == [data[:30_000], data[30_000:60_000], data[60_000:], b""]
        assert await store.file_part(key(), 1, p.EVIDENCE, 0, 10) is None
        for largest, found in ((len(data), data), (len(data) - 1, b"")):
            assert await store.kept_evidence([key()], largest) == [p.File(kept_file(p.EVIDENCE, data), found)]

    @on_fresh_store
    async def test_files_are_listed_oldest_first(self, store: p.Store) -> None:
        """Those of all generations of one run, and of no other."""
        for name, generation, at in (("a", 1, 3), ("b", 0, 1), ("c", 0, 2), ("b", 1, 4)):
            await keep(store, kept_file(name, generation=generation, at=NOW + at), b"data")
        await keep(store, kept_file("d", run="two"), b"data")
        found = [(kept.name, kept.generation) for kept in await store.files(key())]
        assert found == [("b", 0), ("c", 0), ("a", 1), ("b", 1)]

    @on_fresh_store
    async def test_a_file_of_the_same_name_takes_the_place_of_the_other(self, store: p.Store) -> None:
        """Within its generation; that of another generation stays."""
        await keep(store, kept_file(data=b"old"), b"old")
        await keep(store, kept_file(data=b"next", generation=1, at=NOW + 1), b"next")
        await keep(store, kept_file(data=b"newer", at=NOW + 2), b"newer")
        assert [await store.file(key(), number, "report.txt") for number in (0, 1)] == [b"newer", b"next"]
        kept = await store.files(key())
        assert kept == [kept_file(data=b"next", generation=1, at=NOW + 1), kept_file(data=b"newer", at=NOW + 2)]

    @on_fresh_store
    async def test_files_outlive_their_run(self, store: p.Store) -> None:
        """Pruning a run leaves its evidence."""
        await ended(store)
        await keep(store, kept_file(p.EVIDENCE), b"data")
        assert await store.prune(NOW + 1, 10) == 1
        assert await store.files(key()) == [kept_file(p.EVIDENCE)]
        assert await store.file(key(), 0, p.EVIDENCE) == b"data"

    @on_fresh_store
    async def test_files_are_kept_together_and_judged_each_on_its_own(self, store: p.Store) -> None:
        """Of several runs and tenants, with others than evidence between; one that lacks an entry is left out."""
        for name in ("one", "two", "three"):
            await governed_end(store, name)
        await store.commit([note("late", run="two")])
        (entry,) = await store.unsealed(10)
        assert await seal(store, block(), [entry.sequence])
        files = [p.File(kept_file(p.EVIDENCE, run=name), b"data") for name in ("three", "two", "one")]
        other = p.KeptFile(p.Key("bolt", "one"), 0, p.EVIDENCE, b"hash", 4, NOW)
        files += [p.File(kept_file(run="two"), b"data"), p.File(other, b"data", 7)]
        assert await store.keep_files(files) == [True, False, True, True, True]
        assert [run.key.run for run in await store.evidence_due(10)] == ["two"]
        assert [each.name for each in await store.files(key("two"))] == ["report.txt"]
        assert await store.file(other.key, 0, p.EVIDENCE) == b"data"
        assert await store.keep_files([]) == []

    @on_fresh_store
    async def test_evidence_shows_in_the_row_of_its_run(self, store: p.Store) -> None:
        """The hash of the present generation's evidence; other files, and those of other generations, do not show."""
        run = await governed_end(store)
        await keep(store, kept_file(), b"data")
        await keep(store, kept_file(p.EVIDENCE, b"later", generation=1), b"later")
        assert await row(store) == run
        await keep(store, kept_file(p.EVIDENCE, b"proof"), b"proof")
        assert await row(store) == replace(run, evidence=hashlib.sha256(b"proof").digest())

    @on_fresh_store
    async def test_a_renewed_run_has_no_evidence_yet(self, store: p.Store) -> None:
        """Evidence is of one generation. What the last generation has stays among its files."""
        await governed_end(store)
        await keep(store, kept_file(p.EVIDENCE, b"proof"), b"proof")
        await commit(store, p.Renew(key(), 0, renewal(), p.Projection("queued"), NOW))
        after = await row(store)
        assert (after.evidence, after.governed) == (None, True)
        assert await due(store) == []
        (run,) = (await store.claim("ann", p.Serves((after.workflow,)), 1, NOW)).runs
        await advanced(store, turn(run, COMPLETED))
        assert await due(store) == ["one"]
        assert await store.file(key(), 0, p.EVIDENCE) == b"proof"

    @on_fresh_store
    async def test_evidence_is_due_for_governed_runs_that_have_ended(self, store: p.Store) -> None:
        """Oldest end first, within the limit, until it is kept; never for a run without an action or before its end."""
        await ended(store, "plain")
        await advanced(store, turn(await leased(store, "going"), p.Projection("running", governed=True)))
        for name, at in (("b", 2), ("c", 3), ("a", 1)):
            await governed_end(store, name, at=NOW + at)
        assert await due(store) == ["a", "b", "c"]
        assert await due(store, 2) == ["a", "b"]
        assert await store.evidence_due(1) == [await row(store, "a")]
        await keep(store, kept_file(run="a"), b"data")
        assert await due(store) == ["a", "b", "c"]
        await keep(store, kept_file(p.EVIDENCE, run="a"), b"data")
        assert await due(store) == ["b", "c"]

    @on_fresh_store
    async def test_evidence_is_due_for_a_run_that_ends_where_it_starts(self, store: p.Store) -> None:
        """A first turn may be the last one."""
        await begun(store, start(projection=GOVERNED))
        assert await due(store) == ["one"]

    @on_fresh_store
    async def test_sealing_an_entry_makes_the_evidence_of_its_run_due_again(self, store: p.Store) -> None:
        """The kept evidence lacks it, and stays until replaced. Entries of others and refused blocks change nothing."""
        for name in ("one", "two"):
            await governed_end(store, name)
            await keep(store, kept_file(p.EVIDENCE, run=name), b"data")
        await store.commit([note("a", run="two"), note("b", run=None), note("c", tenant="bolt"), note("d"), note("e")])
        two, nobody, other, *mine = await store.unsealed(10)
        assert await seal(store, block(1, 1, 2), [two.sequence, nobody.sequence])
        assert await seal(store, block(tenant="bolt"), [other.sequence])
        assert not await seal(store, block(9, 9, 2), [entry.sequence for entry in mine])
        assert await due(store) == ["two"]
        assert await seal(store, block(2, 3, 2), [entry.sequence for entry in mine])
        assert [run.evidence for run in await store.get([key(), key("two")])] == [None, None]
        assert await due(store) == ["one", "two"]
        assert await store.file(key(), 0, p.EVIDENCE) == b"data"

    @on_fresh_store
    async def test_evidence_that_lacks_a_sealed_entry_is_not_kept(self, store: p.Store) -> None:
        """One may be sealed while the evidence is made: then nothing is kept, nor what was kept replaced."""
        await governed_end(store)
        assert await keep(store, kept_file(p.EVIDENCE, b"old"), b"old")
        await store.commit([note("a"), note("b"), note("c", run="two"), note("d", tenant="bolt"), note("e")])
        a, b, c, d, _ = await store.unsealed(10)
        assert await seal(store, block(1, 1, 3), [entry.sequence for entry in (a, b, c)])
        assert await seal(store, block(1, 9, 1, tenant="bolt"), [d.sequence])
        for through in (-1, 1):
            assert not await keep(store, kept_file(p.EVIDENCE, b"new"), b"new", through)
        assert (await row(store)).evidence is None
        assert await store.files(key()) == [kept_file(p.EVIDENCE, b"old")]
        assert await keep(store, kept_file(), b"data")
        assert await keep(store, kept_file(p.EVIDENCE, b"new"), b"new", 2)
        assert (await row(store)).evidence == hashlib.sha256(b"new").digest()
        assert await store.file(key(), 0, p.EVIDENCE) == b"new"

    @on_fresh_store
    async def test_evidence_without_a_run_is_kept_likewise(self, store: p.Store) -> None:
        """Even if the run is deleted since: kept evidence must be complete."""
        (entry,) = await noted(store, "a")
        await seal(store, block(), [entry.sequence])
        assert not await keep(store, kept_file(p.EVIDENCE), b"data")
        assert await store.files(key()) == []
        assert await keep(store, kept_file(p.EVIDENCE), b"data", 1)
        assert await store.files(p.Key(TENANT, "one")) == [kept_file(p.EVIDENCE)]

    @on_fresh_store
    async def test_the_evidence_of_several_runs_is_read_together(self, store: p.Store) -> None:
        """Of all generations, and no other file of them."""
        for run, generation, data in (("two", 0, b"b"), ("one", 1, b"c"), ("one", 0, b"a"), ("three", 0, b"d")):
            await keep(store, kept_file(p.EVIDENCE, data, run=run, generation=generation), data)
        await keep(store, kept_file(), b"data")
        found = await store.kept_evidence([key("two"), key("one"), key("nobody"), key("one")], 100)
        assert [(file.about.key.run, file.about.generation, file.data) for file in found] == [
            ("one", 0, b"a"),
            ("one", 1, b"c"),
            ("two", 0, b"b"),
        ]
        assert found[0] == p.File(kept_file(p.EVIDENCE, b"a"), b"a")
        assert await store.kept_evidence([], 100) == []
