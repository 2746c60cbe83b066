"""The hand: it does a worker's work one turn at a time, over a real store and with the engine's own plan of a turn.

Nothing is decided here. The schedule decides which steps are settled in a turn, when time passes and when the worker
dies. The engine decides what a turn commits, how generations follow each other and what a retry keeps.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any, Final, TypeVar

from holdfast import Holdfast
from holdfast.errors import AuthorError, EngineError, HoldfastError, TaskClosed
from holdfast.journal import events as e
from holdfast.journal.payload import Ok
from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import Arrival, AttemptFailed, CallSettled
from holdfast.kernel.execution import Execution, Turn
from holdfast.kernel.requests import Invoke
from holdfast.programs.catalogue import Catalogue
from holdfast.programs.function.failures import describe
from holdfast.programs.function.functions import Functions
from holdfast.programs.function.values import encode
from holdfast.runs import children
from holdfast.runs.checkpoints import load
from holdfast.runs.segments import unseal
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.testing.virtual import EPOCH_MICROSECONDS, VirtualLoop
from holdfast.worker.executions import Executions
from holdfast.worker.held import Held, Warm
from holdfast.worker.turn_plan import Plan
from holdfast.worker.watchdog import Watchdog
from tests.laws.sagas.forms import People, governor
from tests.laws.sagas.lives import Life, origin_of
from tests.laws.sagas.play import Note, Trace, Unlucky, World, begun, book, do, plain, play, unbook, undo, world
from tests.laws.sagas.violation import Violation

T = TypeVar("T")

WORKER: Final = "hand"
STEPS: Final = {step.name: step for step in (book, do, plain, unbook, undo)}


class Waiting:
    """A step that was begun and has not ended. It stands in for a performance."""

    def __init__(self, invoke: Invoke) -> None:
        self.invoke = invoke

    def cancel(self) -> None:
        """Nothing runs that could be stopped."""


class HandClock:
    def __init__(self) -> None:
        self.time = EPOCH_MICROSECONDS

    def now(self) -> int:
        return self.time


class Hand:
    """One store, one worker, all its runs. Close it in the end."""

    def __init__(self, seed: int) -> None:
        self.world = World()
        self.clock = HandClock()
        self.store = MemoryStore(self.clock.now)
        self.held: dict[p.Key, Held] = {}
        self.traces: dict[p.Key, Trace] = {}
        self.retried: set[tuple[p.Key, int]] = set()
        self.ended: dict[tuple[p.Key, int], list[Note]] = {}
        self.roots: dict[tuple[p.Key, int], bytes] = {}
        self.sent = 0
        self.dozing: set[p.Key] = set()  # paused: their programs have not seen yet what is recorded
        self.log: list[str] = []
        self._warm: dict[p.Key, tuple[Warm, Trace]] = {}
        self._loop = VirtualLoop()
        world.set(self.world)
        self._entropy = random.Random(seed)
        self._executions = Executions(
            Catalogue([Functions({play.name: play})]), self.clock, self._entropy, Watchdog(3600.0)
        )
        self._client = Holdfast(self.store, worker=False, clock=self.clock, entropy=self._entropy, workflows=[play])
        self._people = People(self._client)
        self._governor = governor(self.store, self.clock, WORKER)
        self.ask(self._client.open())
        begun.clear()

    def close(self) -> None:
        for held in self.held.values():
            held.drop()
        for warm, _ in self._warm.values():
            warm.execution.program.close()
        self.ask(self._client.close())
        self._loop.close()
        begun.clear()

    def ask(self, question: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(question)

    # -- what clients do -------------------------------------------------------------------------------------------

    def start(self, run: str, tree: Any) -> None:
        self.ask(self._client.start(play, tree, id=run))

    def signal(self, key: p.Key, name: str) -> None:
        """Send a signal. Its value differs from all before."""
        self.sent += 1
        value = f"s{self.sent}"
        self.log.append(f"{key.run}: signal {name} {value}")
        self.ask(self._client.run(key.run).signal(name, value))

    def cancel(self, key: p.Key) -> None:
        self.log.append(f"{key.run}: cancel")
        self.ask(self._client.run(key.run).cancel())

    def forms(self, key: p.Key) -> list[p.TaskRow]:
        """Every form that this run has asked people to fill in, open or not."""
        return [task for task in self.store._tables.tasks.values() if task.run == key.run]

    def answer(self, task: p.TaskRow) -> None:
        """Fill a form in, unless its time is over."""
        try:
            word = self.ask(self._people.answer(task))
        except TaskClosed:
            word = "too late"
        self.log.append(f"{task.run}: {task.summary} is answered {word}")

    def take_form(self, task: p.TaskRow) -> None:
        """Somebody means to answer a form."""
        self.log.append(f"{task.run}: {task.summary} is claimed")
        with suppress(TaskClosed):
            self.ask(self._people.claim(task))

    def retry(self, key: p.Key) -> str | None:
        """Retry an ended run; gives the reason where that is refused."""
        before = {run.key: run.generation for run in self.runs()}
        try:
            self.ask(self._client.run(key.run).retry())
        except EngineError:
            raise
        except HoldfastError as error:
            self.log.append(f"{key.run}: retry refused: {error}")
            return str(error)
        self.log.append(f"{key.run}: retry")
        for run in self.runs():
            for generation in range(before[run.key] + 1, run.generation + 1):
                self.retried.add((run.key, generation))
        return None

    def runs(self) -> list[p.Run]:
        return list(self.store._tables.runs.values())

    # -- what the worker does --------------------------------------------------------------------------------------

    def claim(self, *, warm: bool) -> None:
        """Take every run that is ready, and its first turn here; from memory, or rebuilt from its journal."""
        for run in self.ask(self.store.claim(WORKER, p.Serves((play.name,)), 100, self.clock.now())).runs:
            held = self.held[run.key] = Held(run)
            self._enter(held, run, warm=warm)
            self.turn(held, ())

    def _enter(self, held: Held, run: p.Run, *, warm: bool) -> None:
        governed = self.ask(self.store.governed([run.key])).get(run.key) if run.governed else None
        if governed is not None:
            held.learn(governed)
        kept, trace = self._warm.pop(run.key, (None, None))
        if kept is not None and trace is not None and warm and kept.fits(run):
            held.run_as(kept.execution)
            self.traces[run.key] = trace
        else:
            if kept is not None:
                kept.execution.program.close()
            loaded = self.ask(load(self.store, [run]))[run.key]
            self._rebuild(held, loaded.segments, loaded.blobs)

    def _rebuild(self, held: Held, segments: Iterable[p.Segment], blobs: Any) -> None:
        self.roots[held.key, held.generation] = held.id.root
        self.traces[held.key] = Trace()  # of a body that may never begin
        held.signals.update(self._blobs)  # nobody can wait here for those that were not read ahead
        try:
            self._executions.rebuild(held, list(segments), blobs)
        except HoldfastError as error:
            raise Violation("L6", f"run {held.key.run} cannot be rebuilt: {error}") from None
        except KeyboardInterrupt as error:
            raise _left_the_kernel(held, error) from None
        self._take_trace(held)

    def _take_trace(self, held: Held) -> None:
        if begun:
            self.traces[held.key] = begun[-1]
            begun.clear()

    def restart(self, key: p.Key) -> None:
        """The worker that holds the run dies between two turns, and takes it again."""
        self.log.append(f"{key.run}: restart")
        held = self.held.pop(key)
        held.drop()
        row = self.ask(self.store.get([key]))[0]
        fresh = self.held[key] = Held(row)
        self._enter(fresh, row, warm=False)
        self.turn(fresh, ())

    def pending(self, held: Held) -> list[Invoke]:
        """The steps that this run waits for."""
        return [waiting.invoke for waiting in held.steps.values() if isinstance(waiting, Waiting)]

    def perform(self, invoke: Invoke) -> Arrival:
        """Do one attempt of a step. Only a turn can record it."""
        name = invoke.function_name
        try:
            args, _ = STEPS[name].signature.read(invoke.input)
        except HoldfastError as error:
            raise Violation("L5", f"a step was given something that it cannot read: {error}") from None
        now = self.clock.now()
        try:
            value = self.ask(STEPS[name].function(*args))
        except Unlucky as error:
            self.log.append(f"    {_short(name, args)} fails")
            return AttemptFailed(invoke.promise_id, describe(error), invoke.attempt, now)
        self.log.append(f"    {_short(name, args)} → {value if isinstance(value, str) else value.value}")
        return CallSettled(invoke.promise_id, Ok(encode(value)), invoke.attempt, now)

    def doze(self, held: Held, arrivals: Iterable[Arrival]) -> None:
        """One turn of a paused run: what arrives is recorded, and the program sees it when it is resumed."""
        handle = self._client.run(held.key.run)
        self.ask(handle.pause())
        held.pause = "paused by request"
        self.turn(held, arrivals)
        held.pause = None
        self.dozing.add(held.key)
        self.ask(handle.resume())

    def turn(self, held: Held, arrivals: Iterable[Arrival], *, dies: bool = False) -> None:
        """One turn with the inbox and these arrivals. With ``dies`` the worker dies before it commits."""
        held.take_in(self.ask(self.store.messages([held.key])).get(held.key, []))
        while self.ask(self._reads_answers(held)):
            continue
        gathered, held.arrivals = self._mixed(held.arrivals, list(arrivals)), []
        for arrival in gathered:
            if isinstance(arrival, (CallSettled, AttemptFailed)):
                held.steps.pop(arrival.promise_id, None)
        try:
            turn = self._executions.advance(held, gathered, resume=held.pause is None)
        except AuthorError as error:
            raise Violation("L6", f"run {held.key.run} is parked: {error}") from None
        except KeyboardInterrupt as error:
            raise _left_the_kernel(held, error) from None
        self._take_trace(held)
        self.dozing.discard(held.key)
        if dies:
            self.restart(held.key)
            return
        plan = self.ask(self._plan(held, turn))
        answer = self.ask(self.store.commit([plan.change]))[0]
        if not isinstance(answer, p.Advanced):
            raise EngineError(f"the hand was fenced: {answer!r}")
        for _, event in turn.events:
            if isinstance(event, (e.CancelRequested, *e.TERMINAL)):
                self.log.append(f"{held.key.run}: {type(event).__name__}")
        self._heed(held, plan, answer)

    async def _reads_answers(self, held: Held) -> bool:
        return held.gate is not None and self._governor.reads_answers(held, held.gate)

    async def _plan(self, held: Held, turn: Turn) -> Plan:
        """The governor may have something looked up beside, so this is for a running loop."""
        try:
            return self._executions.plan(held, turn, self._governor)
        except HoldfastError as error:
            raise Violation("L7", f"run {held.key.run} is parked: {error}") from None

    async def _follow(self, plan: Plan, answer: p.Advanced) -> None:
        plan.follow(answer.attached)

    def _mixed(self, one: list[Arrival], other: list[Arrival]) -> list[Arrival]:
        """Both lists, merged at random: each keeps its own order."""
        places = sorted(self._entropy.sample(range(len(one) + len(other)), len(other)))
        mixed = list(one)
        for place, arrival in zip(places, other, strict=True):
            mixed.insert(place, arrival)
        return mixed

    def _heed(self, held: Held, plan: Plan, answer: p.Advanced) -> None:
        change, key = plan.change, held.key
        if change.segment is not None:
            held.version, held.head = change.segment.first + change.segment.count, change.segment.head
        held.consumed = change.consumed
        if held.live.ended:
            self.ended[key, held.generation] = list(self.traces[key].notes)
        if plan.ending is not None:
            self.held.pop(key).drop()
            self.ask(self._follow(plan, answer))
            return
        if change.renewal is not None:
            self.ask(self._follow(plan, answer))
            held.live.program.close()
            held.renew(change.renewal)
            held.steps.clear()
            self._rebuild(held, [change.renewal.segment], change.renewal.blobs)
            self.turn(held, ())
            return
        held.fresh = False
        for promise in plan.abandon:
            held.steps.pop(promise, None)
        for invoke in plan.invoke:
            held.steps[invoke.promise_id] = Waiting(invoke)  # type: ignore[assignment]
        self._meet_again(held, plan, answer)
        self.ask(self._follow(plan, answer))
        if answer.released and held.arrivals:
            self.held.pop(key).drop()
        elif answer.released:
            trace = self.traces[key]
            warm = self.held.pop(key).cool()
            if warm is not None:
                self._warm[key] = (warm, trace)

    def _meet_again(self, held: Held, plan: Plan, answer: p.Advanced) -> None:
        """A retried run that meets an earlier child gets the message of its end once more."""
        for errand, reply in plan.paired(answer.attached):
            start = errand.change
            if isinstance(start, p.Start) and held.generation and isinstance(reply, p.Exists):
                met = children.met_again(self.store, start, reply, held.id, held.generation, self.clock.now())
                if (message := self.ask(met)) is not None:
                    self.ask(self.store.commit([p.Deliver(held.key, message)]))

    # -- what came of it -------------------------------------------------------------------------------------------

    def journal(self, key: p.Key, generation: int) -> list[e.Entry]:
        """The journal of this generation, as the store has it."""
        segments = self.store._tables.segments[key][generation]
        return unseal(segments, PromiseId(self.roots[key, generation]), {})

    def lives(self, key: p.Key) -> list[Life]:
        """Every generation of a run so far, oldest first."""
        found: list[Life] = []
        for generation in sorted(self.store._tables.segments[key]):
            origin = origin_of(generation, (key, generation) in self.retried)
            notes = self.ended.get((key, generation))
            found.append(
                Life(
                    origin,
                    self.journal(key, generation),
                    self.traces[key].notes if notes is None else notes,
                    self._blobs,
                )
            )
        return found

    @property
    def _blobs(self) -> dict[bytes, bytes]:
        return {digest: data for (_, digest), data in self.store._tables.blobs.items()}

    def check_replay(self, run: p.Run) -> None:
        """L6, for this run as it stands."""
        key = run.key
        stirred = self._stir()
        live = self.held[key].live if key in self.held else self._warm[key][0].execution
        try:
            entries = self.journal(key, run.generation)
            other = Execution.rebuild(
                PromiseId(run.root), play.program(), entries, self.clock.now(), self._entropy, self._blobs
            )
            more = other.advance([], self.clock.now(), resume=False).events
        except HoldfastError as error:
            raise Violation("L6", f"run {key.run} replays to something else: {error}") from None
        notes = list(begun.pop().notes) if begun else []
        begun.clear()
        where = f"run {key.run}, generation {run.generation}"
        if more:
            raise Violation("L6", f"{where}: a replay adds {more}")
        if other.ledger.status != live.ledger.status:
            raise Violation("L6", f"{where}: a replay stands at {other.ledger.status}, not at {live.ledger.status}")
        if _waits(other) != _waits(live):
            raise Violation("L6", f"{where}: a replay waits for {_waits(other)}, not for {_waits(live)}")
        if notes != self.traces[key].notes:
            raise Violation("L6", f"{where}: a replay saw {notes}, the run saw {self.traces[key].notes}")
        other.program.close()
        stirred.clear()

    def _stir(self) -> list[Any]:
        """Occupy memory, so that a replay's objects get other addresses: no order may depend on them."""
        made = [asyncio.Future[Any](loop=self._loop) for _ in range(self._entropy.randrange(20))]
        coroutines = [self._client.changed(0.0) for _ in range(self._entropy.randrange(20))]
        for coroutine in coroutines:
            coroutine.close()
        return [*made[::2], *coroutines[::2]]


def _short(name: str, args: Any) -> str:
    return f"{name.removeprefix('sagas.')}({', '.join(str(getattr(arg, 'value', arg)) for arg in args)})"


def _waits(execution: Execution) -> list[tuple[str, str, int]]:
    return [(wait.kind, wait.name, wait.position) for wait in execution.waits()]


def _left_the_kernel(held: Held, error: BaseException) -> Violation:
    return Violation("L5", f"run {held.key.run}: {type(error).__name__} of a body came out of the engine")
