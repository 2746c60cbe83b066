"""Timers: runs that wake when their time has come."""

from __future__ import annotations

from holdfast.store import protocol as p
from holdfast.testing.stores.samples import (
    COMPLETED,
    NOW,
    SECOND,
    SERVES,
    advanced,
    claimed,
    commit,
    deliver,
    leased,
    row,
    turn,
)
from holdfast.testing.stores.topic import Topic, on_fresh_store


async def asleep(store: p.Store, run: str = "one", *, until: int) -> None:
    """A run that nobody leases and that waits for a timer."""
    await advanced(store, turn(await leased(store, run), p.Projection("waiting", until), release=True))


class Timers(Topic):
    @on_fresh_store
    async def test_a_timer_wakes_its_run_at_its_time_and_not_before(self, store: p.Store) -> None:
        """The time is the caller's ``now``; a timer is due from its microsecond on."""
        await asleep(store, until=NOW + SECOND)
        assert await claimed(store, now=NOW + SECOND - 1) == []
        assert await claimed(store, now=NOW + SECOND) == ["one"]

    @on_fresh_store
    async def test_a_claim_tells_when_the_next_timer_is_due(self, store: p.Store) -> None:
        """The earliest of those that are not due yet, for any limit; none where no run sleeps."""
        assert (await store.claim("ann", SERVES, 1, NOW)).next_wake_at is None
        await asleep(store, "one", until=NOW + 3 * SECOND)
        await asleep(store, "two", until=NOW + 2 * SECOND)
        await asleep(store, "three", until=NOW + SECOND)
        assert (await store.claim("ann", SERVES, 0, NOW)).next_wake_at == NOW + SECOND
        claim = await store.claim("ann", SERVES, 1, NOW + SECOND)
        assert ([run.key.run for run in claim.runs], claim.next_wake_at) == (["three"], NOW + 2 * SECOND)

    @on_fresh_store
    async def test_the_timer_of_a_leased_run_is_its_holders(self, store: p.Store) -> None:
        """It is neither announced nor woken by a claim."""
        await advanced(store, turn(await leased(store), p.Projection("waiting", NOW)))
        claim = await store.claim("bob", SERVES, 10, NOW + SECOND)
        assert (claim.runs, claim.next_wake_at) == ([], None)
        assert (await row(store)).wake_at == NOW

    @on_fresh_store
    async def test_an_ended_run_has_no_timer_that_wakes(self, store: p.Store) -> None:
        """Its end deletes its timers."""
        run = await leased(store)
        await advanced(store, turn(run, p.Projection(COMPLETED.standing, NOW)))
        claim = await store.claim("bob", SERVES, 10, NOW + SECOND)
        assert (claim.runs, claim.next_wake_at) == ([], None)

    @on_fresh_store
    async def test_woken_runs_are_as_old_as_their_timers(self, store: p.Store) -> None:
        """The run that was due first is claimed first."""
        await asleep(store, "late", until=NOW + 2)
        await asleep(store, "early", until=NOW + 1)
        assert [await claimed(store, 1, now=NOW + SECOND) for _ in range(2)] == [["early"], ["late"]]

    @on_fresh_store
    async def test_a_run_woken_by_a_worker_that_does_not_know_it_stays_ready(self, store: p.Store) -> None:
        """Its timer is not lost: the next worker that knows its workflow gets it."""
        await asleep(store, until=NOW)
        assert await claimed(store, workflow="unheard") == []
        assert await claimed(store) == ["one"]

    @on_fresh_store
    async def test_a_message_wakes_a_sleeping_run_before_its_time(self, store: p.Store) -> None:
        """The timer stays with the run for its next turn to see."""
        await asleep(store, until=NOW + SECOND)
        await commit(store, deliver())
        (run,) = (await store.claim("ann", SERVES, 1, NOW)).runs
        assert run.wake_at == NOW + SECOND

    @on_fresh_store
    async def test_a_timer_that_came_due_while_paused_is_not_lost(self, store: p.Store) -> None:
        """The run continues with it once it is resumed."""
        await asleep(store, until=NOW)
        run = await row(store)
        await store.pause(run.key, "wait", NOW)
        assert await claimed(store, now=NOW + SECOND) == []
        await store.unpause(run.key, NOW + SECOND)
        assert await claimed(store, now=NOW + SECOND) == ["one"]
