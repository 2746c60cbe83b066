"""Turns: applied only at the expected version, generation and epoch; recognised when committed again."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.testing.stores.samples import (
    COMPLETED,
    NOW,
    RUNNING,
    SECOND,
    SERVES,
    WAITING,
    advanced,
    claimed,
    commit,
    deliver,
    ended,
    key,
    leased,
    row,
    segment,
    start,
    turn,
    work,
)
from holdfast.testing.stores.topic import Topic, on_fresh_store


async def _taken_over(store: p.Store) -> p.Run:
    """A run whose first holder died, leased by another."""
    await store.register(p.WorkerRow("ann", "host", 1, (), (), NOW, 0), -1)
    await leased(store, owner="ann")
    await store.rescue(NOW)
    (run,) = (await store.claim("bob", SERVES, 1, NOW)).runs
    assert run.crashes == 1
    return run


class Advances(Topic):
    @on_fresh_store
    async def test_a_turn_is_written_to_journal_and_row(self, store: p.Store) -> None:
        """After a turn the row shows its projection, and the journal ends with its segment."""
        run = await leased(store)
        projection = p.Projection("waiting", NOW + SECOND, "timer", cancelling=True, error="last")
        change = turn(run, projection, count=3, at=NOW + 5)
        assert await advanced(store, change) == p.Advanced(arrived=0, pause=None, released=False)
        assert await row(store) == replace(
            run,
            version=5,
            head=segment(2, 3).head,
            standing="waiting",
            wake_at=NOW + SECOND,
            waiting="timer",
            cancelling=True,
            error="last",
            updated_at=NOW + 5,
        )
        assert await store.segments(key(), 0, 0, 10) == [segment(), segment(2, 3, at=NOW + 5)]

    @on_fresh_store
    async def test_a_turn_without_events_changes_only_the_row(self, store: p.Store) -> None:
        """Version, head and time of change are unchanged."""
        run = await leased(store)
        await advanced(store, turn(run, WAITING, count=0))
        after = await row(store)
        assert (after.version, after.head, after.updated_at) == (run.version, run.head, run.updated_at)
        assert (after.standing, after.waiting) == ("waiting", "signal answer")
        assert await store.segments(key(), 0, 0, 10) == [segment()]

    @on_fresh_store
    async def test_a_turn_at_another_version_epoch_or_generation_is_fenced(self, store: p.Store) -> None:
        """A worker that does not know the present state of the run may not change it."""
        run = await leased(store)
        for stale in (
            replace(run, version=run.version - 1),
            replace(run, version=run.version + 1),
            replace(run, epoch=run.epoch - 1),
            replace(run, epoch=run.epoch + 1),
            replace(run, generation=run.generation + 1),
            replace(run, key=key("nobody")),
        ):
            assert await commit(store, turn(stale)) == p.Fenced()
        assert await row(store) == run
        assert await store.segments(key(), 0, 0, 10) == [segment()]

    @on_fresh_store
    async def test_the_last_holder_is_fenced_once_the_lease_is_taken_over(self, store: p.Store) -> None:
        """Taking a lease over raises the epoch."""
        run = await leased(store, owner="ann")
        await store.unregister("ann", NOW)
        (taken,) = (await store.claim("bob", SERVES, 1, NOW)).runs
        assert taken.epoch > run.epoch
        assert await commit(store, turn(run)) == p.Fenced()
        await advanced(store, turn(taken))

    @on_fresh_store
    async def test_a_lease_that_was_given_up_advances_nothing(self, store: p.Store) -> None:
        """A turn after the release is fenced, so that it cannot hide a message that made the run ready since."""
        run = await leased(store)
        await advanced(store, turn(run, WAITING, count=0, release=True))
        await commit(store, deliver())
        assert await commit(store, turn(run, WAITING, count=0, release=True)) == p.Fenced()
        assert await commit(store, turn(run)) == p.Fenced()
        assert await claimed(store) == ["one"]

    @on_fresh_store
    async def test_an_ended_run_advances_no_more(self, store: p.Store) -> None:
        """An ended run does not advance, not even for its last holder."""
        run = await ended(store)
        assert await commit(store, turn(run)) == p.Fenced()
        assert await commit(store, turn(run, count=0)) == p.Fenced()
        assert await row(store) == run

    @on_fresh_store
    async def test_a_turn_committed_again_is_recognised(self, store: p.Store) -> None:
        """After an unknown outcome the same turn is answered as applied, and is applied once."""
        run = await leased(store)
        change = turn(run)
        first = await commit(store, change)
        after = await row(store)
        assert await commit(store, change) == first
        assert await row(store) == after
        assert await store.segments(key(), 0, 0, 10) == [segment(), segment(2, 1)]

    @on_fresh_store
    async def test_a_released_turn_committed_again_is_recognised(self, store: p.Store) -> None:
        """The answer shows again that the lease was given up; a message that came since still wakes the run."""
        run = await leased(store)
        change = turn(run, WAITING, release=True)
        assert await commit(store, change) == p.Advanced(0, None, released=True)
        await commit(store, deliver())
        assert await commit(store, change) == p.Advanced(1, None, released=True)
        assert await claimed(store) == ["one"]

    @on_fresh_store
    async def test_a_last_turn_committed_again_is_recognised(self, store: p.Store) -> None:
        """So is the turn that ended the run."""
        change = turn(await leased(store), COMPLETED)
        first = await commit(store, change)
        assert await commit(store, change) == first == p.Advanced(0, None, released=True)

    @on_fresh_store
    async def test_another_turn_at_the_same_place_is_not_taken_for_a_repetition(self, store: p.Store) -> None:
        """They differ in their hash."""
        run = await leased(store)
        await advanced(store, turn(run))
        assert await commit(store, turn(run, mark=" other")) == p.Fenced()

    @on_fresh_store
    async def test_a_turn_repeated_after_the_lease_was_taken_over_is_fenced(self, store: p.Store) -> None:
        """Its holder must stop, although the turn itself is in the journal."""
        run = await leased(store)
        change = turn(run)
        await advanced(store, change)
        await store.unregister("ann", NOW)
        assert await commit(store, change) == p.Fenced()

    @on_fresh_store
    async def test_a_released_run_belongs_to_nobody(self, store: p.Store) -> None:
        """With ``release`` and an empty inbox the lease is given up, and the run waits."""
        run = await leased(store)
        assert await commit(store, turn(run, WAITING, release=True)) == p.Advanced(0, None, released=True)
        after = await row(store)
        assert (after.owner, after.ready_at, after.status) == (None, None, "waiting")
        assert await claimed(store, worker="bob") == []

    @on_fresh_store
    async def test_a_lease_is_kept_where_messages_arrived_meanwhile(self, store: p.Store) -> None:
        """The lease is kept while the inbox holds messages that the turn has not consumed."""
        run = await leased(store)
        await commit(store, deliver())
        assert await commit(store, turn(run, WAITING, release=True)) == p.Advanced(1, None, released=False)
        run = await row(store)
        assert run.owner == "ann"
        change = turn(run, WAITING, release=True, consumed=1)
        assert await commit(store, change) == p.Advanced(1, None, released=True)
        assert (await row(store)).owner is None

    @on_fresh_store
    async def test_an_ended_run_is_released_and_cleared(self, store: p.Store) -> None:
        """Even without ``release``, and although messages arrived: it has no lease, inbox, work or progress."""
        run = await leased(store)
        await store.commit([deliver(), p.Enqueue(work()), p.Beat(key(), 1, b"half", NOW)])
        change = turn(run, p.Projection("failed", error="no"), at=NOW + 9)
        assert await commit(store, change) == p.Advanced(1, None, released=True)
        after = await row(store)
        assert (after.owner, after.ended_at, after.status, after.error) == (None, NOW + 9, "failed", "no")
        assert await store.messages([key()]) == {key(): []}
        assert await store.work_of(key()) == []
        assert await store.progress_of(key()) == []
        assert await claimed(store, worker="bob") == []

    @on_fresh_store
    async def test_the_end_of_a_run_clears_no_other(self, store: p.Store) -> None:
        """Inbox, work and progress of a neighbour stay."""
        run = await leased(store, "one")
        await leased(store, "two")
        await store.commit([deliver("two"), p.Enqueue(work(1, "two")), p.Beat(key("two"), 1, b"half", NOW)])
        await advanced(store, turn(run, COMPLETED))
        assert len((await store.messages([key("two")]))[key("two")]) == 1
        assert len(await store.work_of(key("two"))) == 1
        assert len(await store.progress_of(key("two"))) == 1

    @on_fresh_store
    async def test_a_turn_clears_the_count_of_crashes(self, store: p.Store) -> None:
        """Consecutive crashes are counted: a turn between them sets the count to 0."""
        await advanced(store, turn(await _taken_over(store), RUNNING))
        assert (await row(store)).crashes == 0

    @on_fresh_store
    async def test_a_turn_that_adds_nothing_keeps_the_count_of_crashes(self, store: p.Store) -> None:
        """A worker that takes over makes such a turn before it begins the step that killed the last holder."""
        await advanced(store, turn(await _taken_over(store), RUNNING, count=0))
        assert (await row(store)).crashes == 1

    @on_fresh_store
    async def test_starting_and_advancing_share_a_batch(self, store: p.Store) -> None:
        """A run may be started with its owner and advanced in the same commit."""
        change = start(owner="ann")
        following = p.Advance(change.key, 0, 1, 2, segment(2, 1), COMPLETED, 0, True)
        assert await store.commit([change, following]) == [p.Started(1), p.Advanced(0, None, released=True)]
        assert (await row(store)).status == "completed"
