"""Workers and their leases: how they begin, how they end, and what their end does to the runs.

The life of workers is on the store's own clock, so an expired worker is made here by a time to live below zero.
"""

from __future__ import annotations

from msgspec.structs import replace

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
    key,
    leased,
    row,
    turn,
    work,
    worker,
)
from holdfast.testing.stores.topic import Topic, on_fresh_store

LONG, PAST = 600.0, -1.0


class Leases(Topic):
    @on_fresh_store
    async def test_registered_workers_are_listed(self, store: p.Store) -> None:
        """As they described themselves, oldest first."""
        await store.register(worker("bob", started_at=NOW + 1), LONG)
        await store.register(worker("ann"), LONG)
        listed = await store.workers()
        assert [replace(found, expires_at=0) for found in listed] == [worker("ann"), worker("bob", started_at=NOW + 1)]

    @on_fresh_store
    async def test_a_time_to_live_is_counted_on_the_stores_clock(self, store: p.Store) -> None:
        """A worker with the longer time to live expires later by the difference."""
        await store.register(worker("ann"), 100)
        await store.register(worker("bob"), 10_000)
        ann, bob = await store.workers()
        assert bob.expires_at - ann.expires_at >= 9_900 * SECOND

    @on_fresh_store
    async def test_registering_again_prolongs(self, store: p.Store) -> None:
        """It is the same worker, alive once more."""
        await store.register(worker(), PAST)
        await store.register(worker(), LONG)
        assert await store.rescue(NOW) == []
        assert len(await store.workers()) == 1

    @on_fresh_store
    async def test_a_beat_prolongs_the_life_of_a_worker(self, store: p.Store) -> None:
        """An expired worker that beats before it is rescued keeps its leases."""
        await store.register(worker(), PAST)
        run = await leased(store)
        assert await store.beat("ann", LONG) is True
        assert await store.rescue(NOW) == []
        assert await row(store) == run

    @on_fresh_store
    async def test_a_worker_says_how_far_its_clock_is_off(self, store: p.Store) -> None:
        """It stands in its row until it says otherwise, also when it beats or registers again."""
        await store.report_clock("ann", 7)
        await store.register(worker(), LONG)
        assert [each.clock_ahead for each in await store.workers()] == [0]
        await store.report_clock("ann", -6_000_000)
        await store.beat("ann", LONG)
        await store.register(worker(), LONG)
        assert [each.clock_ahead for each in await store.workers()] == [-6_000_000]
        await store.report_clock("ann", 0)
        assert [each.clock_ahead for each in await store.workers()] == [0]

    @on_fresh_store
    async def test_a_beat_of_an_unknown_worker_tells_it_so(self, store: p.Store) -> None:
        """A worker that was forgotten learns that its leases are lost."""
        assert await store.beat("ann", LONG) is False
        await store.register(worker(), PAST)
        await store.rescue(NOW)
        assert await store.beat("ann", LONG) is False
        assert await store.workers() == []

    @on_fresh_store
    async def test_a_living_worker_is_not_rescued(self, store: p.Store) -> None:
        """Its leases stay."""
        await store.register(worker(), LONG)
        run = await leased(store)
        assert await store.rescue(NOW + 10**15) == []
        assert await row(store) == run

    @on_fresh_store
    async def test_an_expired_workers_runs_are_taken_back(self, store: p.Store) -> None:
        """They are ready from ``now``, at a raised epoch, with one crash counted; the worker is named and forgotten."""
        await store.register(worker("ann"), PAST)
        await store.register(worker("bob"), LONG)
        lost, kept = await leased(store, "lost", "ann"), await leased(store, "kept", "bob")
        assert await store.rescue(NOW + 7) == ["ann"]
        assert await row(store, "lost") == replace(lost, owner=None, epoch=2, ready_at=NOW + 7, crashes=1)
        assert await row(store, "kept") == kept
        assert [worker.id for worker in await store.workers()] == ["bob"]
        assert await store.rescue(NOW + 8) == []

    @on_fresh_store
    async def test_a_worker_that_has_expired_itself_rescues_nobody(self, store: p.Store) -> None:
        """What kept it from beating may have kept the others. Once it has beaten, it is answered, and never itself."""
        await store.register(worker("ann"), PAST)
        await store.register(worker("bob"), PAST)
        run = await leased(store, owner="bob")
        assert await store.rescue(NOW, "ann") is None
        assert await row(store) == run
        await store.beat("ann", LONG)
        assert await store.rescue(NOW, "ann") == ["bob"]
        assert [found.id for found in await store.workers()] == ["ann"]

    @on_fresh_store
    async def test_to_the_cautious_silence_is_no_death(self, store: p.Store) -> None:
        """A worker that has just begun cannot know whether an outage is just over."""
        await store.register(worker("ann"), LONG)
        await store.register(worker("bob"), PAST)
        run = await leased(store, owner="bob")
        assert await store.rescue(NOW, "ann", cautious=True) == []
        assert await row(store) == run
        assert await store.beat("bob", LONG) is True
        assert await store.rescue(NOW, "ann") == []

    @on_fresh_store
    async def test_the_rescued_workers_turn_is_fenced(self, store: p.Store) -> None:
        """From the rescue on, even before another worker has claimed the run."""
        await store.register(worker(), PAST)
        run = await leased(store)
        await store.rescue(NOW)
        assert await commit(store, turn(run)) == p.Fenced()
        assert await claimed(store, worker="bob") == ["one"]
        assert await commit(store, turn(run)) == p.Fenced()

    @on_fresh_store
    async def test_crashes_in_a_row_are_counted(self, store: p.Store) -> None:
        """Each lost lease adds one, so that a run that kills its workers is recognised."""
        await leased(store)
        for count in (1, 2, 3):
            await store.register(worker(), PAST)
            await store.rescue(NOW)
            assert (await row(store)).crashes == count
            assert await claimed(store) == ["one"]

    @on_fresh_store
    async def test_a_worker_that_leaves_hands_all_back_without_blame(self, store: p.Store) -> None:
        """Its runs are ready from ``now``, fenced from it, and no crash is counted; its work is free again."""
        await store.register(worker(), LONG)
        run = await leased(store)
        await commit(store, p.Enqueue(work()))
        (held,) = (await store.claim_work("ann", {"mail": 1}, NOW)).work
        await store.unregister("ann", NOW + 3)
        assert await row(store) == replace(run, owner=None, epoch=2, ready_at=NOW + 3)
        ((offer, owner),) = await store.work_of(key())
        assert owner is None
        assert offer.epoch > held.epoch
        assert await store.workers() == []
        assert await commit(store, turn(run)) == p.Fenced()

    @on_fresh_store
    async def test_leaving_unknown_is_safe(self, store: p.Store) -> None:
        """A worker may be unregistered twice, or without having been registered."""
        await store.unregister("ann", NOW)
        await store.register(worker(), LONG)
        await store.unregister("ann", NOW)
        await store.unregister("ann", NOW)
        assert await store.workers() == []

    @on_fresh_store
    async def test_the_leases_of_unknown_owners_are_taken_back(self, store: p.Store) -> None:
        """A worker may have claimed after it was forgotten, and died: the run would wait for ever."""
        stray = await leased(store, owner="ghost")
        assert await claimed(store, worker="bob") == []
        await store.rescue(NOW + 1)
        (taken,) = (await store.claim("bob", SERVES, 1, NOW + 1)).runs
        assert (taken.owner, taken.epoch > stray.epoch) == ("bob", True)

    @on_fresh_store
    async def test_arrivals_are_the_leased_runs_that_have_news(self, store: p.Store) -> None:
        """Runs of this worker with messages not consumed, and those that were paused; nobody else's."""
        for name in ("quiet", "messaged", "stopped", "done"):
            await leased(store, name)
        await leased(store, "foreign", "bob")
        await store.commit([deliver("messaged"), deliver("foreign"), deliver("done")])
        await advanced(store, turn(await row(store, "done"), COMPLETED))
        await store.pause(key("stopped"), "wait", NOW)
        found = {run.key.run: run for run in await store.arrivals("ann")}
        assert set(found) == {"messaged", "stopped"}
        assert found["messaged"] == await row(store, "messaged")
        await advanced(store, turn(found["messaged"], consumed=1))
        assert [run.key.run for run in await store.arrivals("ann")] == ["stopped"]

    @on_fresh_store
    async def test_a_paused_run_of_a_dead_worker_is_taken_back_and_stays_paused(self, store: p.Store) -> None:
        """A rescue does not resume a paused run."""
        await store.register(worker(), PAST)
        run = await leased(store)
        await store.pause(run.key, "wait", NOW)
        await store.rescue(NOW)
        assert (await row(store)).owner is None
        assert (await store.claim("bob", SERVES, 10, NOW)).runs == []
