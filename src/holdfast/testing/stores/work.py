"""Queued work: offered once, leased by one worker, finished or taken back."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.testing.stores.samples import (
    NOW,
    SECOND,
    advanced,
    begun,
    commit,
    ended,
    key,
    leased,
    message,
    row,
    start,
    turn,
    work,
    worker,
)
from holdfast.testing.stores.topic import Topic, on_fresh_store


async def taken(
    store: p.Store, limit: int = 100, *, worker: str = "ann", queue: str = "mail", now: int = NOW
) -> list[int]:
    """The positions of the work that a claim gives."""
    return [found.position for found in (await store.claim_work(worker, {queue: limit}, now)).work]


async def offered(store: p.Store, *offers: p.Work) -> None:
    await store.commit([p.Enqueue(offer) for offer in offers])


class QueuedWork(Topic):
    @on_fresh_store
    async def test_work_is_claimed_as_it_was_offered(self, store: p.Store) -> None:
        """All its fields, with the epoch of this lease."""
        await leased(store)
        offer = work(3, priority=2, attempt=4)
        assert await commit(store, p.Enqueue(offer)) == p.Enqueued()
        (found,) = (await store.claim_work("ann", {"mail": 1}, NOW)).work
        assert found == replace(offer, epoch=found.epoch, claims=1)
        assert await store.work_of(key()) == [(found, "ann")]

    @on_fresh_store
    async def test_an_attempt_offered_again_changes_nothing(self, store: p.Store) -> None:
        """The first offer counts, free or leased."""
        await leased(store)
        await offered(store, work(1, body="first"))
        assert await commit(store, p.Enqueue(work(1, body="second"))) == p.Enqueued()
        (found,) = (await store.claim_work("ann", {"mail": 9}, NOW)).work
        assert found.body == b"first"
        await offered(store, work(1, body="third"))
        assert await store.work_of(key()) == [(found, "ann")]

    @on_fresh_store
    async def test_leased_work_is_not_claimed_again(self, store: p.Store) -> None:
        """One worker does it."""
        await leased(store)
        await offered(store, work(1))
        assert await taken(store, worker="ann") == [1]
        assert await taken(store, worker="bob") == []

    @on_fresh_store
    async def test_work_is_claimed_by_priority_then_age(self, store: p.Store) -> None:
        """Highest priority first, then the longest available."""
        await leased(store)
        await offered(
            store,
            work(1, available_at=NOW - 1),
            work(2, available_at=NOW - 2),
            work(3, priority=9),
            work(4, priority=-9, available_at=0),
        )
        assert [await taken(store, 1) for _ in range(5)] == [[3], [2], [1], [4], []]

    @on_fresh_store
    async def test_work_is_not_claimed_before_it_is_available(self, store: p.Store) -> None:
        """The time is the caller's ``now``; work is available from that microsecond on."""
        await leased(store)
        await offered(store, work(1, available_at=NOW + SECOND))
        assert await taken(store, now=NOW + SECOND - 1) == []
        assert await taken(store, now=NOW + SECOND) == [1]

    @on_fresh_store
    async def test_each_queue_has_its_own_limit(self, store: p.Store) -> None:
        """At most the wanted number of each, and none of a queue that is not wanted."""
        await leased(store)
        await offered(store, *(work(at, queue="mail") for at in (1, 2, 3)), *(work(at, queue="disk") for at in (4, 5)))
        await offered(store, work(6, queue="other"))
        found = (await store.claim_work("ann", {"mail": 2, "disk": 1, "empty": 5}, NOW)).work
        assert sorted(offer.queue for offer in found) == ["disk", "mail", "mail"]
        assert (await store.claim_work("ann", {"mail": 0}, NOW)).work == []
        assert await store.claim_work("ann", {}, NOW) == p.ClaimedWork([], None)
        assert sorted(await taken(store)) == sorted({1, 2, 3} - {offer.position for offer in found})

    @on_fresh_store
    async def test_finished_work_is_done_and_its_run_told(self, store: p.Store) -> None:
        """In one change: the work is done, and the message is in the inbox."""
        await leased(store)
        await offered(store, work(1))
        (found,) = (await store.claim_work("bob", {"mail": 1}, NOW)).work
        answer = await commit(store, p.FinishWork(key(), 1, found.epoch, message("done")))
        assert answer == p.Delivered(1)
        assert await store.work_of(key()) == []
        assert (await store.messages([key()]))[key()] == [p.Received(1, message("done"))]

    @on_fresh_store
    async def test_work_is_finished_once(self, store: p.Store) -> None:
        """The second time it is fenced, and the run gets no second message."""
        await leased(store)
        await offered(store, work(1))
        (found,) = (await store.claim_work("bob", {"mail": 1}, NOW)).work
        finish = p.FinishWork(key(), 1, found.epoch, message())
        assert await store.commit([finish, finish]) == [p.Delivered(1), p.Fenced()]
        assert (await row(store)).arrived == 1

    @on_fresh_store
    async def test_done_work_offered_again_is_not_done_twice(self, store: p.Store) -> None:
        """Until the run withdraws it, the same or an earlier attempt is recognised."""
        await leased(store)
        await offered(store, work(1, attempt=2))
        (found,) = (await store.claim_work("bob", {"mail": 1}, NOW)).work
        await commit(store, p.FinishWork(key(), 1, found.epoch, message()))
        await offered(store, work(1, attempt=2), work(1, attempt=1))
        assert await taken(store) == []
        assert await store.work_of(key()) == []
        await commit(store, p.Withdraw(key(), 1))
        await offered(store, work(1, attempt=2))
        assert await taken(store) == [1]

    @on_fresh_store
    async def test_a_later_attempt_takes_the_place_of_one_that_is_done(self, store: p.Store) -> None:
        """It is free for any worker, as newly offered, and the holder of the last attempt is fenced."""
        await leased(store)
        await offered(store, work(1))
        (first,) = (await store.claim_work("bob", {"mail": 1}, NOW)).work
        finish = p.FinishWork(key(), 1, first.epoch, message())
        await commit(store, finish)
        later = work(1, queue="disk", attempt=2, priority=3, available_at=NOW - 1, body="again")
        await offered(store, later)
        assert await taken(store, queue="mail") == []
        (second,) = (await store.claim_work("ann", {"disk": 1}, NOW)).work
        assert second == replace(later, epoch=second.epoch, claims=1)
        assert second.epoch > first.epoch
        assert await commit(store, finish) == p.Fenced()
        assert await commit(store, replace(finish, epoch=second.epoch)) == p.Delivered(2)

    @on_fresh_store
    async def test_a_later_attempt_takes_the_place_of_one_that_is_leased(self, store: p.Store) -> None:
        """The run has decided not to wait for it: its holder is fenced, the new attempt is free."""
        await leased(store)
        await offered(store, work(1))
        (first,) = (await store.claim_work("bob", {"mail": 1}, NOW)).work
        await offered(store, work(1, attempt=2))
        assert await commit(store, p.FinishWork(key(), 1, first.epoch, message())) == p.Fenced()
        (second,) = (await store.claim_work("ann", {"mail": 1}, NOW)).work
        assert (second.attempt, second.epoch > first.epoch) == (2, True)

    @on_fresh_store
    async def test_a_claim_tells_when_the_next_work_is_available(self, store: p.Store) -> None:
        """The earliest free work of the wanted queues; work beyond the limit is available already."""
        await leased(store)
        assert (await store.claim_work("ann", {"mail": 1}, NOW)).next_available_at is None
        await offered(store, work(1), work(2, available_at=NOW + 2), work(3, available_at=NOW + 1, queue="disk"))
        claim = await store.claim_work("ann", {"mail": 0}, NOW)
        assert (claim.work, claim.next_available_at) == ([], NOW)
        assert (await store.claim_work("ann", {"mail": 5}, NOW)).next_available_at == NOW + 2
        assert (await store.claim_work("ann", {"mail": 5, "disk": 5}, NOW)).next_available_at == NOW + 1

    @on_fresh_store
    async def test_work_of_other_steps_is_left_to_workers_that_have_them(self, store: p.Store) -> None:
        """In a rolling deploy an older worker serves the queue and lacks the step: it takes only steps that it has."""
        await leased(store)
        offer = work(1)
        await offered(store, offer)
        assert await store.claim_work("ann", {"mail": 5}, NOW, ["another"]) == p.ClaimedWork([], None)
        (found,) = (await store.claim_work("ann", {"mail": 5}, NOW, ["another", offer.name])).work
        assert found.position == 1

    @on_fresh_store
    async def test_done_work_is_not_taken_back_from_a_dead_worker(self, store: p.Store) -> None:
        """It is done and not leased again."""
        await store.register(worker("ann"), -1)
        await leased(store, owner="bob")
        await offered(store, work(1))
        (found,) = (await store.claim_work("ann", {"mail": 1}, NOW)).work
        await commit(store, p.FinishWork(key(), 1, found.epoch, message()))
        await store.rescue(NOW)
        assert await taken(store, worker="bob") == []

    @on_fresh_store
    async def test_work_of_a_dead_worker_is_free_again_and_fenced_from_it(self, store: p.Store) -> None:
        """The worker that takes it over finishes it; the old worker, if it is still alive, cannot."""
        await store.register(worker("ann"), -1)
        await leased(store, owner="bob")
        await offered(store, work(1))
        (first,) = (await store.claim_work("ann", {"mail": 1}, NOW)).work
        assert await store.rescue(NOW) == ["ann"]
        late = p.FinishWork(key(), 1, first.epoch, message("late"))
        assert await commit(store, late) == p.Fenced()
        (second,) = (await store.claim_work("bob", {"mail": 1}, NOW)).work
        assert second.epoch > first.epoch
        assert await store.commit([late, replace(late, epoch=second.epoch)]) == [p.Fenced(), p.Delivered(1)]

    @on_fresh_store
    async def test_withdrawn_work_is_gone_leased_or_not(self, store: p.Store) -> None:
        """Its holder is fenced; withdrawing missing work is no error."""
        await leased(store)
        await offered(store, work(1), work(2))
        (held,) = (await store.claim_work("bob", {"mail": 1}, NOW)).work
        assert await store.commit([p.Withdraw(key(), at) for at in (1, 2, 3)]) == [p.Withdrawn()] * 3
        assert await store.work_of(key()) == []
        finish = p.FinishWork(key(), held.position, held.epoch, message())
        assert await commit(store, finish) == p.Fenced()

    @on_fresh_store
    async def test_work_is_listed_by_position_with_its_holder(self, store: p.Store) -> None:
        """Only the run's own."""
        await leased(store, "one")
        await leased(store, "two")
        await offered(store, work(2, available_at=NOW + 1), work(1), work(1, "two"))
        await store.claim_work("bob", {"mail": 1}, NOW)
        assert [(offer.position, owner) for offer, owner in await store.work_of(key("one"))] == [(1, "bob"), (2, None)]
        assert [owner for _, owner in await store.work_of(key("two"))] == [None]

    @on_fresh_store
    async def test_finishing_work_of_an_ended_run_is_fenced(self, store: p.Store) -> None:
        """The end has deleted the work."""
        await ended(store)
        assert await commit(store, p.FinishWork(key(), 1, 2, message())) == p.Fenced()

    @on_fresh_store
    async def test_an_attempt_counts_its_leases(self, store: p.Store) -> None:
        """A worker that takes work over sees that it may have been begun before; a later attempt counts from 1."""
        await leased(store)
        await commit(store, p.Enqueue(work(1)))
        await store.register(p.WorkerRow("ann", "host", 1, (), ("mail",), NOW, 0), 60)
        await store.register(p.WorkerRow("bob", "host", 1, (), ("mail",), NOW, 0), 60)
        (first,) = (await store.claim_work("ann", {"mail": 1}, NOW)).work
        assert first.claims == 1
        assert [each.claims for each in (await store.leased("ann")).work] == [1]
        await store.unregister("ann", NOW)
        (second,) = (await store.claim_work("bob", {"mail": 1}, NOW)).work
        assert second.claims == 2
        await commit(store, p.Enqueue(work(1, attempt=2)))
        (third,) = (await store.claim_work("bob", {"mail": 1}, NOW)).work
        assert (third.attempt, third.claims) == (2, 1)

    @on_fresh_store
    async def test_work_that_was_not_begun_is_withdrawn_alone(self, store: p.Store) -> None:
        """What is leased or done stays, and the answer says so; work that is not there counts as withdrawn."""
        await leased(store)
        await offered(store, work(1), work(2))
        (held,) = (await store.claim_work("bob", {"mail": 1}, NOW)).work
        free = 3 - held.position
        changes = [p.Withdraw(key(), at, unbegun=True) for at in (held.position, free, 9)]
        assert await store.commit(changes) == [p.Withdrawn(left=True), p.Withdrawn(), p.Withdrawn()]
        await commit(store, p.FinishWork(key(), held.position, held.epoch, message()))
        assert await commit(store, p.Withdraw(key(), held.position, unbegun=True)) == p.Withdrawn(left=True)
        assert await commit(store, p.Withdraw(key(), held.position)) == p.Withdrawn()
        assert await commit(store, p.Withdraw(key(), held.position, unbegun=True)) == p.Withdrawn()

    @on_fresh_store
    async def test_a_message_may_let_a_paused_run_go_on(self, store: p.Store) -> None:
        """As a cancellation does: it would be heard by nobody else."""
        for name in ("one", "two"):
            await begun(store, start(name))
            await store.pause(key(name), "lunch", NOW)
        delivered = [p.Deliver(key("one"), message(), unpauses=True), p.Deliver(key("two"), message())]
        assert await store.commit(delivered) == [p.Delivered(1), p.Delivered(1)]
        assert ((await row(store, "one")).pause, (await row(store, "two")).pause) == (None, "lunch")

    @on_fresh_store
    async def test_the_workload_is_what_waits_for_workers_and_what_they_have(self, store: p.Store) -> None:
        """Ready runs with the oldest, the earliest timer, leases by worker, queues; of one tenant, or of all."""
        await begun(store, start("old", at=NOW - SECOND))
        await begun(store, start("young"))
        await begun(store, start("held up"))
        await store.pause(key("held up"), "wait", NOW)
        await begun(store, start("other", tenant="bolt", at=NOW - 2 * SECOND))
        for number, due in enumerate((9, 5)):
            waits = p.Projection("waiting", wake_at=NOW + due * SECOND)
            await advanced(store, turn(await leased(store, f"sleeps {number}"), waits, release=True))
        held = await leased(store, "held")
        await ended(store, "done")
        await offered(store, work(1, "held", available_at=NOW - 7), work(2, "held"), work(3, "held", queue="post"))
        await store.claim_work("ben", {"post": 1}, NOW)
        found = await store.workload("acme")
        assert (found.ready, found.oldest_ready_at, found.timer_at) == (2, NOW - SECOND, NOW + 5 * SECOND)
        assert found.leases == {held.owner: 1}
        assert found.queues == (p.QueueLoad("mail", 2, 0, NOW - 7), p.QueueLoad("post", 0, 1, None))
        both = await store.workload()
        assert (both.ready, both.oldest_ready_at) == (3, NOW - 2 * SECOND)
        assert replace(await store.workload("nobody"), size_bytes=None) == p.Workload(0, None, None, {}, (), None)
