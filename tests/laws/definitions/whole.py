"""Plays a case on the whole engine: real workers on virtual time that die around their commits.

A death takes no time. What the dead worker leased is free at once, and a call that had begun ends when it would have
ended. So the case must come out as the reference says, however often workers die, and whatever becomes of the
checkpoints, which are written at every turn, and lost or damaged before they are read.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import random
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final

import cbor2

from holdfast import Holdfast, WorkerOptions
from holdfast.errors import RunEnded, TaskClosed
from holdfast.journal import events as e
from holdfast.journal.promise import PromiseId
from holdfast.kernel.execution import Execution
from holdfast.programs.definition.interpreter.program import DefinitionProgram
from holdfast.programs.function.loop import dispose_all
from holdfast.runs.program_names import DEFINITION
from holdfast.store import protocol as p
from holdfast.tasks.answers import asks_about
from holdfast.testing.virtual import EPOCH_MICROSECONDS, VirtualClock, VirtualLoop
from holdfast.worker.presence.heart import LoopPulse
from holdfast.worker.steps.performance import _current
from tests.laws.definitions.grow import Case
from tests.laws.definitions.outside import ERRORS, STAGE, Fate, Outside, continued, function, other
from tests.laws.definitions.reference import Ending
from tests.laws.definitions.world import Broken, Library, check_undone, shown
from tests.simulation.faults import Graves
from tests.simulation.lockstep import true_store
from tests.unit.worker.ground import FREE

HORIZON_SECONDS: Final = 3_000
"""When a run that still waits is cancelled. Idle workers beat, so a long wait costs time here."""
OPTIONS: Final = WorkerOptions(
    lease_seconds=2_000.0, warm_limit=0, retention_days=None, evidence=False, checkpoint_events=1, crash_limit=10_000
)
ROOT: Final = p.Key("default", "run")


def bounded(case: Case) -> Case:
    """The case with an end that idle workers reach soon."""
    return replace(case, cancel_at=min(case.cancel_at, HORIZON_SECONDS * 1_000_000))


class Line:
    """One worker's way to the store, and where it dies."""

    def __init__(self, whole: Whole, process: Process) -> None:
        self._whole, self._process = whole, process

    def twin(self) -> Line:
        return self

    async def open(self, *, migrate: bool = True) -> None:
        """It is open: others use it, too."""

    async def close(self) -> None:
        """It stays open for the others."""

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._whole.store, name)
        if not asyncio.iscoroutinefunction(operation):
            return operation

        async def call(*args: Any, **kwargs: Any) -> Any:
            await self._process.live()
            if name == "load":
                self._whole.harm_checkpoints(args[0])
            if name == "commit" and self._whole.happens(self._whole.die_before):
                await self._process.die()
            answer = await operation(*args, **kwargs)
            await self._process.live()
            if name == "commit" and _is_progress(args[0]) and self._whole.happens(self._whole.die_after):
                await self._process.die()
            return answer

        return call


def _is_progress(batch: Sequence[p.Change]) -> bool:
    """Whether something was recorded. A worker that dies after every other commit, too, would never begin an act."""
    return any(isinstance(change, p.Advance) and change.segment is not None for change in batch)


class Process:
    """One worker. What runs in it knows it, and ends with it."""

    def __init__(self, whole: Whole) -> None:
        self._whole, self.dead = whole, False
        self._context = contextvars.copy_context()
        self.app = Holdfast(
            Line(whole, self),  # type: ignore[arg-type]  # every operation is forwarded by name
            clock=VirtualClock(asyncio.get_running_loop()),
            entropy=random.Random(whole.source.random()),
            options=OPTIONS,
            pulse=LoopPulse,
            workflows=[function, continued, other],
            policy=FREE,
        )
        self._context.run(STAGE.set, self)

    async def open(self) -> None:
        await asyncio.get_running_loop().create_task(self.app.open(), context=self._context)

    async def live(self) -> None:
        """Go on, unless the process is dead."""
        if self.dead:
            await self._whole.graves.rest()

    async def die(self) -> None:
        """Nothing gets through any more, and another process takes its place at once."""
        self.dead = True
        assert self.app.worker is not None
        await self._whole.store.unregister(self.app.worker.id, self._whole.now_microseconds)
        self._whole.boot()
        await self._whole.graves.rest()

    async def perform(self, what: str, arguments: dict[str, Any]) -> int:
        """An attempt of a step or an act. One that is begun again ends when the first would have ended."""
        await self.live()
        performance = _current("a call")
        fate, ends = self._whole.begin(performance.name, what, arguments, performance.attempt, performance.timeout)
        await asyncio.sleep(ends - asyncio.get_running_loop().time())
        await self.live()
        if fate.error:
            raise ERRORS[fate.error]("no")
        return fate.value

    def decide(self, run: str, what: str, arguments: dict[str, Any]) -> Fate:
        """What becomes of a child that is a function: the same at every replay."""
        return self._whole.begin(run, what, arguments)[0]

    def cancel(self, run: str) -> Fate:
        """How long it takes such a child to end when it is cancelled."""
        return self._whole.begin_as(f"cancel {run}", f"cancel {self._whole.names[run]}")[0]


