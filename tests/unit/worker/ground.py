"""Where the gate's engine tests happen: engines with a policy on one store, killed where a test says so.

On memory the time is virtual. On SQLite and PostgreSQL it is real, and nothing there waits for anything but an event.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from weakref import WeakSet

import msgspec

from holdfast import Holdfast, Policy, WorkerOptions
from holdfast.audit import records as r
from holdfast.audit.collector import entries_of
from holdfast.errors import StoreUnavailable
from holdfast.gate.policy.policy import parse
from holdfast.programs.definition.engine_tools import EngineTools
from holdfast.programs.function.decorators import STEPS, Step, Workflow
from holdfast.runs.clock import SYSTEM_CLOCK, Clock
from holdfast.runs.journals import row_of
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.store.outage import Outage
from holdfast.store.sqlite.store import SqliteStore
from holdfast.store.urls import store_at
from holdfast.testing.virtual import VirtualClock, run_virtually
from holdfast.worker.presence.heart import Beats, LoopPulse, Pulse

T = TypeVar("T")
R = TypeVar("R", bound=r.Record)

OPTIONS = WorkerOptions(warm_limit=0, retention_days=None, lease_seconds=1.5, evidence=False)
"""Nothing is kept warm, so that every turn after a wait is a replay; the dead are found out soon."""


def policy_of(*rules: Mapping[str, Any], **more: Any) -> Policy:
    """A policy of rules, each with the effect ``allow`` and for everything unless it says otherwise."""
    named = [{"name": f"r{number}", "when": "true", "effect": "allow", **rule} for number, rule in enumerate(rules)]
    # Its own clock stands still: what takes too long is denied, and a busy machine must not change a test.
    return parse(msgspec.json.encode({"version": 1, "rules": named, **more}), "policy.yaml", clock=lambda: 0)


def asking(tier: str = "med", **more: Any) -> Policy:
    """A policy that wants everything approved."""
    return policy_of({"effect": "needs_approval", "tier": tier, **more})


FREE = policy_of({})


VIRTUAL_LEASE_SECONDS = 20.0
"""In virtual time waiting for a lease costs nothing, and the heartbeats of short ones cost the test's time."""

PATIENCE_SECONDS = 6 * 3600
"""Virtual time passes for ever where something is waited for in vain."""


def _unwatched(store: p.Store, beats: Beats) -> Pulse:
    """A heart without a watchdog, which would look twice in each second of virtual hours."""
    return LoopPulse(store, msgspec.structs.replace(beats, watchdog=None))


@cache
def _function_is_awaited(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function)


def _is_awaited(operation: Any) -> bool:
    """Whether it is a coroutine function. Virtual hours ask this a hundred thousand times."""
    return callable(operation) and _function_is_awaited(getattr(operation, "__func__", operation))


_HEARD_OF = frozenset({"commit", "decline", "pause", "rescue", "unpause"})
"""Operations after which another engine may have something to do."""


class Line:
    """One engine's way to a store that others use, too. Once it is dead nothing gets through and nothing comes back,
    as with a process that was killed.

    The others hear of its writes. SQLite tells only those that have opened the file themselves: here, nobody."""

    _lines: ClassVar[WeakSet[Line]] = WeakSet()

    def __init__(self, store: p.Store) -> None:
        self._store = store
        self._lines.add(self)
        self.outage = Outage()  # of this process alone
        self._hints: set[Callable[[], None]] = set()
        self.dead = False
        self.cut = False  # nothing gets through for now
        self._graves: list[asyncio.Future[None]] = []

    def twin(self) -> Line:
        return self

    async def open(self, *, migrate: bool = True) -> None:
        """It is open: others use it, too."""

    async def close(self) -> None:
        """It stays open for the others."""

    def watch(self, hint: Callable[[], None]) -> Callable[[], None]:
        stop = self._store.watch(hint)
        if isinstance(self._store, SqliteStore):
            self._hints.add(hint)

        def stop_both() -> None:
            self._hints.discard(hint)
            stop()

        return stop_both

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._store, name)
        if not _is_awaited(operation):
            return operation

        async def call(*args: Any, **kwargs: Any) -> Any:
            if self.cut or self.dead:
                await self._pass()
            answer = await operation(*args, **kwargs)
            if name in _HEARD_OF:
                self._hint_others()
            if self.cut or self.dead:
                await self._pass()
            return answer

        return call

    def _hint_others(self) -> None:
        for line in self._lines:
            if line is not self and line._store is self._store:
                for hint in line._hints:
                    asyncio.get_running_loop().call_soon(hint)

    async def _pass(self) -> None:
        if self.cut:
            raise StoreUnavailable("the line is cut")
        if self.dead:
            grave: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._graves.append(grave)
            await grave


