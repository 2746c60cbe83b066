"""Items: of two changes of one item one is made, each with its note; and an act is made whole or not at all."""

from __future__ import annotations

import asyncio

import msgspec

from holdfast.store import protocol as p
from holdfast.testing.stores.concurrency import handles
from holdfast.testing.stores.governance.samples import bodies, note, task
from holdfast.testing.stores.samples import NOW, TENANT, begun, commit, deliver, key, row, start
from holdfast.testing.stores.topic import Topic, on_fresh_store


def item(
    id: str = "nightly",
    version: int = 1,
    *,
    kind: str = "schedule",
    tenant: str = TENANT,
    body: bytes = b"body",
    status: str = "active",
    due_at: int | None = None,
) -> p.ItemRow:
    return p.ItemRow(tenant, kind, id, version, body, status, due_at, NOW)


def _act(*changes: p.Act, id: str = "act 1", body: str = "said") -> p.Operate:
    return p.Operate(msgspec.structs.replace(note(body, run=None), id=id), changes)


async def put(store: p.Store, *items: p.ItemRow, id: str = "act 1", body: str = "said") -> p.Answer:
    return await commit(store, _act(*map(p.PutItem, items), id=id, body=body))


class ItemTopic(Topic):
    @on_fresh_store
    async def test_an_item_is_kept_with_its_note(self, store: p.Store) -> None:
        """As it was given; another kind, tenant or id is another item."""
        given = item(due_at=NOW + 5)
        assert await store.item(given.key) is None
        assert await put(store, given) == p.OperatedOn()
        assert await store.item(given.key) == given
        assert await bodies(store) == ["said"]
        for other in (item(kind="user"), item(tenant="bolt"), item("weekly")):
            assert await store.item(other.key) is None

    @on_fresh_store
    async def test_owners_are_the_tenants_that_have_a_run_or_a_user_or_were_made(self, store: p.Store) -> None:
        """By name, each once, and no more than were asked for; another item makes no tenant."""
        assert await store.owners(9) == []
        for number, tenant in enumerate(("run", "run", "both")):
            await begun(store, start(f"r{number}", tenant=tenant))
        for kind, tenant in (("user", "user"), ("tenant", "made"), ("user", "both"), ("schedule", "none")):
            await put(store, item(tenant, kind=kind, tenant=tenant), id=f"{kind} {tenant}")
        assert await store.owners(9) == ["both", "made", "run", "user"]
        assert await store.owners(2) == ["both", "made"]

    @on_fresh_store
    async def test_a_change_names_the_version_before(self, store: p.Store) -> None:
        """Any other is refused, and leaves neither a change nor a note."""
        await put(store, item())
        for version in (1, 3):
            assert await put(store, item(version=version, body=b"new"), id="act 2") == p.Fenced()
        assert await store.item(item().key) == item()
        assert (
            await put(store, item(version=2, body=b"new", status="paused"), id="act 3", body="again") == p.OperatedOn()
        )
        assert await store.item(item().key) == item(version=2, body=b"new", status="paused")
        assert await bodies(store) == ["said", "again"]
        assert await put(store, item("other", 2), id="act 4") == p.Fenced()

    @on_fresh_store
    async def test_an_act_committed_again_is_made_once(self, store: p.Store) -> None:
        """Its answer was lost, and the item has changed since."""
        for answer in (p.OperatedOn(), p.Repeated()):
            assert await put(store, item()) == answer
        await put(store, item(version=2, body=b"new"), id="act 2")
        assert await put(store, item()) == p.Repeated()
        assert await store.item(item().key) == item(version=2, body=b"new")
        assert await bodies(store) == ["said", "said"]

    @on_fresh_store
    async def test_what_an_act_expects_must_hold(self, store: p.Store) -> None:
        """An item at a version, or none at all; else nothing of the act is made."""
        user = item("ann", kind="user")
        await put(store, user)
        missing = p.ItemKey(TENANT, "user", "bob")
        run = await begun(store, start())
        for expected in (p.ExpectItem(user.key, 2), p.ExpectItem(user.key, 0), p.ExpectItem(missing, 1)):
            act = _act(expected, p.PutItem(item()), p.Pause(key(), "look", NOW), id="act 2")
            assert await commit(store, act) == p.Fenced()
        assert (await store.item(item().key), await row(store)) == (None, run)
        act = _act(p.ExpectItem(user.key, 1), p.ExpectItem(missing, 0), p.PutItem(item()), deliver(), id="act 3")
        assert await commit(store, act) == p.OperatedOn()
        assert await store.item(item().key) == item()
        assert len((await store.messages([key()]))[key()]) == 1

    @on_fresh_store
    async def test_an_item_that_is_over_is_deleted_at_its_version(self, store: p.Store) -> None:
        """With the note, and with the rest of the act or not at all. Made again it begins with version 1."""
        await put(store, item(due_at=NOW), item("weekly", due_at=NOW))
        behind = _act(p.DropItem(item().key, 2), p.PutItem(item("other")), id="act 2")
        assert await commit(store, behind) == p.Fenced()
        assert await commit(store, _act(p.DropItem(item("gone").key, 1), id="act 2")) == p.Fenced()
        assert await store.item(item("other").key) is None
        act = _act(p.DropItem(item().key, 1), p.PutItem(item("other")), id="act 3", body="dropped")
        for answer in (p.OperatedOn(), p.Repeated()):
            assert await commit(store, act) == answer
        assert [row.id for row in await store.items("schedule", 9)] == ["other", "weekly"]
        assert [row.id for row in await store.due_items("schedule", NOW, 9)] == ["weekly"]
        assert await bodies(store) == ["said", "dropped"]
        assert await put(store, item(), id="act 4") == p.OperatedOn()

    @on_fresh_store
    async def test_a_tally_raises_the_version_and_nothing_else(self, store: p.Store) -> None:
        """Each by one, also many in one batch, without a note; the item is due from the first one on."""
        tally = p.Tally(item().key, NOW + 7)
        assert await commit(store, tally) == p.Unknown()
        await put(store, item(), item("weekly", due_at=NOW))
        later, weekly = p.Tally(item().key, NOW + 9), p.Tally(item("weekly").key, NOW + 7)
        assert await store.commit([tally, weekly, later, later]) == [p.Tallied()] * 4
        assert await store.item(item().key) == item(version=4, due_at=NOW + 7)
        assert await store.item(weekly.key) == item("weekly", 2, due_at=NOW)
        assert await bodies(store) == ["said"]
        assert await put(store, item(version=2), id="act 2") == p.Fenced()
        both = await store.commit([later, _act(p.PutItem(item(version=6, body=b"new")), id="act 3"), tally])
        assert both == [p.Tallied(), p.OperatedOn(), p.Tallied()]
        assert await store.item(item().key) == item(version=7, body=b"new", due_at=NOW + 7)

    @on_fresh_store
    async def test_tallies_and_acts_at_once_lose_nothing(self, store: p.Store) -> None:
        """Several processes count while another notes: every tally is in one version."""
        await put(store, item())
        async with handles(store, 3) as (one, two, three):

            async def count(own: p.Store) -> None:
                for _ in range(10):
                    await own.commit([p.Tally(item().key, NOW)])

            async def note_now() -> int:
                made = 0
                for number in range(10):
                    present = await three.item(item().key)
                    assert present is not None
                    change = p.PutItem(item(version=present.version + 1))
                    made += await commit(three, _act(change, id=f"note {number}")) == p.OperatedOn()
                return made

            _, _, made = await asyncio.gather(count(one), count(two), note_now())
        last = await store.item(item().key)
        assert last is not None
        assert last.version == 1 + 20 + made

    @on_fresh_store
    async def test_an_act_starts_a_run_and_moves_an_item_on(self, store: p.Store) -> None:
        """Both or neither: where the id is taken, or the item is at another version."""
        await put(store, item())
        act = _act(p.PutItem(item(version=2)), start("tick 1"), id="act 2", body="tick")
        assert await commit(store, act) == p.OperatedOn()
        assert (await row(store, "tick 1")).ready_at == NOW
        assert await commit(store, act) == p.Repeated()
        behind = _act(p.PutItem(item(version=2)), start("tick 2"), id="act 3")
        assert await commit(store, behind) == p.Fenced()
        assert await store.get([key("tick 2")]) == []
        taken = await commit(store, _act(p.PutItem(item(version=3)), start("tick 1"), id="act 4"))
        assert taken == p.Exists("greet", b"greet tick 1", "tick 1")
        assert await store.item(item().key) == item(version=2)
        assert await bodies(store) == ["said", "tick"]

    @on_fresh_store
    async def test_an_act_answers_a_task_where_its_user_is_as_expected(self, store: p.Store) -> None:
        """Somebody who was demoted meanwhile has not answered."""
        user = item("ann", kind="user")
        await put(store, user)
        await commit(store, p.PutTask(task()))
        answered = msgspec.structs.replace(task(), version=2, status="approved")
        await put(store, item("ann", 2, kind="user"), id="act 2")
        refused = _act(p.ExpectItem(user.key, 1), p.PutTask(answered, (note("attached"),)), id="act 3")
        assert await commit(store, refused) == p.Fenced()
        assert await store.task(TENANT, task().id) == task()
        allowed = _act(p.ExpectItem(user.key, 2), p.PutTask(answered, (note("attached"),)), id="act 4", body="said")
        assert await commit(store, allowed) == p.OperatedOn()
        assert await store.task(TENANT, task().id) == answered
        late = _act(
            p.ExpectItem(user.key, 2), p.PutTask(msgspec.structs.replace(answered, status="rejected")), id="act 5"
        )
        assert await commit(store, late) == p.Fenced()
        assert await bodies(store) == ["said", "said", "attached", "said"]

    @on_fresh_store
    async def test_of_many_that_change_one_item_at_once_one_succeeds(self, store: p.Store) -> None:
        """Through several handles, as from several processes; also where the item is not there yet."""
        for version in (1, 2):
            async with handles(store) as shared:
                answers = await asyncio.gather(
                    *(
                        put(
                            shared[at % 3],
                            item(version=version, body=b"%d" % at),
                            id=f"act {version} {at}",
                            body=str(at),
                        )
                        for at in range(9)
                    )
                )
            assert sorted(type(answer).__name__ for answer in answers) == ["Fenced"] * 8 + ["OperatedOn"]
            found = await store.item(item().key)
            assert found is not None
            assert found.body == b"%d" % answers.index(p.OperatedOn())

    @on_fresh_store
    async def test_acts_that_expect_each_others_items_cannot_both_succeed(self, store: p.Store) -> None:
        """Each removes one on condition that the other is there: one of the two is refused, in any order of locks."""
        await put(store, item("ann", kind="user"), item("bob", kind="user"))
        acts = [
            _act(p.ExpectItem(item(mine, kind="user").key, 1), p.PutItem(item(other, 2, kind="user")), id=mine)
            for mine, other in (("ann", "bob"), ("bob", "ann"))
        ]
        async with handles(store) as shared:
            answers = await asyncio.gather(*(commit(shared[at], act) for at, act in enumerate(acts)))
        assert sorted(type(answer).__name__ for answer in answers) == ["Fenced", "OperatedOn"]

    @on_fresh_store
    async def test_acts_on_one_item_in_one_batch_are_made_in_order(self, store: p.Store) -> None:
        """The second sees the first."""
        batch = [_act(p.PutItem(item(version=number)), id=str(number)) for number in (1, 2, 2, 3)]
        assert await store.commit(batch) == [p.OperatedOn(), p.OperatedOn(), p.Repeated(), p.OperatedOn()]
        batch = [_act(p.PutItem(item("b", number)), id=f"b {at}") for at, number in enumerate((1, 1, 2))]
        assert await store.commit(batch) == [p.OperatedOn(), p.Fenced(), p.OperatedOn()]

    @on_fresh_store
    async def test_items_are_listed_by_tenant_and_id(self, store: p.Store) -> None:
        """In pages; of one tenant or of all, with an id, with a status."""
        given = [item(id, tenant=tenant) for tenant in (TENANT, "bolt") for id in ("a", "b", "c")]
        for at, each in enumerate(reversed(given)):
            await put(store, each, id=f"act {at}")
        await put(store, item("b", 2, status="paused"), id="pause")
        await put(store, item("a", kind="user"), id="other")
        assert [each.key for each in await store.items("schedule", 10)] == [each.key for each in given]
        assert [each.key for each in await store.items("schedule", 10, tenant="bolt")] == [
            each.key for each in given[3:]
        ]
        first = await store.items("schedule", 4)
        assert [each.key for each in await store.items("schedule", 4, after=first[-1].key)] == [
            each.key for each in given[4:]
        ]
        assert [each.tenant for each in await store.items("schedule", 9, id="b")] == [TENANT, "bolt"]
        assert [each.key for each in await store.items("schedule", 9, status="paused")] == [given[1].key]

    @on_fresh_store
    async def test_due_items_come_in_the_order_of_their_times(self, store: p.Store) -> None:
        """Only those of the kind that are due; and the time of the next is known."""
        assert await store.next_due_item("schedule") is None
        times = {"a": NOW + 30, "b": NOW + 10, "c": NOW + 20, "d": None}
        for id, due_at in times.items():
            await put(store, item(id, due_at=due_at), id=f"act {id}")
        await put(store, item("e", kind="user", due_at=NOW), id="other")
        assert await store.next_due_item("schedule") == NOW + 10
        assert await store.due_items("schedule", NOW + 9, 10) == []
        assert [each.id for each in await store.due_items("schedule", NOW + 20, 10)] == ["b", "c"]
        assert [each.id for each in await store.due_items("schedule", NOW + 99, 2)] == ["b", "c"]
        now = await store.now()
        later = now + 3600 * 1_000_000
        await put(store, item("f", kind="clock", due_at=later), id="later")
        found = await store.due_now("clock", 10)
        assert (now <= found.now <= await store.now(), found.rows) == (True, [])
        await put(store, item("g", kind="clock", due_at=now), item("h", kind="clock", due_at=NOW), id="now")
        found = await store.due_now("clock", 10)
        assert [each.id for each in found.rows] == ["h", "g"]
        assert await store.due_items("clock", found.now, 10) == found.rows
        assert [each.id for each in (await store.due_now("clock", 1)).rows] == ["h"]
        assert (await store.due_now("clock", 0)).rows == []
        await put(store, item("b", 2), id="over")
        assert await store.next_due_item("schedule") == NOW + 20