class Whole:
    """One case on one engine. When workers die, and which checkpoints are harmed, comes from the seed."""

    def __init__(self, case: Case, *, deaths: bool = True) -> None:
        self.case = case
        self.source = source = random.Random(f"whole {case.seed}")
        self.die_before, self.die_after = source.choice(((0.3, 0.0), (0.0, 1.0), (0.3, 0.3))) if deaths else (0.0, 0.0)
        self.graves = Graves()
        self._library = Library(case)
        self.outside = Outside(case.seed)
        self.played = self.outside  # as it was when the run had come to its end, or was parked
        self.deaths = 0
        self._begun: dict[tuple[str, int, int], tuple[Fate, float]] = {}
        self._again: Counter[str] = Counter()  # how often people have said that a call did not happen
        self.names: dict[str, str] = {}
        self._asked: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.has_parked_child = False
        self._loop = VirtualLoop()
        self.store = true_store(lambda: self.now_microseconds)

    @property
    def now_microseconds(self) -> int:
        return EPOCH_MICROSECONDS + round(self._loop.time() * 1e6)

    def play(self) -> Ending:
        """To the end of the run, or to its stall."""
        try:
            return self._loop.run_until_complete(self._played())
        finally:
            self._abandon()

    def _abandon(self) -> None:
        """End whatever is still going on with the loop, dead processes included. No error of it is reported."""
        self._loop.set_exception_handler(lambda *_: None)
        dispose_all()
        for task in asyncio.all_tasks(self._loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with contextlib.suppress(BaseException):
                task.get_coro().close()  # type: ignore[union-attr]
        self._loop.close()

    # -- faults ----------------------------------------------------------------------------------------------------

    def happens(self, probability: float) -> bool:
        return self.source.random() < probability

    def boot(self) -> None:
        """Start a worker."""
        self.deaths += 1
        self._spawn(Process(self).open())

    def harm_checkpoints(self, keys: Sequence[p.Key]) -> None:
        for key in self.store.checkpointed(keys):
            if self.happens(0.2):
                self.store.lose_checkpoint(key)
            elif self.happens(0.1):
                self.store.damage_checkpoint(key)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- what happens ----------------------------------------------------------------------------------------------

    def begin(
        self, key: str, what: str, arguments: dict[str, Any], attempt: int = 1, limit: float | None = None
    ) -> tuple[Fate, float]:
        """An attempt begins, or begins again: its fate, and when it ends."""
        if key not in self.names:
            self.names[key] = self.outside.name(what, arguments)
        return self.begin_as(key, self.names[key], attempt, limit)

    def begin_as(self, key: str, name: str, attempt: int = 1, limit: float | None = None) -> tuple[Fate, float]:
        """The same, by its name."""
        name += " again" * self._again[key]
        if (key, attempt, self._again[key]) not in self._begun:
            now = self._loop.time()
            fate = self.outside.begin(round(now * 1e6), name, attempt)
            if limit is not None and fate.duration > round(limit * 1e6):
                fate = Fate(round(limit * 1e6), 0, "timeout")
            self._begun[key, attempt, self._again[key]] = fate, now + fate.duration / 1e6
        return self._begun[key, attempt, self._again[key]]

    async def _played(self) -> Ending:
        await self.store.open()
        client = self._client = Holdfast(
            self.store,
            worker=False,
            clock=VirtualClock(self._loop),
            entropy=self.source,
            workflows=[function, continued, other],
        )
        await client.open()
        for document in (*self.case.children.values(), self.case.document):
            client.definitions.add(document)
        await client.start(other, id="other")
        self.boot()
        self.store.watch(self._look_at_tasks)
        run = await client.start(self.case.document["name"], {"at": "root", "i": []}, id=ROOT.run)
        for when, address, payload in self.case.signals:
            self._spawn(self._signal(when / 1e6, address, payload))
        self._spawn(self._cancel(self.case.cancel_at / 1e6))
        while True:
            await asyncio.sleep(97.0)
            row = self.store._tables.runs[ROOT]
            if row.standing in p.ENDED:
                break
            if row.pause is not None or self._loop.time() > 3 * HORIZON_SECONDS:
                break
        ending = await self._ending(run, self.store._tables.runs[ROOT])
        self.note_sent()
        self.played = replace(self.outside, log=[*self.outside.log])
        if ending.how != "stuck":
            await self._cancel_parked()
        return ending

    async def _cancel_parked(self) -> None:
        """D7: a cancellation ends what is parked, and then nothing of the case is left, above it or below."""
        began, asked = self._loop.time(), set[p.Key]()
        while left := [row for row in self._runs() if row.standing not in p.ENDED]:
            for row in left:
                if row.pause is not None and row.key not in asked:
                    asked.add(row.key)
                    await self._client.run(row.key.run).cancel()
            if self._loop.time() > began + 3 * HORIZON_SECONDS:
                raise Broken(f"D7: {[(row.key.run, row.pause or row.waiting) for row in left]} do not end")
            await asyncio.sleep(97.0)
        for row in self._runs():
            if row.program_kind == DEFINITION:
                check_undone(row.key.run, self._replayed(row.key), [each.event for each in self._journal(row.key)])

    def _runs(self) -> list[p.Run]:
        """All runs but the one that signals are sent to."""
        return [row for key, row in self.store._tables.runs.items() if key.run != "other"]

    def _journal(self, key: p.Key) -> Sequence[e.Entry]:
        return self.store.generations(key)[0]

    async def _signal(self, when: float, address: str, payload: int) -> None:
        await asyncio.sleep(when)
        name, _, key = address.partition("#")
        with contextlib.suppress(RunEnded):
            await self._client.run(ROOT.run).signal(name, payload, key=key or None)

    async def _cancel(self, when: float) -> None:
        await asyncio.sleep(when)
        row = self.store._tables.runs[ROOT]
        if row.pause is None and row.standing not in p.ENDED:
            await self._client.run(ROOT.run).cancel()

    def _look_at_tasks(self) -> None:
        """People see what they are asked as soon as it is durable."""
        runs = self.store._tables.runs
        self.has_parked_child = self.has_parked_child or any(runs[key].pause for key in runs if key != ROOT)
        for task in list(self.store._tables.tasks.values()):
            if task.kind == "outcome" and task.id not in self._asked:
                self._asked.add(task.id)
                self._spawn(self._tell(task))
            if task.kind == "form" and task.id not in self._asked:
                self._asked.add(task.id)
                name = self.outside.name("task", cbor2.loads(task.details)["shown"])
                fate = self.outside.begin(round(self._loop.time() * 1e6), name)
                self._spawn(self._answer(task, fate))

    async def _tell(self, task: p.TaskRow) -> None:
        """Somebody says at once what became of a call."""
        id = asks_about(task)
        (receipt,) = [each for each in self.store._tables.receipts.values() if each.id == id]
        row, key = (
            self.store._tables.runs[p.Key(task.tenant, task.run)],
            str(PromiseId(receipt.root).child(receipt.position)),
        )
        name = self.names[key] + " again" * self._again[key]
        is_heard = row.pause is None and row.standing not in p.ENDED and not receipt.abandoned
        unknown = Fate(0, 0, "timeout")
        judged = self.outside.judge(round(self._loop.time() * 1e6), name, unknown, noted=is_heard)
        with contextlib.suppress(TaskClosed):
            if judged is None:
                self._again[key] += 1
                await self._client.tasks.did_not_happen(task.id, by="ann")
            elif judged.error:
                await self._client.tasks.give_up(task.id, by="ann")
            else:
                await self._client.tasks.happened(task.id, by="ann", result=judged.value)

    async def _answer(self, task: p.TaskRow, fate: Fate) -> None:
        await asyncio.sleep(fate.duration / 1e6)
        with contextlib.suppress(TaskClosed):
            await self._client.tasks.complete(task.id, {"n": fate.value}, by="ann", groups=["staff"])

    # -- what came of it -------------------------------------------------------------------------------------------

    async def _ending(self, run: Any, row: p.Run) -> Ending:
        """D6: what the engine shows of a run is what its whole journal says."""
        program = self._replayed(ROOT)
        state, reference = program.state, program.reference
        if (seen := await run.state()) != state:
            raise Broken(f"D6: the run shows {seen}, and its journal says {state}")
        if row.pause is not None:
            return Ending("parked", {"class": "expression", "code": "EXPRESSION"}, state, reference)
        match self.store.generations(ROOT)[0][-1].event:
            case e.ExecutionCompleted(result=result):
                return Ending("completed", cbor2.loads(self.store.plain("default", result)), state, reference)
            case e.ExecutionFailed(error=error):
                return Ending("failed", shown(error), state, reference)
            case e.ExecutionCancelled():
                return Ending("cancelled", None, state, reference)
            case _ if any(each.pause is not None for each in self.store._tables.runs.values()):
                return Ending("stuck", None, state, reference)
            case _:
                raise Broken(f"D5: the run does not end; it waits for {row.waiting}")

    def _replayed(self, key: p.Key) -> DefinitionProgram:
        program = DefinitionProgram(self._library.routines[self.store._tables.runs[key].workflow])
        root, entries = PromiseId(self.store._roots[key, 0]), self._journal(key)
        Execution.rebuild(root, program, entries, self.now_microseconds, self.source)
        return program

    def note_sent(self) -> None:
        """Add the signals that reached the other run to the log."""
        for entry in self.store.generations(p.Key("default", "other"))[0]:
            if isinstance(entry.event, e.SignalDelivered):
                name = self.outside.name("send", cbor2.loads(entry.event.payload.data))
                self.outside.begin(entry.timestamp - EPOCH_MICROSECONDS, name)
