"""Business references: a turn sets that of its run and of the run's open tasks, and both are found by it."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.testing.stores.governance.samples import task
from holdfast.testing.stores.samples import NOW, TENANT, advanced, commit, key, leased, row, start, turn
from holdfast.testing.stores.topic import Topic, on_fresh_store


def refer(reference: str | None, run: str = "one") -> p.SetReference:
    return p.SetReference(key(run), reference)


async def found(store: p.Store, reference: str, tenant: str | None = TENANT) -> list[str]:
    return [run.key.run for run in await store.find(p.Query(tenant=tenant, reference=reference), 10)]


async def found_tasks(store: p.Store, reference: str, tenant: str | None = TENANT) -> list[str]:
    return [each.id for each in await store.tasks(p.TaskQuery(tenant=tenant, reference=reference), 10)]


class References(Topic):
    @on_fresh_store
    async def test_a_run_has_no_reference_until_a_turn_sets_one(self, store: p.Store) -> None:
        """It can be changed and taken away; every turn without one leaves it as it is."""
        run = await leased(store)
        assert run.reference is None
        for reference in ("C-1", "C-ß", None):
            answer = await advanced(store, turn(await row(store), attached=(refer(reference),)))
            assert answer.attached == (p.Referenced(),)
            assert (await row(store)).reference == reference
            await advanced(store, turn(await row(store)))
            assert (await row(store)).reference == reference

    @on_fresh_store
    async def test_a_start_sets_the_reference_of_its_run(self, store: p.Store) -> None:
        """One commit: nobody sees the run without it."""
        answer = await commit(store, start(attached=(refer("C-1"),)))
        assert isinstance(answer, p.Started)
        assert answer.attached == (p.Referenced(),)
        assert (await row(store)).reference == "C-1"

    @on_fresh_store
    async def test_a_refused_turn_sets_no_reference(self, store: p.Store) -> None:
        """The worker lost its lease."""
        run = await leased(store)
        await commit(store, p.PutTask(task()))
        late = replace(turn(run, attached=(refer("C-1"),)), epoch=run.epoch - 1)
        assert await commit(store, late) == p.Fenced()
        assert (await row(store)).reference is None
        assert await found_tasks(store, "C-1") == []

    @on_fresh_store
    async def test_a_turn_committed_again_has_its_reference(self, store: p.Store) -> None:
        """The answer was lost."""
        change = turn(await leased(store), attached=(refer("C-1"),))
        for _ in range(2):
            assert (await advanced(store, change)).attached == (p.Referenced(),)
        assert (await row(store)).reference == "C-1"

    @on_fresh_store
    async def test_runs_are_found_by_their_reference(self, store: p.Store) -> None:
        """Newest first, in one tenant or in all; with other filters, too."""
        for at, name in enumerate(("one", "two", "three", "four")):
            await commit(store, start(name, at=NOW + at))
            await commit(store, refer("C-1" if name != "three" else "C-2", name))
        await commit(store, start("far", tenant="bolt", at=NOW + 9))
        await commit(store, p.SetReference(key("far", "bolt"), "C-1"))
        assert await found(store, "C-1") == ["four", "two", "one"]
        assert await found(store, "C-1", None) == ["far", "four", "two", "one"]
        assert await found(store, "C-2") == ["three"]
        assert await found(store, "c-1") == []
        (first,) = await store.find(p.Query(tenant=TENANT, reference="C-1"), 1)
        rest = await store.find(p.Query(tenant=TENANT, reference="C-1", workflow=first.workflow), 10, first)
        assert [run.key.run for run in rest] == ["two", "one"]

    @on_fresh_store
    async def test_the_reference_is_carried_to_open_tasks(self, store: p.Store) -> None:
        """Those of the run only. A closed task keeps the one that it had: it was answered under that."""
        run = await leased(store)
        await commit(store, p.PutTask(replace(task("closed"), reference="C-1")))
        await commit(store, p.PutTask(task("closed", 2, status="approved")))
        await commit(store, p.PutTask(replace(task("open"), reference="C-1")))
        await commit(store, p.PutTask(task("other", run="two")))
        made = p.PutTask(replace(task("new"), reference="C-2"))
        await advanced(store, turn(run, attached=(refer("C-2"), made)))
        assert await found_tasks(store, "C-1") == ["closed"]
        assert await found_tasks(store, "C-2") == ["new", "open"]
        assert await found_tasks(store, "C-2", None) == ["new", "open"]
        assert (await store.tasks_by_id(TENANT, ["open"]))["open"].reference == "C-2"
        assert (await store.task(TENANT, "other")) == task("other", run="two")

    @on_fresh_store
    async def test_an_answer_does_not_take_the_reference_back(self, store: p.Store) -> None:
        """Who answers has read the task before its run's reference changed. Making it again does not, either."""
        run = await leased(store)
        first = replace(task(), reference="C-1")
        await commit(store, p.PutTask(first))
        await advanced(store, turn(run, attached=(refer("C-2"),)))
        assert await commit(store, p.PutTask(first)) == p.Tasked()
        assert await commit(store, p.PutTask(replace(first, version=2, owner="gus"))) == p.Tasked()
        assert await commit(store, p.PutTask(replace(first, version=2, owner="gus"))) == p.Tasked()
        assert await commit(store, p.PutTask(replace(first, version=2, owner="zoe"))) == p.Fenced()
        kept = await store.task(TENANT, "task")
        assert kept == replace(first, version=2, owner="gus", reference="C-2")
        assert await commit(store, p.CancelTask(TENANT, "task", NOW + 5)) == p.Tasked()
        closed = await store.task(TENANT, "task")
        assert closed is not None
        assert (closed.status, closed.reference) == ("cancelled", "C-2")

    @on_fresh_store
    async def test_a_worker_reads_tasks_with_their_reference(self, store: p.Store) -> None:
        """When it takes the run over."""
        await leased(store)
        await commit(store, p.PutTask(replace(task(), reference="C-1")))
        (kept,) = (await store.governed([key()]))[key()].tasks
        assert kept.reference == "C-1"
