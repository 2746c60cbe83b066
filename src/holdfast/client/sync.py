"""The client without ``await``: for scripts, notebooks and synchronous web frameworks.

Thin: an event loop in a thread of its own, and each call handed over to the one implementation there is. So it works
where a loop is already running, and may be used from several threads at once.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Generic, ParamSpec, Self, TypeVar, Unpack, overload

from holdfast.audit.check.journal import RunCheck
from holdfast.client.engine import Holdfast
from holdfast.client.evidence import Evidence
from holdfast.client.filters import PAGE, RunFilters
from holdfast.client.handle import RunHandle
from holdfast.client.loop_thread import LoopThread
from holdfast.client.starter import Options
from holdfast.client.sync_gate import SyncAudit, SyncReceipts, SyncTasks
from holdfast.client.views.cursors import Page
from holdfast.errors import InvalidRequest
from holdfast.gate.policy.policy import Policy
from holdfast.journal.events import Entry
from holdfast.programs.function.decorators import Bound, Workflow
from holdfast.programs.function.durable_call import ChildCall
from holdfast.runs.birth import DEFAULT_TENANT, Trigger
from holdfast.store import protocol as p
from holdfast.worker.worker import WorkerOptions

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")


class SyncHoldfast:
    """An engine: ``with SyncHoldfast(url) as app`` opens the store and, unless ``worker=False``, runs a worker.

    The arguments are those of ``Holdfast``.
    """

    def __init__(
        self,
        url: str | p.Store,
        *,
        worker: bool = True,
        workflows: Iterable[Workflow[..., Any]] | None = None,
        options: WorkerOptions | None = None,
        policy: str | Path | Policy | None = None,
    ) -> None:
        self._make: Callable[[], Holdfast] = partial(
            Holdfast, url, worker=worker, workflows=workflows, options=options, policy=policy
        )
        self._engine: Holdfast | None = None
        self._loop: LoopThread | None = None

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self, *, migrate: bool = True) -> None:
        """Open the store and start the worker. Safe to call twice."""
        if self._loop is not None:
            return
        loop = LoopThread()
        try:
            self._engine = self._make()
            loop.call(self._engine.open(migrate=migrate))
        except BaseException:
            if self._engine is not None:
                loop.call(self._engine.close())
            self._engine = None
            loop.stop()
            raise
        self._loop = loop

    def close(self) -> None:
        """Stop the worker, handing back what it holds, and let go of the store. Safe to call twice."""
        loop, engine = self._loop, self._engine
        self._loop = self._engine = None
        if loop is not None and engine is not None:
            loop.call(engine.close())
            loop.stop()

    def _opened(self) -> tuple[LoopThread, Holdfast]:
        if self._loop is None or self._engine is None:
            raise InvalidRequest("it is not open: use `with SyncHoldfast(url) as app`, or call open() first.")
        return self._loop, self._engine

    @overload
    def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> SyncRunHandle[R]: ...
    @overload
    def start(self, workflow: Bound[R], /, **options: Unpack[Options]) -> SyncRunHandle[R]: ...
    @overload
    def start(self, workflow: Callable[[], ChildCall[R]], /, **options: Unpack[Options]) -> SyncRunHandle[R]: ...
    @overload
    def start(self, workflow: Callable[[A], ChildCall[R]], a: A, /, **options: Unpack[Options]) -> SyncRunHandle[R]: ...
    @overload
    def start(
        self, workflow: Callable[[A, B], ChildCall[R]], a: A, b: B, /, **options: Unpack[Options]
    ) -> SyncRunHandle[R]: ...
    @overload
    def start(
        self, workflow: Callable[[A, B, C], ChildCall[R]], a: A, b: B, c: C, /, **options: Unpack[Options]
    ) -> SyncRunHandle[R]: ...
    @overload
    def start(
        self, workflow: Callable[[A, B, C, D], ChildCall[R]], a: A, b: B, c: C, d: D, /, **options: Unpack[Options]
    ) -> SyncRunHandle[R]: ...
    @overload
    def start(
        self,
        workflow: Callable[[A, B, C, D, E], ChildCall[R]],
        a: A,
        b: B,
        c: C,
        d: D,
        e: E,
        /,
        **options: Unpack[Options],
    ) -> SyncRunHandle[R]: ...
    @overload
    def start(
        self,
        workflow: str,
        /,
        *args: Any,
        id: str | None = None,
        tenant: str = DEFAULT_TENANT,
        priority: int = 0,
        attributes: Mapping[str, str] | None = None,
        workspace: str = "",
        actor: str | None = None,
        trigger: Trigger | None = None,
        **kwargs: Any,
    ) -> SyncRunHandle[Any]: ...

    def start(  # type: ignore[misc]  # an argument of the workflow may have the name of an option: see bind()
        self,
        workflow: Any,
        /,
        *args: Any,
        id: str | None = None,
        tenant: str = DEFAULT_TENANT,
        priority: int = 0,
        attributes: Mapping[str, str] | None = None,
        workspace: str = "",
        actor: str | None = None,
        trigger: Trigger | None = None,
        **kwargs: Any,
    ) -> SyncRunHandle[Any]:
        """Start a run; durable when this returns. The id is the idempotency key. Raises as ``Holdfast.start`` does."""
        loop, engine = self._opened()
        begun: Coroutine[Any, Any, RunHandle[Any]] = engine.start(
            workflow,
            *args,
            id=id,
            tenant=tenant,
            priority=priority,
            attributes=attributes,
            workspace=workspace,
            actor=actor,
            trigger=trigger,
            **kwargs,
        )
        return SyncRunHandle(loop, loop.call(begun))

    @property
    def tasks(self) -> SyncTasks:
        """What people are asked."""
        loop, engine = self._opened()
        return SyncTasks(loop, engine.tasks)

    @property
    def receipts(self) -> SyncReceipts:
        """What actions did."""
        loop, engine = self._opened()
        return SyncReceipts(loop, engine.receipts)

    @property
    def audit(self) -> SyncAudit:
        """What was decided, asked, done and steered."""
        loop, engine = self._opened()
        return SyncAudit(loop, engine.audit)

    def run(self, id: str, *, tenant: str = DEFAULT_TENANT) -> SyncRunHandle[Any]:
        """A handle on a run by its id; whether there is one shows when it is used."""
        loop, engine = self._opened()
        return SyncRunHandle(loop, engine.run(id, tenant=tenant))

    def list(
        self, *, limit: int | None = None, after: str | None = None, **filters: Unpack[RunFilters]
    ) -> Iterator[p.Run]:
        """The runs that match, newest first."""
        loop, engine = self._opened()
        return loop.each(engine.list(limit=limit, after=after, **filters))

    def page(self, *, limit: int = PAGE, after: str | None = None, **filters: Unpack[RunFilters]) -> Page[p.Run]:
        """So many runs that match, newest first, and a cursor for the rest."""
        loop, engine = self._opened()
        return loop.call(engine.page(limit=limit, after=after, **filters))

    def counts(self, *, tenant: str | None = None) -> Sequence[p.RunCount]:
        """How many runs there are by tenant and status."""
        loop, engine = self._opened()
        return loop.call(engine.counts(tenant=tenant))


class SyncRunHandle(Generic[R]):
    """One run, by its id and tenant: each method is that of ``RunHandle``, waited for."""

    def __init__(self, loop: LoopThread, handle: RunHandle[R]) -> None:
        self._loop = loop
        self._handle = handle

    @property
    def id(self) -> str:
        return self._handle.id

    @property
    def tenant(self) -> str:
        return self._handle.tenant

    def __repr__(self) -> str:
        return repr(self._handle)

    def info(self) -> p.Run:
        return self._loop.call(self._handle.info())

    def status(self) -> p.Status:
        return self._loop.call(self._handle.status())

    def result(self, timeout: float | None = None) -> R:
        return self._loop.call(self._handle.result(timeout))

    def signal(
        self,
        name: str,
        value: object = None,
        *,
        id: str | None = None,
        expected_version: int | None = None,
        by: str | None = None,
    ) -> None:
        self._loop.call(self._handle.signal(name, value, id=id, expected_version=expected_version, by=by))

    def cancel(self, reason: str = "cancelled by request", *, by: str | None = None) -> None:
        self._loop.call(self._handle.cancel(reason, by=by))

    def pause(self, reason: str = "paused by request", *, by: str | None = None) -> None:
        self._loop.call(self._handle.pause(reason, by=by))

    def resume(self, *, by: str | None = None) -> None:
        self._loop.call(self._handle.resume(by=by))

    def explain(self) -> str:
        return self._loop.call(self._handle.explain())

    def verify(self) -> RunCheck:
        return self._loop.call(self._handle.verify())

    def evidence(self, *, values: bool = False, generation: int | None = None, anew: bool = False) -> Evidence:
        return self._loop.call(self._handle.evidence(values=values, generation=generation, anew=anew))

    def retry(self, *, by: str | None = None, dry_run: bool = False) -> tuple[str, ...]:
        return self._loop.call(self._handle.retry(by=by, dry_run=dry_run))

    def fork(self, sequence: int, *, id: str | None = None, by: str | None = None) -> SyncRunHandle[R]:
        return SyncRunHandle(self._loop, self._loop.call(self._handle.fork(sequence, id=id, by=by)))

    def journal(self, first: int = 0) -> Iterator[Entry]:
        return self._loop.each(self._handle.journal(first))

    def tail(self, first: int = 0) -> Iterator[Entry]:
        return self._loop.each(self._handle.tail(first))

    def children(self) -> Iterator[SyncRunHandle[Any]]:
        for handle in self._loop.each(self._handle.children()):
            yield SyncRunHandle(self._loop, handle)
