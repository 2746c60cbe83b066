"""The client without ``await``: for scripts, notebooks and synchronous web frameworks.

It hands each call to ``Holdfast`` on a loop in another thread: so it works where a loop runs, and from several threads.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, Unpack, overload

from holdfast.client.definitions.app_definitions import DefinitionsMode
from holdfast.client.engine import Holdfast
from holdfast.client.filters import RunFilters
from holdfast.client.loop_thread import LoopThread
from holdfast.client.observation import Tracing
from holdfast.client.pages import PAGE
from holdfast.client.runs.handle import RunHandle
from holdfast.client.runs.progress import RunProgress
from holdfast.client.runs.starter import Options
from holdfast.client.sync.calls import waited
from holdfast.client.sync.parts import SyncParts
from holdfast.client.views.cursors import Page
from holdfast.client.views.instances import InstanceInfo
from holdfast.client.views.journal import JournalEntry
from holdfast.client.views.runs import RunInfo
from holdfast.errors import InvalidRequest
from holdfast.gate.policy.policy import Policy
from holdfast.people.caller import Caller
from holdfast.programs.definition.compiler.batch import DefinitionSource
from holdfast.programs.function.bound import Bound
from holdfast.programs.function.decorators import Workflow
from holdfast.programs.function.durable_call import ChildCall
from holdfast.runs.birth import Trigger
from holdfast.store import protocol as p
from holdfast.wakeups.driver import Wakeups
from holdfast.worker.options import WorkerOptions

if TYPE_CHECKING:
    from holdfast.client.governance.evidence import Evidence
    from holdfast.client.runs.retries import RetryChoice, RetryPlan
    from holdfast.client.sync.gate import SyncAudit, SyncDefinitions, SyncReceipts, SyncSchedules, SyncTasks
    from holdfast.client.sync.people import SyncTenants, SyncTokens, SyncUsers, SyncWorkspaces
    from holdfast.programs.machine.proposals import ManifestsMode

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")


class SyncHoldfast(SyncParts):
    """``with SyncHoldfast(url) as app`` opens an engine, with the arguments of ``Holdfast``."""

    def __init__(
        self,
        url: str | p.Store,
        *,
        worker: bool = True,
        workflows: Iterable[Workflow[..., Any]] | None = None,
        options: WorkerOptions | None = None,
        policy: str | Path | Policy | None = None,
        definitions: Iterable[DefinitionSource] | DefinitionSource = (),
        definitions_mode: DefinitionsMode = "strict",
        manifests: ManifestsMode = "declared",
        wakeups: str | Wakeups | None = None,
        tracing: Tracing = False,
    ) -> None:
        self._make: Callable[[], Holdfast] = partial(
            Holdfast,
            url,
            worker=worker,
            workflows=workflows,
            options=options,
            policy=policy,
            definitions=definitions,
            definitions_mode=definitions_mode,
            manifests=manifests,
            wakeups=wakeups,
            tracing=tracing,
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
        """Stop the worker, which gives its runs back, and close the store. Safe to call twice."""
        loop, engine = self._loop, self._engine
        self._loop = self._engine = None
        if loop is not None and engine is not None:
            loop.call(engine.close())
            loop.stop()

    def acting_as(self, who: str | Caller, *, tenant: str | None = None, login: bool = False) -> SyncHoldfast:
        """A client that acts for a user of a tenant, or for the user of a token; see ``Holdfast.acting_as``."""
        from holdfast.client.sync.bound_client import ActingSync

        loop, engine = self._opened()
        return ActingSync(loop, engine.acting_as(who, tenant=tenant, login=login))

    def whoami(self) -> Caller | None:
        """The user that this client acts for, as of now; None where it is the process's own."""
        loop, engine = self._opened()
        return loop.call(engine.whoami())

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
        tenant: str | None = None,
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
        tenant: str | None = None,
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
    def definitions(self) -> SyncDefinitions:
        """Definitions that this engine was given, and those that its store has."""
        from holdfast.client.sync.gate import SyncDefinitions

        loop, engine = self._opened()
        return SyncDefinitions(loop, engine.definitions)

    @property
    def tasks(self) -> SyncTasks:
        """Work for people, and how they answer."""
        from holdfast.client.sync.gate import SyncTasks

        loop, engine = self._opened()
        return SyncTasks(loop, engine.tasks)

    @property
    def receipts(self) -> SyncReceipts:
        """What actions did."""
        from holdfast.client.sync.gate import SyncReceipts

        loop, engine = self._opened()
        return SyncReceipts(loop, engine.receipts)

    @property
    def schedules(self) -> SyncSchedules:
        """What starts by itself, and how people steer it."""
        from holdfast.client.sync.gate import SyncSchedules

        loop, engine = self._opened()
        return SyncSchedules(loop, engine.schedules)

    @property
    def audit(self) -> SyncAudit:
        """Decisions, answers, acts and what operators did; and the keys that sign it."""
        from holdfast.client.sync.gate import SyncAudit

        loop, engine = self._opened()
        return SyncAudit(loop, engine.audit)

    @property
    def tenants(self) -> SyncTenants:
        """The tenants of the installation, and their caps."""
        from holdfast.client.sync.people import SyncTenants

        loop, engine = self._opened()
        return SyncTenants(loop, engine.tenants)

    @property
    def workspaces(self) -> SyncWorkspaces:
        """The parts of a tenant that its runs belong to."""
        from holdfast.client.sync.people import SyncWorkspaces

        loop, engine = self._opened()
        return SyncWorkspaces(loop, engine.workspaces)

    @property
    def users(self) -> SyncUsers:
        """The people and services of a tenant, their levels and groups."""
        from holdfast.client.sync.people import SyncUsers

        loop, engine = self._opened()
        return SyncUsers(loop, engine.users)

    @property
    def tokens(self) -> SyncTokens:
        """Secrets that stand for users."""
        from holdfast.client.sync.people import SyncTokens

        loop, engine = self._opened()
        return SyncTokens(loop, engine.tokens)

    def run(self, id: str, *, tenant: str | None = None) -> SyncRunHandle[Any]:
        """A handle on a run by its id. Its methods raise RunNotFound where there is no such run."""
        loop, engine = self._opened()
        return SyncRunHandle(loop, engine.run(id, tenant=tenant))

    def list(
        self, *, limit: int | None = None, after: str | None = None, **filters: Unpack[RunFilters]
    ) -> Iterator[RunInfo]:
        """The runs that match, newest first."""
        loop, engine = self._opened()
        return loop.each(engine.list(limit=limit, after=after, **filters))

    def page(self, *, limit: int = PAGE, after: str | None = None, **filters: Unpack[RunFilters]) -> Page[RunInfo]:
        """One page of the runs that match, newest first, with a cursor for the rest."""
        loop, engine = self._opened()
        return loop.call(engine.page(limit=limit, after=after, **filters))

    def counts(self, *, tenant: str | None = None, most: int | None = None) -> Sequence[p.RunCount]:
        """The number of runs by tenant and status."""
        loop, engine = self._opened()
        return loop.call(engine.counts(tenant=tenant, most=most))


