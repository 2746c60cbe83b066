"""Programs: code is kept by its digest, and a worker claims only runs of programs that it serves."""

from __future__ import annotations

import hashlib

from holdfast.store import protocol as p
from holdfast.testing.stores.samples import (
    COMPLETED,
    NOW,
    SERVES,
    WORKFLOW,
    advanced,
    commit,
    key,
    leased,
    row,
    start,
    turn,
)
from holdfast.testing.stores.topic import Topic, on_fresh_store

ALL = p.Serves((WORKFLOW,), ("definition",))


def code(data: bytes = b"steps: []", name: str = "claims.settle") -> p.Code:
    return p.Code(hashlib.sha256(data).digest(), "definition", name, data)


async def taken(store: p.Store, serves: p.Serves, limits: p.Limits | None = None) -> set[str]:
    return {run.key.run for run in (await store.claim("ann", serves, 10, NOW, limits)).runs}


class Programs(Topic):
    @on_fresh_store
    async def test_a_run_tells_its_program(self, store: p.Store) -> None:
        """A function unless it was started as something else; code is named by its digest."""
        made = start("other", program_kind="definition", code_digest=code().digest)
        assert isinstance(await commit(store, made), p.Started)
        await commit(store, start("plain"))
        other, plain = await row(store, "other"), await row(store, "plain")
        assert (other.program_kind, other.code_digest) == ("definition", code().digest)
        assert (plain.program_kind, plain.code_digest) == (p.FUNCTION, None)

    @on_fresh_store
    async def test_code_is_kept_by_its_digest(self, store: p.Store) -> None:
        """Keeping it again changes nothing; each tenant has its own."""
        for _ in range(2):
            assert await commit(store, p.KeepCode("acme", code())) == p.Kept()
        wanted = [code().digest, code(b"other").digest]
        assert await store.code("acme", wanted) == {code().digest: code()}
        assert await store.code("bolt", wanted) == {}

    @on_fresh_store
    async def test_code_is_refused_whose_digest_does_not_fit(self, store: p.Store) -> None:
        """The kept code must be the code that ran. The other changes of the batch are applied."""
        forged = p.Code(code().digest, "definition", "claims.settle", b"something else")
        answers = await store.commit([p.KeepCode("acme", forged), p.KeepCode("acme", code(b"good"))])
        assert answers == [p.CodeMisfit(), p.Kept()]
        assert await store.code("acme", [code().digest, code(b"good").digest]) == {code(b"good").digest: code(b"good")}

    @on_fresh_store
    async def test_code_is_attached_to_a_start(self, store: p.Store) -> None:
        """One commit starts the run and keeps its code."""
        made = start(program_kind="definition", code_digest=code().digest, attached=(p.KeepCode("acme", code()),))
        answer = await commit(store, made)
        assert isinstance(answer, p.Started)
        assert answer.attached == (p.Kept(),)
        assert await store.code("acme", [code().digest]) == {code().digest: code()}

    @on_fresh_store
    async def test_code_outlives_the_runs_that_were_pruned(self, store: p.Store) -> None:
        """Another run, or one that is yet to be started, may need it."""
        await commit(store, p.KeepCode("acme", code()))
        run = await leased(store, "one")
        await advanced(store, turn(run, projection=COMPLETED))
        assert await store.prune(NOW + 10**9, 10) == 1
        assert await store.code("acme", [code().digest]) == {code().digest: code()}

    @on_fresh_store
    async def test_functions_are_claimed_by_name_and_other_programs_by_kind(self, store: p.Store) -> None:
        """A definition with a function's name is not a function. A run that no worker serves waits."""
        await commit(store, start("function"))
        await commit(store, start("definition", program_kind="definition"))
        await commit(store, start("machine", workflow="lane", program_kind="machine"))
        assert await taken(store, SERVES) == {"function"}
        assert await taken(store, p.Serves(("lane",))) == set()
        assert await taken(store, ALL) == {"definition"}
        assert (await row(store, "machine")).ready_at is not None

    @on_fresh_store
    async def test_caps_admit_by_what_is_served(self, store: p.Store) -> None:
        """Also where tenants have limits, and for runs that have begun."""
        limits = p.Limits(p.TenantLimits(p.Cap(max_concurrency=10)))
        await commit(store, start("function"))
        await commit(store, start("definition", program_kind="definition"))
        await commit(store, start("child", program_kind="definition", parent="function"))
        assert await taken(store, SERVES, limits) == {"function"}
        assert await taken(store, ALL, limits) == {"definition", "child"}

    @on_fresh_store
    async def test_a_run_is_handed_only_to_workers_that_serve_its_kind(self, store: p.Store) -> None:
        """A worker that only serves a function of the same name could not take it."""
        await store.register(p.WorkerRow("ann", "host", 1, (), (), NOW, 0, ("definition",)), 60)
        await store.register(p.WorkerRow("bob", "host", 1, (WORKFLOW,), (), NOW, 0), 60)
        await commit(store, start(program_kind="definition"))
        (run,) = (await store.claim("ann", ALL, 1, NOW)).runs
        assert not await store.decline("ann", run.key, run.epoch, "it does not fit", NOW)
        await store.register(p.WorkerRow("eve", "host", 1, (), (), NOW, 0, ("definition",)), 60)
        assert await store.decline("ann", run.key, run.epoch, "it does not fit", NOW)
        assert [each.worker for each in await store.declined(key())] == ["ann"]
        assert {worker.id: worker.kinds for worker in await store.workers()}["eve"] == ("definition",)
