"""``Holdfast``: one engine on one store. A process may have several; there is no global one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Self, TypeVar, Unpack, overload

from holdfast.client.filters import RUNS, RunFilters, finder, run_rows
from holdfast.client.neighbours import Neighbours
from holdfast.client.observation import EngineObservation, Tracing
from holdfast.client.pages import PAGE, page_of
from holdfast.client.parts import Parts, check_machines, policy_keeper, served_workflows
from holdfast.client.people.permission import operation
from holdfast.client.views.cursors import Page
from holdfast.client.views.runs import RunInfo, run_info
from holdfast.client.waiters import EndedHere, Waiters
from holdfast.errors import InvalidRequest
from holdfast.runs.birth import Trigger, check_text
from holdfast.runs.clock import SYSTEM_CLOCK, SYSTEM_ENTROPY, Clock
from holdfast.store import protocol as p
from holdfast.store.committer import Committer
from holdfast.store.urls import store_of
from holdfast.transports.secret_keeper import SecretKeeper, SecretSettings
from holdfast.wakeups.driver import Wakeups
from holdfast.worker.options import WorkerOptions

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.client.definitions.app_definitions import DefinitionsMode
    from holdfast.client.runs.handle import RunHandle
    from holdfast.client.runs.starter import NotedOptions, Options
    from holdfast.gate.policy.policy import Policy
    from holdfast.journal import events as e
    from holdfast.kernel.program import Program
    from holdfast.kernel.scribe import Entropy
    from holdfast.programs.definition.compiler.batch import DefinitionSource
    from holdfast.programs.function.bound import Bound
    from holdfast.programs.function.decorators import Workflow
    from holdfast.programs.function.durable_call import ChildCall
    from holdfast.programs.machine.proposals import ManifestsMode
    from holdfast.worker.worker import PulseFactory, Worker

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")

CLOSED: Final = "the engine is not open: use it inside `async with Holdfast(url) as app`, or call open() first."


class Holdfast(Parts):
    """An engine: ``async with Holdfast(url) as app`` opens the store and, unless ``worker=False``, runs a worker.

    ``workflows`` are the ones that the worker serves; by default all decorated workflows that have been imported.
    ``policy`` judges actions: a file, which is read again when it changes, or a Policy. Without one every action is
    denied. Raises InvalidPolicy where the file cannot be used.
    ``definitions`` are files, folders of files, texts or documents, accepted when the engine opens. In the mode
    ``strict`` an invalid one keeps it from opening, with all faults of all; in the mode ``warn`` it is logged.
    ``manifests``: ``declared`` runs the machines of the code until a manifest is applied, ``governed`` only then.
    ``wakeups`` carries hints between processes beside the store's own: a URL such as ``redis://HOST:6379/0``, or an
    object, see ``Wakeups``. ``tracing`` makes spans for OpenTelemetry: by this provider, or with True by that of the
    process. Raises UnsupportedWakeups, and ExtraMissing without the extra ``redis`` or ``otel``.
    ``secrets`` is the operator's table that says which tenant may use which secret, a file, or ``SecretSettings`` with
    that and with sources of values. Raises InvalidSettings where the table cannot be used.
    """

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
        secrets: SecretSettings | str | Path | None = None,
        tracing: Tracing = False,
        clock: Clock = SYSTEM_CLOCK,
        entropy: Entropy = SYSTEM_ENTROPY,
        pulse: PulseFactory | None = None,
        threads: Executor | None = None,
    ) -> None:
        if options is not None and not isinstance(options, WorkerOptions):
            raise InvalidRequest(f"options are WorkerOptions(…), not {options!r:.60}")
        self.url = url if isinstance(url, str) else ""
        self._store: p.Store = store_of(url)
        self._is_open = False
        self.secrets = SecretKeeper(self._store, secrets)
        self.clock = clock
        self.entropy = entropy
        self.options = options or WorkerOptions()
        self.neighbours = Neighbours(self._store, wakeups, self.hint)
        self.observation = EngineObservation(clock, self.neighbours.committed, tracing)
        self.committer = Committer(self._store, self.observation.committed)
        self.committer.refuse(CLOSED)
        self.waiters = Waiters(self._store, clock, self._is_here, self.neighbours.listen)
        self.worker: Worker | None = None
        self._wants_worker = worker
        self._pulse = pulse
        self._threads = threads
        if policy is not None:
            self.policy = policy_keeper(policy)
        if workflows is not None:
            self._workflows = served_workflows(workflows)
        if definitions_mode not in ("strict", "warn"):
            raise InvalidRequest(f"the mode of definitions is strict or warn, not {definitions_mode!r:.60}")
        self._given_definitions, self.manifests_mode = (definitions, definitions_mode), manifests
        self.token_uses: dict[str, int] = {}

    # -- life ----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self, *, migrate: bool = True, worker: bool | None = None) -> None:
        """Open the store, bring its schema up to date, and start the worker; ``worker`` overrides the constructor's.

        Safe to call twice: an engine that is open stays as it is. Raises InvalidDefinition, see ``definitions``, and
        DuplicateName or InvalidManifest where machines that have been imported do not fit together.
        """
        if self._is_open:
            return
        check_machines(self)
        if self.has_definitions:
            self.definitions.accept_sources()
        await self._store.open(migrate=migrate)
        self._is_open = True
        self.committer.start()
        self.neighbours.open()
        self.waiters.start()
        if self._wants_worker if worker is None else worker:
            self.worker = self._new_worker()
            try:
                await self.worker.start()
            except BaseException:
                self._is_open = False
                raise
            self.neighbours.listen()

    def _new_worker(self) -> Worker:
        from holdfast.client.duties import duties_of
        from holdfast.client.schedules.launcher import ScheduleLauncher
        from holdfast.worker.presence.heart import ThreadPulse
        from holdfast.worker.worker import Worker

        return Worker(
            self._store,
            self.committer,
            self.clock,
            self.entropy,
            self.catalogue,
            self._steps,
            self._on_end,
            self.options,
            self.policy,
            self.secrets,
            pulse=self._pulse or ThreadPulse,
            threads=self._threads,
            rested=self.waiters.rested,
            launcher=ScheduleLauncher(self),
            duties=duties_of(self),
            announce=self.neighbours.announce,
            observer=self.observation.observer,
            spans=self.observation.tracer,
        )

    async def close(self, grace_seconds: float | None = None) -> None:
        """Stop the worker, which gives its runs back, and close the store. Safe to call twice.

        The engine can be used while steps finish. After that, calls that still wait fail with InvalidRequest.
        """
        if self.worker is not None:
            await self.worker.stop(grace_seconds)
        self._is_open = False
        if "readers" in vars(self):
            await self.readers.close()
        await self.waiters.stop()
        await self.committer.stop(CLOSED)
        await self.neighbours.close()
        await self._store.close()

    @property
    def store(self) -> p.Store:
        """The store. Raises InvalidRequest where the engine is not open."""
        self.check_open()
        return self._store

    @property
    def whole_store(self) -> p.Store:
        """The store with all its tenants, for parts that serve all of them: sealing, keys, and who is who."""
        return self.store

    def check_open(self) -> None:
        """Raises InvalidRequest where the engine is not open."""
        if not self._is_open:
            raise InvalidRequest(CLOSED)

    # -- runs ----------------------------------------------------------------------------------------------------

    @overload
    async def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> RunHandle[R]: ...
    @overload
    async def start(self, workflow: Bound[R], /, **options: Unpack[Options]) -> RunHandle[R]: ...
    @overload
    async def start(self, workflow: Callable[[], ChildCall[R]], /, **options: Unpack[Options]) -> RunHandle[R]: ...
    @overload
    async def start(
        self, workflow: Callable[[A], ChildCall[R]], a: A, /, **options: Unpack[Options]
    ) -> RunHandle[R]: ...
    @overload
    async def start(
        self, workflow: Callable[[A, B], ChildCall[R]], a: A, b: B, /, **options: Unpack[Options]
    ) -> RunHandle[R]: ...
    @overload
    async def start(
        self, workflow: Callable[[A, B, C], ChildCall[R]], a: A, b: B, c: C, /, **options: Unpack[Options]
    ) -> RunHandle[R]: ...
    @overload
    async def start(
        self, workflow: Callable[[A, B, C, D], ChildCall[R]], a: A, b: B, c: C, d: D, /, **options: Unpack[Options]
    ) -> RunHandle[R]: ...
    @overload
    async def start(
        self,
        workflow: Callable[[A, B, C, D, E], ChildCall[R]],
        a: A,
        b: B,
        c: C,
        d: D,
        e: E,
        /,
        **options: Unpack[Options],
    ) -> RunHandle[R]: ...
    @overload
    async def start(
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
    ) -> RunHandle[Any]: ...

    @operation("runs.start")  # type: ignore[misc]  # an argument of the workflow may have the name of an option: bind()
    async def start(
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
    ) -> RunHandle[Any]:
        """Start a run; durable when this returns. The id is the idempotency key: the same id finds the same run.

        ``workflow`` is a workflow, its name, or ``workflow.bind(…)`` with its arguments. Bind the arguments where one
        has the name of an option, or where a type checker should check named arguments beside options.
        ``actor`` is the person who asks for the run, ``workspace`` the part of the tenant that it belongs to; policy
        may judge by both. A ``trigger`` is a key, too: the same one finds the run that it has started of this workflow,
        whatever the ids. Raises InvalidArguments where the workflow is known here and cannot be called like this, and
        RunConflict where the id belongs to a run of another workflow, the id or the trigger to one with other
        arguments, or the id to a deleted run whose evidence is kept.
        """
        self.check_open()
        options: NotedOptions = {
            "id": id,
            "tenant": tenant,
            "priority": priority,
            "attributes": attributes,
            "workspace": workspace,
            "actor": actor,
            "trigger": trigger,
        }
        return await self.starter.start(workflow, args, kwargs, options)

    def run(self, id: str, *, tenant: str | None = None) -> RunHandle[Any]:
        """A handle on a run by its id. Its methods raise RunNotFound where there is no such run."""
        from holdfast.client.runs.handle import RunHandle

        if tenant is None:
            return RunHandle.of_caller(self, check_text(id, "the id"))
        return RunHandle(self, p.Key(check_text(tenant, "the tenant"), check_text(id, "the id")))

    @operation("runs.see")
    async def list(
        self, *, limit: int | None = None, after: str | None = None, **filters: Unpack[RunFilters]
    ) -> AsyncIterator[RunInfo]:
        """The runs that match, newest first. ``after`` is the ``next`` of a page: the list begins behind that page."""
        async for row in run_rows(self.store, limit=limit, after=after, **filters):
            yield run_info(row)

    @operation("runs.see")
    async def page(
        self, *, limit: int = PAGE, after: str | None = None, **filters: Unpack[RunFilters]
    ) -> Page[RunInfo]:
        """One page of the runs that match, newest first, with a cursor for the rest."""
        return await page_of(RUNS, finder(self.store, filters), limit, after, run_info)

    # -- between the parts -----------------------------------------------------------------------------------------

    def token(self) -> str:
        """A new id: a UUID of version 7. Such ids sort by time, so new rows are neighbours in a store's indexes."""
        milliseconds = (self.clock.now() // 1000).to_bytes(6)
        chance = self.entropy.randbytes(16)
        version, variant = chance[6] & 0x0F | 0x70, chance[8] & 0x3F | 0x80
        text = (milliseconds + bytes((version, chance[7], variant)) + chance[9:]).hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def adopt(self, other: Holdfast) -> None:
        """Serve and start what another engine serves: its functions by name, and the definitions that it was given."""
        self.catalogue = other.catalogue
        self.definitions = other.definitions.shared_with(self)

    def workflow_named(self, name: str) -> Workflow[..., Any] | None:
        """The workflow of that name, if it is known here."""
        from holdfast.programs.function.decorators import WORKFLOWS

        return self.workflows.get(name) or WORKFLOWS.get(name)

    async def program_of(self, run: p.Run, digest: str) -> Program:
        """A fresh program for a run whose journal pins this digest. Raises WorkflowUnknown or StoreCorrupt."""
        tenant, code = run.key.tenant, run.code_digest
        if code is not None and self.catalogue.lacks(tenant, code):
            self.catalogue.learn(tenant, (await self.store.code(tenant, [code])).values())
        return self.catalogue.program(run.program_kind, run.workflow, digest, tenant, code)

    @property
    def workflows(self) -> Mapping[str, Workflow[..., Any]]:
        """The workflows that a worker of this engine serves, by name."""
        return self._workflows

    def wake_sealer(self) -> None:
        """The audit has a new entry."""
        if self.worker is not None and self.worker.running:
            self.worker.wake_sealer()

    def hint(self) -> None:
        """Something may have changed in the store."""
        self.neighbours.tell()
        self.neighbours.change()
        self.waiters.hint()
        if self.worker is not None:
            self.worker.hint()

    def delivered(self, key: p.Key) -> None:
        """This process put a message into a run's inbox."""
        if self.worker is not None and self.worker.running:
            self.worker.advancer.delivered(key)
        else:
            self.hint()

    async def changed(self, seconds: float) -> None:
        """Wait for a hint, at most so many seconds."""
        await self.neighbours.changed(seconds)

    def _is_here(self, key: p.Key) -> bool:
        return self.worker is not None and self.worker.running and key in self.worker.advancer.held

    def _on_end(self, run: p.Run, event: e.Event, again: int) -> None:
        self.neighbours.change()
        self.observation.ended(run, event, again)
        self.waiters.ended(run.key, EndedHere(run.workflow, event))