class Ground:
    """A store, a clock, and the engines on them. The store is in memory, a file of SQLite, or that of a URL."""

    def __init__(self, path: Path | str | None) -> None:
        self._path = path
        self.store: p.Store
        self.clock: Clock = SYSTEM_CLOCK
        self._seed = 0

    @property
    def is_virtual(self) -> bool:
        """Whether time passes by itself."""
        return self._path is None

    def play(self, main: Callable[[Ground], Coroutine[Any, Any, T]]) -> T:
        """Run it to its end, in virtual time on memory, and in real time on other stores."""
        return run_virtually(self._played(main)) if self._path is None else asyncio.run(self._played(main))

    async def _played(self, main: Callable[[Ground], Coroutine[Any, Any, T]]) -> T:
        if self._path is None:
            self.clock = VirtualClock(asyncio.get_running_loop())
            self.store = MemoryStore(self.clock.now)
        else:
            self.store = store_at(self._path) if isinstance(self._path, str) else SqliteStore(str(self._path))
        await self.store.open()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS if self._path is None else 60):
                return await main(self)
        finally:
            await _bury()
            await self.store.close()

    @asynccontextmanager
    async def engine(
        self,
        *workflows: Workflow[..., Any],
        policy: Policy | str | Path | None = FREE,
        options: WorkerOptions = OPTIONS,
        steps: Mapping[str, Step[..., Any]] | None = None,
        without: Collection[str] = (),
        line: Line | None = None,
        **more: Any,
    ) -> AsyncIterator[Holdfast]:
        """An engine with a worker. ``steps`` are those that it knows in another version than the rest, ``without``
        those that it does not have; ``line`` is its way to the store."""
        self._seed += 1
        if self.is_virtual and options.lease_seconds == OPTIONS.lease_seconds:
            options = msgspec.structs.replace(options, lease_seconds=VIRTUAL_LEASE_SECONDS)
        app = Holdfast(
            line or Line(self.store),  # type: ignore[arg-type]  # every operation is forwarded by name
            clock=self.clock,
            entropy=random.Random(self._seed),
            pulse=_unwatched,
            options=options,
            workflows=workflows,
            policy=policy,
            **more,
        )
        if steps is not None or without:
            app._steps = {name: each for name, each in {**STEPS, **(steps or {})}.items() if name not in without}
            app.definitions.tools = app.definitions.kind.tools = EngineTools(app._steps)
        await app.open()
        try:
            yield app
        finally:
            if not line_of(app).dead:
                await app.close(0)
            elif not self.is_virtual and (worker := app.worker) is not None:
                await self.store.beat(worker.id, 0.0)  # nobody has to wait until its lease is over


def line_of(app: Holdfast) -> Line:
    line = app._store
    assert isinstance(line, Line)
    return line


def kill(app: Holdfast) -> None:
    """End an engine in the middle of its work: it writes nothing more, and reads nothing."""
    line_of(app).dead = True


async def _bury() -> None:
    """Take away what killed engines were doing, and whatever that begins when it is taken away."""
    for _ in range(100):
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if not left:
            return
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=1)


async def asked(app: Holdfast, run: str, *, other_than: str | None = None) -> p.TaskRow:
    """Wait until the run asks something, or something else than before. The row: some tests forge it."""
    while True:
        for task in await app.store.tasks(p.TaskQuery(None, "requested", run), 100):
            if task.id != other_than:
                return task
        await app.changed(0.05)


async def until(app: Holdfast, holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    while not holds():  # what is waited for has no event of its own
        await app.changed(0.05)


def meets(app: Holdfast) -> bool:
    """Whether a call waits in this engine for another's act under the same key."""
    assert app.worker is not None
    gates = [held.gate for held in app.worker.advancer.held.values() if held.gate is not None]
    return any(call.state == "blocked" for gate in gates for call in gate.calls.values())


async def rested(app: Holdfast, run: str) -> p.Run:
    """Wait until nothing moves the run any more: it waits, and its lease is given up."""
    while True:
        row = await row_of(app.store, app.run(run).key)
        if row.owner is None and row.ready_at is None and row.standing == "waiting":
            return row
        await app.changed(0.05)


async def notes(app: Holdfast, kind: type[R], run: str | None = None, tenant: str = "default") -> list[R]:
    """The records of this kind in the audit, of one run or of all, in order."""
    found = [r.decode(entry.body) async for entry in entries_of(app.store, p.AuditQuery(tenant, run))]
    return [record for record in found if isinstance(record, kind)]


async def receipts(app: Holdfast, run: str | None = None) -> list[p.ReceiptRow]:
    """The rows of the receipts."""
    return await app.store.receipts(p.ReceiptQuery(run=run), 100)