class SyncRunHandle(Generic[R]):
    """One run, by its id and tenant: each method is that of ``RunHandle``, waited for."""

    def __init__(self, loop: LoopThread, handle: RunHandle[R]) -> None:
        self._loop = loop
        self._handle = self._part = handle

    @property
    def id(self) -> str:
        return self._handle.id

    @property
    def tenant(self) -> str:
        return self._handle.tenant

    def __repr__(self) -> str:
        return repr(self._handle)

    def info(self) -> RunInfo:
        return self._loop.call(self._handle.info())

    def status(self) -> p.Status:
        return self._loop.call(self._handle.status())

    def result(self, timeout: float | None = None) -> R:
        return self._loop.call(self._handle.result(timeout))

    def settled(self, timeout: float | None = None) -> RunProgress:
        return self._loop.call(self._handle.settled(timeout))

    def signal(
        self,
        name: str,
        value: object = None,
        *,
        key: object = None,
        id: str | None = None,
        expected_version: int | None = None,
        wait_token: str | None = None,
        by: str | None = None,
    ) -> None:
        sent = self._handle.signal(
            name, value, key=key, id=id, expected_version=expected_version, wait_token=wait_token, by=by
        )
        self._loop.call(sent)

    def state(self) -> dict[str, Any]:
        return self._loop.call(self._handle.state())

    def instance(self) -> InstanceInfo:
        return self._loop.call(self._handle.instance())

    def cancel(
        self, reason: str = "cancelled by request", *, by: str | None = None, leave_children: bool = False
    ) -> None:
        self._loop.call(self._handle.cancel(reason, by=by, leave_children=leave_children))

    def pause(self, reason: str = "paused by request", *, by: str | None = None) -> None:
        self._loop.call(self._handle.pause(reason, by=by))

    def resume(self, *, by: str | None = None, reason: str = "") -> None:
        self._loop.call(self._handle.resume(by=by, reason=reason))

    explain = waited(RunHandle.explain)
    advice = waited(RunHandle.advice)
    verify = waited(RunHandle.verify)

    def evidence(self, *, values: bool = False, generation: int | None = None, anew: bool = False) -> Evidence:
        return self._loop.call(self._handle.evidence(values=values, generation=generation, anew=anew))

    def retry(
        self, *, by: str | None = None, reason: str = "", dry_run: bool = False, **chosen: Unpack[RetryChoice]
    ) -> tuple[str, ...]:
        return self._loop.call(self._handle.retry(by=by, reason=reason, dry_run=dry_run, **chosen))

    def plan_retry(self, **chosen: Unpack[RetryChoice]) -> RetryPlan:
        return self._loop.call(self._handle.plan_retry(**chosen))

    def fork(
        self, sequence: int, *, id: str | None = None, by: str | None = None, reason: str = ""
    ) -> SyncRunHandle[R]:
        return SyncRunHandle(self._loop, self._loop.call(self._handle.fork(sequence, id=id, by=by, reason=reason)))

    def journal(self, first: int = 0) -> Iterator[JournalEntry]:
        return self._loop.each(self._handle.journal(first))

    def tail(self, first: int = 0) -> Iterator[JournalEntry]:
        return self._loop.each(self._handle.tail(first))

    def children(self) -> Iterator[SyncRunHandle[Any]]:
        for handle in self._loop.each(self._handle.children()):
            yield SyncRunHandle(self._loop, handle)
