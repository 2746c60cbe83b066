"""Writes: counted with the opening of a receipt, for its run and for each run above it."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.testing.stores.concurrency import handles
from holdfast.testing.stores.governance.samples import closed, receipt
from holdfast.testing.stores.samples import COMPLETED, NOW, WORKFLOW, advanced, begun, commit, row, start, turn
from holdfast.testing.stores.topic import Topic, on_fresh_store

TWO = p.WriteLimits(2)


async def family(store: p.Store, *runs: str) -> None:
    """Runs whose ids name their parents."""
    for run in runs:
        await begun(store, start(run, parent=run.rpartition("~")[0] or None))


def write(name: str, run: str = "one", limits: p.WriteLimits | None = TWO, **more: str) -> p.OpenReceipt:
    return p.OpenReceipt(receipt(name, id=f"r-{name}", run=run, token=more.pop("token", f"t-{name}")), limits=limits)


async def answers(store: p.Store, *changes: p.OpenReceipt) -> list[p.Answer]:
    """Each committed alone."""
    return [await commit(store, change) for change in changes]


async def set_cap(store: p.Store, cap: p.ItemKey, body: bytes, status: str = p.CAP_SET, version: int = 1) -> None:
    """A cap on writes as people set it."""
    key = p.write_cap_key(cap)
    note = p.Note(key.tenant, None, "operated", NOW, b"{}", id=f"{key.id} {version}")
    put = p.PutItem(p.ItemRow(*key, version, body, status, None, NOW))
    assert await commit(store, p.Operate(note, (put,))) == p.OperatedOn()


class Writes(Topic):
    @on_fresh_store
    async def test_a_run_writes_as_often_as_it_may(self, store: p.Store) -> None:
        """Then nothing is opened, and the answer names the run that has none left."""
        await family(store, "one")
        made = await answers(store, write("a"), write("b"), write("c"), write("d", limits=p.WriteLimits(3)))
        assert made == [p.Opened(), p.Opened(), p.Capped("one", 2, 2), p.Opened()]
        assert await store.receipt_of_key("acme", "c") is None

    @on_fresh_store
    async def test_a_write_counts_for_all_runs_above(self, store: p.Store) -> None:
        """Children at every level share the count; siblings and independent runs have their own."""
        await family(store, "one", "one~1", "one~2", "one~1~1", "two")
        assert await answers(store, write("a", "one~1~1"), write("b", "one~2")) == [p.Opened(), p.Opened()]
        assert await commit(store, write("c", "one~1")) == p.Capped("one", 2, 2)
        assert await commit(store, write("d", "one")) == p.Capped("one", 2, 2)
        assert await commit(store, write("e", "two")) == p.Opened()

    @on_fresh_store
    async def test_a_run_that_is_not_its_parents_is_not_counted_there(self, store: p.Store) -> None:
        """The id alone makes no child."""
        await family(store, "one")
        await begun(store, start("one~1"))
        assert await answers(store, write("a", "one~1"), write("b", "one~1")) == [p.Opened(), p.Opened()]
        assert await commit(store, write("c", "one")) == p.Opened()

    @on_fresh_store
    async def test_each_workflow_has_its_own_limit(self, store: p.Store) -> None:
        """A child's own, smaller limit holds for the child, its parent's for both."""
        await begun(store, start("one"))
        await begun(store, start("one~1", parent="one", workflow="small"))
        limits = p.WriteLimits(None, {"small": 1, WORKFLOW: 2})
        changes = (write("a", "one~1", limits), write("b", "one~1", limits), write("c", "one", limits))
        assert await answers(store, *changes) == [p.Opened(), p.Capped("one~1", 1, 1), p.Opened()]
        assert await commit(store, write("d", "one", limits)) == p.Capped("one", 2, 2)

    @on_fresh_store
    async def test_a_cap_that_people_set_holds_beside_the_given_limit(self, store: p.Store) -> None:
        """From its commit on, for the tenant, the workspace and the template of the run or of one above it; of all that
        concern it the strictest holds. What cannot be read allows nothing."""
        await begun(store, replace(start("one", attributes={"template": "bill"}), origin=p.Origin("north")))
        await begun(store, start("one~1", parent="one"))
        free = p.WriteLimits()
        assert await commit(store, write("a", "one~1", free)) == p.Opened()
        await set_cap(store, p.cap_key("other"), b'{"max_writes_per_run":0}')
        await set_cap(store, p.cap_key("acme", template="other"), b'{"max_writes_per_run":0}')
        assert await commit(store, write("b", "one~1", free)) == p.Opened()
        await set_cap(store, p.cap_key("acme", workspace="north"), b'{"max_writes_per_run":3}')
        assert await commit(store, write("c", "one~1", free)) == p.Opened()
        assert await commit(store, write("d", "one~1", free)) == p.Capped("one", 3, 3)
        await set_cap(store, p.cap_key("acme", template="bill"), b'{"max_writes_per_run":2}')
        assert await commit(store, write("d", "one~1", free)) == p.Capped("one", 3, 2)
        await set_cap(store, p.cap_key("acme"), b'{"max_writes_per_run":1}')
        assert await commit(store, write("d", "one~1", p.WriteLimits(9))) == p.Capped("one~1", 3, 1)
        for key in (p.cap_key("acme", template="bill"), p.cap_key("acme", workspace="north")):
            await set_cap(store, key, b"{}", p.CAP_UNSET, version=2)
        await set_cap(store, p.cap_key("acme"), b'{"max_writes_per_run":9}', version=2)
        assert await commit(store, write("d", "one~1", p.WriteLimits(3))) == p.Capped("one~1", 3, 3)
        assert await commit(store, write("d", "one~1", free)) == p.Opened()
        await set_cap(store, p.cap_key("acme"), b"altered", version=3)
        assert await commit(store, write("e", "one", free)) == p.Capped("one", 4, 0)

    @on_fresh_store
    async def test_writes_without_a_limit_are_counted(self, store: p.Store) -> None:
        """A policy may set one later."""
        await family(store, "one", "one~1")
        free = p.WriteLimits()
        assert await answers(store, *(write(name, "one~1", free) for name in "abc")) == [p.Opened()] * 3
        assert await commit(store, write("d", "one", p.WriteLimits(3))) == p.Capped("one", 3, 3)

    @on_fresh_store
    async def test_what_is_no_write_more_is_not_counted(self, store: p.Store) -> None:
        """Another attempt of a call, a repeated opening, and a key that another receipt has."""
        await family(store, "one", "two")
        limits = p.WriteLimits(1)
        first = write("a", limits=limits)
        assert await answers(store, first, first) == [p.Opened(), p.Opened()]
        assert await commit(store, write("a", "two", limits, token="other")) == p.Taken(first.receipt)
        failed = await closed(store, replace(first.receipt, state="failed", closed_at=NOW))
        again = replace(failed, token="again", state="pending", closed_at=None)
        assert await commit(store, p.OpenReceipt(again)) == p.Opened()
        assert await commit(store, write("b", "two", limits)) == p.Opened()
        assert await commit(store, write("c", limits=limits)) == p.Capped("one", 1, 1)

    @on_fresh_store
    async def test_a_key_that_is_taken_is_told_before_the_limit(self, store: p.Store) -> None:
        """A finished act is not written again, so it does not matter that no write is left."""
        await family(store, "one", "two")
        done = write("a", "two")
        assert await answers(store, done, write("b"), write("c")) == [p.Opened()] * 3
        assert await commit(store, write("a", token="other")) == p.Taken(done.receipt)
        unknown = await closed(store, replace(done.receipt, state="unknown", error="lost"))
        assert await commit(store, write("a", token="other")) == p.Taken(unknown)
        instead = replace(write("a", token="other"), instead_of=unknown.token)
        assert await commit(store, instead) == p.Capped("one", 2, 2)

    @on_fresh_store
    async def test_of_a_batch_the_first_have_what_is_left(self, store: p.Store) -> None:
        """In the order of the batch, not of the keys; an opening whose key is taken is not counted."""
        await family(store, "one", "one~1", "one~2", "two")
        taken = write("m", "two")
        assert await commit(store, taken) == p.Opened()
        batch = [
            write("z", "one~1"),
            write("m", "one", token="other"),
            write("y", "one~2"),
            write("a", "one"),
            write("b", "two"),
        ]
        full = p.Capped("one", 2, 2)
        assert await store.commit(batch) == [p.Opened(), p.Taken(taken.receipt), p.Opened(), full, p.Opened()]

    @on_fresh_store
    async def test_a_refused_turn_counts_nothing(self, store: p.Store) -> None:
        """The count is part of the turn."""
        first = await begun(store, start("one", owner="ann"))
        fenced = replace(turn(first, attached=(write("a"),)), epoch=first.epoch + 1)
        assert await commit(store, fenced) == p.Fenced()
        made = await advanced(store, turn(first, attached=(write("b"), write("c"), write("d"))))
        assert made.attached == (p.Opened(), p.Opened(), p.Capped("one", 2, 2))

    @on_fresh_store
    async def test_a_turn_whose_answer_was_lost_counts_once(self, store: p.Store) -> None:
        """It is committed again, and answered as before."""
        change = turn(await begun(store, start("one", owner="ann")), attached=(write("a"), write("b"), write("c")))
        made = await advanced(store, change)
        assert (
            (await advanced(store, change)).attached == made.attached == (p.Opened(), p.Opened(), p.Capped("one", 2, 2))
        )

    @on_fresh_store
    async def test_children_at_once_write_no_more_than_their_parent_may(self, store: p.Store) -> None:
        """On several handles, mixed with their parent's own turns: no write is lost, and none passes the limit."""
        children = [f"one~{number}" for number in range(12)]
        await begun(store, start("one", owner="ann"))
        for child in children:
            await begun(store, start(child, owner="ann", parent="one"))
        limits = p.WriteLimits(5)
        async with handles(store) as several:

            async def act(number: int, run: str) -> p.Answer:
                change = turn(await row(store, run), attached=(write(f"k{number}", run, limits),))
                return (await advanced(several[number % len(several)], change)).attached[0]

            made = await asyncio.gather(*(act(number, run) for number, run in enumerate([*children, "one"])))
        assert made.count(p.Opened()) == 5
        assert made.count(p.Capped("one", 5, 5)) == 8

    @on_fresh_store
    async def test_a_pruned_run_leaves_no_count_behind(self, store: p.Store) -> None:
        """Its parent proposed nothing itself, so its id may be used again."""
        first = await begun(store, start("one", owner="ann"))
        await begun(store, start("one~1", parent="one"))
        assert await answers(store, write("a", "one~1"), write("b", "one~1")) == [p.Opened()] * 2
        await advanced(store, turn(first, COMPLETED))
        assert await store.prune(NOW + 100, 100) == 1
        await family(store, "one")
        assert await commit(store, write("c", "one")) == p.Opened()
