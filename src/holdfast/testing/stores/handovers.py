"""Handovers: runs that a worker gives back because its code does not fit their journal."""

from __future__ import annotations

from holdfast.store import protocol as p
from holdfast.testing.stores.samples import NOW, SECOND, SERVES, WORKFLOW, advanced, key, leased, renewal, row, turn
from holdfast.testing.stores.topic import Topic, on_fresh_store


async def known(store: p.Store, *workers: str, workflows: tuple[str, ...] = (WORKFLOW,), ttl: float = 60) -> None:
    for worker in workers:
        await store.register(p.WorkerRow(worker, "host", 1, workflows, (), NOW, 0), ttl)


async def claimed(store: p.Store, worker: str) -> list[p.Run]:
    """The claim of a worker that has declined runs."""
    return (await store.claim(worker, SERVES, 10, NOW, has_declined=True)).runs


async def declined(store: p.Store, worker: str, run: p.Run, reason: str = "it differs") -> bool:
    return await store.decline(worker, run.key, run.epoch, reason, NOW + SECOND)


class HandoverTopic(Topic):
    @on_fresh_store
    async def test_a_declined_run_is_given_to_another_worker(self, store: p.Store) -> None:
        """It is ready at once and unchanged, and a worker that declined it does not get it again."""
        await known(store, "ann", "bob")
        run = await leased(store, owner="ann")
        assert await declined(store, "ann", run)
        after = await row(store)
        assert (after.owner, after.ready_at, after.crashes) == (None, NOW + SECOND, 0)
        assert (after.version, after.head, after.pause) == (run.version, run.head, None)
        assert await claimed(store, "ann") == []
        (again,) = await claimed(store, "bob")
        assert (again.owner, again.version) == ("bob", run.version)
        assert again.epoch > run.epoch

    @on_fresh_store
    async def test_who_declined_is_told(self, store: p.Store) -> None:
        """With the reason, oldest first."""
        await known(store, "ann", "bob", "eve")
        assert await declined(store, "ann", await leased(store, owner="ann"), "no step is called x")
        (run,) = await claimed(store, "bob")
        assert await declined(store, "bob", run, "it differs")
        reasons = [(each.worker, each.reason, each.at) for each in await store.declined(key())]
        assert reasons == [("ann", "no step is called x", NOW + SECOND), ("bob", "it differs", NOW + SECOND)]
        assert await store.declined(key("none")) == []

    @on_fresh_store
    async def test_a_run_that_nobody_else_may_fit_is_not_handed_over(self, store: p.Store) -> None:
        """Alone, among workers of other workflows, or after all others: it stays leased, for its holder to park."""
        await known(store, "ann")
        await known(store, "cat", workflows=("another",))
        run = await leased(store, owner="ann")
        assert not await declined(store, "ann", run)
        assert await row(store) == run
        await known(store, "bob")
        assert await declined(store, "ann", run)
        (again,) = await claimed(store, "bob")
        assert not await declined(store, "bob", again)
        assert (await row(store)).owner == "bob"

    @on_fresh_store
    async def test_a_worker_that_has_expired_is_nobody(self, store: p.Store) -> None:
        """It cannot try."""
        await known(store, "ann")
        await known(store, "bob", ttl=-60)
        assert not await declined(store, "ann", await leased(store, owner="ann"))

    @on_fresh_store
    async def test_a_lease_that_was_lost_declines_nothing(self, store: p.Store) -> None:
        """Only the present holder decides."""
        await known(store, "ann", "bob")
        run = await leased(store, owner="ann")
        await store.unregister("ann", NOW)
        (again,) = await claimed(store, "bob")
        assert await declined(store, "ann", run)
        assert await row(store) == again
        assert await store.declined(key()) == []

    @on_fresh_store
    async def test_a_run_that_all_who_live_have_declined_is_offered_once_more(self, store: p.Store) -> None:
        """The worker that had not tried died: one of the others must get False, because no other worker is left."""
        await known(store, "ann", "bob")
        assert await declined(store, "ann", await leased(store, owner="ann"))
        await store.rescue(NOW)
        assert await claimed(store, "ann") == []
        await store.unregister("bob", NOW)
        await store.rescue(NOW)
        (again,) = await claimed(store, "ann")
        assert not await declined(store, "ann", again)

    @on_fresh_store
    async def test_a_resumed_run_is_tried_by_everyone_again(self, store: p.Store) -> None:
        """A person may have corrected the cause."""
        await known(store, "ann", "bob")
        assert await declined(store, "ann", await leased(store, owner="ann"))
        await store.pause(key(), "enough", NOW)
        await store.unpause(key(), NOW)
        assert [run.key for run in await claimed(store, "ann")] == [key()]

    @on_fresh_store
    async def test_a_new_generation_is_tried_by_everyone_again(self, store: p.Store) -> None:
        """Its journal is a new one."""
        await known(store, "ann", "bob")
        assert await declined(store, "ann", await leased(store, owner="ann"))
        (run,) = await claimed(store, "bob")
        await advanced(store, turn(run, renewal=renewal()))
        assert await store.declined(key()) == []
        await store.unregister("bob", NOW)
        assert [run.key for run in await claimed(store, "ann")] == [key()]

    @on_fresh_store
    async def test_declined_runs_are_left_out_under_caps_too(self, store: p.Store) -> None:
        """With every form of claim."""
        await known(store, "ann", "bob", "cat")
        await leased(store, owner="cat")
        await store.unregister("cat", NOW)
        (run,) = await claimed(store, "ann")
        assert await declined(store, "ann", run)
        limits = p.Limits(p.TenantLimits(p.Cap(max_concurrency=9)), {})
        assert (await store.claim("ann", SERVES, 10, NOW, limits, has_declined=True)).runs == []
        assert len((await store.claim("bob", SERVES, 10, NOW, limits, has_declined=True)).runs) == 1
