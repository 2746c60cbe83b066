"""Opening, closing, and further handles on the same store."""

from __future__ import annotations

from holdfast.errors import StoreUnavailable
from holdfast.store import protocol as p
from holdfast.testing.stores.samples import (
    COMPLETED,
    SERVES,
    begun,
    deliver,
    ended,
    leased,
    row,
    start,
    turn,
    work,
    worker,
)
from holdfast.testing.stores.topic import Topic, on_fresh_store


class Handles(Topic):
    @on_fresh_store
    async def test_a_fresh_store_is_empty(self, store: p.Store) -> None:
        """There is nothing before the first commit."""
        assert await store.find(p.Query(), 10) == []
        assert await store.workers() == []
        facts = await store.facts()
        assert (sum(facts.runs.values()), facts.inbox, facts.work, facts.blobs) == (0, 0, 0, 0)

    @on_fresh_store
    async def test_opening_again_changes_nothing(self, store: p.Store) -> None:
        """An open store may be opened again."""
        before = await begun(store, start())
        await store.open()
        assert await row(store) == before

    @on_fresh_store
    async def test_a_store_may_be_closed_twice(self, store: p.Store) -> None:
        """Closing what is closed does nothing."""
        await store.close()
        await store.close()

    @on_fresh_store
    async def test_a_store_may_be_closed_before_it_was_opened(self, store: p.Store) -> None:
        """Closing what was never open does nothing, and it can still be opened."""
        twin = store.twin()
        await twin.close()
        await twin.open()
        assert await twin.workers() == []
        await twin.close()

    @on_fresh_store
    async def test_a_closed_store_answers_that_it_is_unavailable(self, store: p.Store) -> None:
        """An operation on a handle that is not open raises StoreUnavailable, never an error of the driver."""
        await store.close()
        for operation in (store.workers(), store.commit([start()]), store.claim("ann", SERVES, 1, 0), store.rescue(0)):
            try:
                await operation
            except StoreUnavailable:
                continue
            raise AssertionError("an operation on a closed store was answered")

    @on_fresh_store
    async def test_a_store_opened_again_has_kept_what_was_committed(self, store: p.Store) -> None:
        """A committed change outlives the handle."""
        twin = store.twin()
        await twin.open()
        before = await begun(store, start())
        await store.close()
        await store.open(migrate=False)
        assert await row(store) == before
        await twin.close()

    @on_fresh_store
    async def test_a_twin_sees_the_same_runs(self, store: p.Store) -> None:
        """Both handles read and write one store."""
        twin = store.twin()
        await twin.open()
        try:
            run = await leased(store)
            assert await row(twin) == run
            await twin.commit([turn(run)])
            assert (await row(store)).version == run.version + 1
        finally:
            await twin.close()

    @on_fresh_store
    async def test_closing_a_twin_leaves_the_first_handle_open(self, store: p.Store) -> None:
        """Closing one handle does not close another."""
        twin = store.twin()
        await twin.open()
        await twin.close()
        assert (await begun(store, start())).version == 2

    @on_fresh_store
    async def test_facts_count_what_is_there(self, store: p.Store) -> None:
        """The counts are those of the rows."""
        await ended(store, "done")
        await begun(store, start("one", blobs={b"digest": b"data"}))
        await store.commit([deliver("one"), deliver("one"), p.Enqueue(work(1)), p.Enqueue(work(2)), p.Enqueue(work(3))])
        facts = await store.facts()
        assert {standing: count for standing, count in facts.runs.items() if count} == {"completed": 1, "queued": 1}
        assert (facts.inbox, facts.work, facts.blobs) == (2, 3, 1)
        assert facts.kind
        assert facts.version
        assert facts.schema >= 1

    @on_fresh_store
    async def test_every_handle_gives_the_same_identity(self, store: p.Store) -> None:
        """It names the database: whatever is written, whoever opens it, and however often."""
        identity = await store.identity()
        assert identity
        twin = store.twin()
        await twin.open()
        try:
            await begun(store, start())
            assert await twin.identity() == identity
            await store.close()
            await store.open()
            assert await store.identity() == identity
        finally:
            await twin.close()

    @on_fresh_store
    async def test_a_watch_can_be_ended(self, store: p.Store) -> None:
        """Ending a watch, even twice, is safe, and so is closing with a watch still on."""
        stop = store.watch(lambda: None)
        store.watch(lambda: None)
        await store.register(worker(), 60)
        stop()
        stop()
        run = await leased(store)
        await store.commit([turn(run, COMPLETED)])
        await store.close()
