"""``Holdfast``: one engine, on one store. Several may live in one process; there is no global one."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Final, ParamSpec, Self, TypeVar, Unpack, overload

import msgspec

from holdfast.audit.notes import note
from holdfast.audit.records import Operated
from holdfast.client.audit import Audit
from holdfast.client.filters import PAGE, RUNS, RunFilters, query_of
from holdfast.client.handle import RunHandle
from holdfast.client.receipts import Receipts
from holdfast.client.repair import Repairs
from holdfast.client.starter import NotedOptions, Options, Starter
from holdfast.client.tasks import Tasks
from holdfast.client.views.cursors import Page, read_cursor, write_cursor
from holdfast.client.waiters import EndedHere, Waiters
from holdfast.errors import InvalidRequest, UnsupportedStore
from holdfast.gate.policy.keeper import PolicyKeeper
from holdfast.gate.policy.policy import Policy
from holdfast.journal import events as e
from holdfast.kernel.execution import Entropy
from holdfast.kernel.program import Program
from holdfast.people.names import NAME, is_name
from holdfast.programs.catalogue import Catalogue
from holdfast.programs.function.decorators import STEPS, WORKFLOWS, Bound, Step, Workflow
from holdfast.programs.function.durable_call import ChildCall
from holdfast.programs.function.functions import Functions
from holdfast.programs.function.registry import Registry
from holdfast.programs.function.reversal import reverse
from holdfast.runs.birth import DEFAULT_TENANT, Trigger, check_text
from holdfast.runs.clock import SYSTEM_CLOCK, SYSTEM_ENTROPY, Clock
from holdfast.store import protocol as p
from holdfast.store.committer import Committer
from holdfast.store.opening import store_at
from holdfast.worker.heart import ThreadPulse
from holdfast.worker.worker import PulseFactory, Worker, WorkerOptions

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")

CLOSED: Final = "the engine is not open: use it inside `async with Holdfast(url) as app`, or call open() first."

UNNAMED: Final = "unnamed"
"""Who steers, where nobody said."""


class Holdfast:
    """An engine: ``async with Holdfast(url) as app`` opens the store and, unless ``worker=False``, runs a worker.

    ``workflows`` narrows what the worker serves; by default it is every decorated workflow that has been imported.
    ``policy`` judges actions: a file, which is read again when it changes, or a Policy. Without one every action is
    denied. Raises InvalidPolicy where the file cannot be used.
    """

    def __init__(
        self,
        url: str | p.Store,
        *,
        worker: bool = True,
        workflows: Iterable[Workflow[..., Any]] | None = None,
        options: WorkerOptions | None = None,
        policy: str | Path | Policy | None = None,
        clock: Clock = SYSTEM_CLOCK,
        entropy: Entropy = SYSTEM_ENTROPY,
        pulse: PulseFactory = ThreadPulse,
        threads: Executor | None = None,
    ) -> None:
        if options is not None and not isinstance(options, WorkerOptions):
            raise InvalidRequest(f"options are WorkerOptions(…), not {options!r:.60}")
        self.url = url if isinstance(url, str) else ""
        self._store: p.Store = _store(url)
        self._is_open = False
        self.clock = clock
        self.entropy = entropy
        self.options = options or WorkerOptions()
        self.policy = PolicyKeeper(policy)
        self.committer = Committer(self._store)
        self.committer.refuse(CLOSED)
        self.waiters = Waiters(self._store, self._is_here)
        self.starter = Starter(self)
        self.repairs = Repairs(self)
        self.tasks = Tasks(self)
        self.receipts = Receipts(self)
        self.audit = Audit(self)
        self.worker: Worker | None = None
        self._wants_worker = worker
        self._pulse = pulse
        self._threads = threads
        self._workflows: Mapping[str, Workflow[..., Any]] = (
            WORKFLOWS if workflows is None else Registry("workflow", [*workflows, reverse])
        )
        self.catalogue = Catalogue([Functions(self._workflows)])
        self._steps: Mapping[str, Step[..., Any]] = STEPS
        self._unwatch: Any = None
        self._change = asyncio.Event()

    # -- life ----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self, *, migrate: bool = True, worker: bool | None = None) -> None:
        """Open the store, bring its schema up to date, and start the worker; ``worker`` overrides the constructor's.

        Safe to call twice: an engine that is open stays as it is.
        """
        if self._is_open:
            return
        await self._store.open(migrate=migrate)
        self._is_open = True
        self.committer.start()
        self._unwatch = self._store.watch(self.hint)
        self.waiters.start()
        if self._wants_worker if worker is None else worker:
            self.worker = Worker(
                self._store,
                self.committer,
                self.clock,
                self.entropy,
                self.catalogue,
                self._steps,
                self._on_end,
                self.options,
                self.policy,
                pulse=self._pulse,
                threads=self._threads,
            )
            try:
                await self.worker.start()
            except BaseException:
                self._is_open = False
                raise

    async def close(self, grace_seconds: float | None = None) -> None:
        """Stop the worker, handing back what it holds, and let go of the store. Safe to call twice.

        While steps finish the engine can be used; then whoever still waits for something is told that it is closed.
        """
        if self.worker is not None:
            await self.worker.stop(grace_seconds)
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        self._is_open = False
        await self.waiters.stop()
        await self.committer.stop(CLOSED)
        await self._store.close()

    @property
    def store(self) -> p.Store:
        """The store. Raises InvalidRequest where the engine is not open: nothing could be kept, and nothing found."""
        self.check_open()
        return self._store

    def check_open(self) -> None:
        """Raises InvalidRequest where the engine is not open, or not any more."""
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
        tenant: str = DEFAULT_TENANT,
        priority: int = 0,
        attributes: Mapping[str, str] | None = None,
        workspace: str = "",
        actor: str | None = None,
        trigger: Trigger | None = None,
        **kwargs: Any,
    ) -> RunHandle[Any]: ...

    async def start(  # type: ignore[misc]  # an argument of the workflow may have the name of an option: see bind()
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
    ) -> RunHandle[Any]:
        """Start a run; durable when this returns. The id is the idempotency key: the same id finds the same run.

        ``workflow`` is a workflow, its name, or ``workflow.bind(…)`` with its arguments. Bind them where one has a name
        that is an option here, or where a type checker shall check named arguments beside options.
        ``actor`` is who asks for it, ``workspace`` where; policy may judge by both. With a ``trigger`` and without an
        id, the trigger is the key: started again by the same one, it finds the first run, whatever the arguments.
        Raises InvalidArguments where the workflow is known here and cannot be called like this, and RunConflict where
        the id belongs to a run of another workflow or with other arguments, or to one that was deleted and whose
        evidence is kept.
        """
        self.check_open()
        options = NotedOptions(
            id=id,
            tenant=tenant,
            priority=priority,
            attributes=attributes,
            workspace=workspace,
            actor=actor,
            trigger=trigger,
        )
        return await self.starter.start(workflow, args, kwargs, options)

    def run(self, id: str, *, tenant: str = DEFAULT_TENANT) -> RunHandle[Any]:
        """A handle on a run by its id; whether there is one shows when it is used."""
        return RunHandle(self, p.Key(check_text(tenant, "the tenant"), check_text(id, "the id")))

    async def list(
        self, *, limit: int | None = None, after: str | None = None, **filters: Unpack[RunFilters]
    ) -> AsyncIterator[p.Run]:
        """The runs that match, newest first; behind ``after``, which is the ``next`` of a page, where it is given."""
        query, place = query_of(filters), read_cursor(RUNS, after)
        left = limit
        while left is None or left > 0:
            size = min(PAGE, PAGE if left is None else left)
            found = await self.store.find(query, size, place)
            for row in found:
                yield row
            if len(found) < size:
                return
            place = found[-1].cursor
            left = None if left is None else left - len(found)

    async def page(self, *, limit: int = PAGE, after: str | None = None, **filters: Unpack[RunFilters]) -> Page[p.Run]:
        """So many runs that match, newest first, and a cursor for the rest."""
        found = await self.store.find(query_of(filters), limit, read_cursor(RUNS, after))
        more = found and len(found) == limit
        return Page(found, write_cursor(RUNS, found[-1].cursor) if more else None)

    async def counts(self, *, tenant: str | None = None) -> Sequence[p.RunCount]:
        """How many runs there are by tenant and status; fast, however many there are."""
        return await self.store.counts(tenant)

    def told(
        self,
        tenant: str,
        act: str,
        by: str | None,
        run: str | None,
        reason: str = "",
        details: Mapping[str, str] | None = None,
    ) -> p.Note:
        """What the audit says of a person who steers. Raises InvalidRequest where who or why cannot be told.

        Its id is this act's own: committed again it is known, and the same act a moment later is another.
        """
        if by is not None and not is_name(by):
            raise InvalidRequest(f"say who steers: {NAME}, not {by!a:.60}")
        self.check_reason(reason)
        record = Operated(self.clock.now(), act, by or UNNAMED, run, reason, details or {})
        return msgspec.structs.replace(note(tenant, run, record), id=self.token())

    def check_reason(self, reason: object) -> None:
        """Raises InvalidRequest where the engine is not open, or the reason is no text."""
        self.check_open()
        if not isinstance(reason, str):
            raise InvalidRequest(f"the reason is a text, not {reason!r:.60}")

    # -- between the parts -----------------------------------------------------------------------------------------

    def token(self) -> str:
        """A new id: a UUID of version 7. Such ids sort by time, so what is new stands together in a store's indexes."""
        milliseconds = (self.clock.now() // 1000).to_bytes(6)
        chance = self.entropy.randbytes(16)
        version, variant = chance[6] & 0x0F | 0x70, chance[8] & 0x3F | 0x80
        return str(uuid.UUID(bytes=milliseconds + bytes((version, chance[7], variant)) + chance[9:]))

    def workflow_named(self, name: str) -> Workflow[..., Any] | None:
        """The workflow of that name, if it is known here."""
        return self._workflows.get(name) or WORKFLOWS.get(name)

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
        self._change.set()
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
        """Wait for a hint, or so long."""
        self._change.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._change.wait()
        except TimeoutError:
            return

    def _is_here(self, key: p.Key) -> bool:
        return self.worker is not None and self.worker.running and key in self.worker.advancer.held

    def _on_end(self, key: p.Key, workflow: str, event: e.Event) -> None:
        self._change.set()
        self.waiters.ended(key, EndedHere(workflow, event))


def _store(url: str | p.Store) -> p.Store:
    """The store that is meant. Raises UnsupportedStore, where None came from a setting that is missing, for one."""
    if isinstance(url, str):
        return store_at(url)
    if not callable(getattr(url, "commit", None)):
        raise UnsupportedStore(
            f"{url!r:.60} names no store: give a URL, sqlite:///FILE or postgresql://USER@HOST/DATABASE, or a store."
        )
    return url
