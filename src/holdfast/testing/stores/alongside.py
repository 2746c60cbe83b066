"""Attached changes: applied if and only if the change that carries them is, and only once."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.testing.stores.samples import (
    NOW,
    RUNNING,
    advanced,
    begun,
    claimed,
    commit,
    deliver,
    key,
    leased,
    row,
    start,
    turn,
    work,
)
from holdfast.testing.stores.topic import Topic, on_fresh_store


class Alongside(Topic):
    @on_fresh_store
    async def test_what_comes_with_a_turn_is_applied_and_answered_in_order(self, store: p.Store) -> None:
        """A child, a message to another run, offered work and withdrawn work are attached to one change."""
        run = await leased(store)
        await begun(store, start("two"))
        await commit(store, p.Enqueue(work(1)))
        attached = (
            start("child", parent="one"),
            deliver("two"),
            p.Enqueue(work(2)),
            p.Withdraw(key(), 1),
            deliver("nobody"),
        )
        answer = await advanced(store, turn(run, attached=attached))
        assert answer.attached == (p.Started(1), p.Delivered(1), p.Enqueued(), p.Withdrawn(), p.Unknown())
        assert (await row(store, "child")).parent == "one"
        assert (await row(store, "two")).arrived == 1
        assert [offer.position for offer, _ in await store.work_of(key())] == [2]

    @on_fresh_store
    async def test_what_comes_with_a_fenced_turn_is_not_applied(self, store: p.Store) -> None:
        """No child, no message, no work, no blob, no journal."""
        run = await leased(store)
        await commit(store, p.Enqueue(work(1)))
        attached = (start("child"), deliver("one"), p.Enqueue(work(2)), p.Withdraw(key(), 1))
        stale = replace(turn(run, attached=attached, blobs={b"digest": b"data"}), epoch=run.epoch + 1)
        assert await commit(store, stale) == p.Fenced()
        assert await store.get([key("child")]) == []
        assert await row(store) == run
        assert [offer.position for offer, _ in await store.work_of(key())] == [1]
        assert await store.blob("acme", b"digest") is None

    @on_fresh_store
    async def test_what_comes_with_a_start_is_applied_only_where_it_starts(self, store: p.Store) -> None:
        """The attached changes of a second start of an id are not made."""
        first = start("one", attached=(start("child"), deliver("one"), p.Enqueue(work(1))))
        assert await commit(store, first) == p.Started(1, (p.Started(1), p.Delivered(1), p.Enqueued()))
        assert isinstance(await commit(store, start("one", attached=(deliver("one"), start("other")))), p.Exists)
        assert (await row(store)).arrived == 1
        assert await store.get([key("other")]) == []

    @on_fresh_store
    async def test_a_refusal_alongside_does_not_refuse_the_turn(self, store: p.Store) -> None:
        """A child whose id is taken is answered so; the turn and the rest are applied."""
        run = await leased(store)
        taken = await begun(store, start("child"))
        answer = await advanced(store, turn(run, attached=(start("child"), p.Enqueue(work()))))
        assert answer.attached == (p.Exists(taken.workflow, taken.fingerprint, taken.key.run), p.Enqueued())
        assert (await row(store)).version == run.version + 1

    @on_fresh_store
    async def test_what_comes_with_a_repeated_turn_is_not_doubled(self, store: p.Store) -> None:
        """Messages, with or without an id, are there once; work that is done since is not offered again; the child is
        the same."""
        run = await leased(store)
        await begun(store, start("two"))
        attached = (deliver("two", id="named"), deliver("two", "nameless"), p.Enqueue(work(1)), start("child"))
        change = turn(run, attached=attached)
        await advanced(store, change)
        (held,) = (await store.claim_work("ann", {"mail": 1}, NOW)).work
        assert await commit(store, p.FinishWork(key(), 1, held.epoch, deliver().message)) == p.Delivered(1)
        child = await row(store, "child")

        again = await advanced(store, change)
        assert again.attached == (
            p.Repeated(),
            p.Repeated(),
            p.Enqueued(),
            p.Exists(child.workflow, child.fingerprint, child.key.run),
        )
        assert (await row(store, "two")).arrived == 2
        assert await store.work_of(key()) == []
        assert await row(store, "child") == child

    @on_fresh_store
    async def test_a_run_may_send_itself_a_message(self, store: p.Store) -> None:
        """It arrives after the turn that sent it, and the run continues with it."""
        run = await leased(store)
        answer = await advanced(store, turn(run, RUNNING, release=True, attached=(deliver("one"),)))
        assert answer.attached == (p.Delivered(1),)
        after = await row(store)
        assert after.arrived == 1
        assert after.owner == "ann" or await claimed(store, worker="bob") == ["one"]
