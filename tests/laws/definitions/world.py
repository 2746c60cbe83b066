"""Plays a case with the engine's interpreter: real executions of the kernel, one thing at a time, on a clock by hand.

A run is dropped at random and made again, from its journal or from its last checkpoint and what came after it. What is
made again must have the checkpoint of the live one.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import cbor2

from holdfast.errors import InvalidDefinition
from holdfast.journal import events as e
from holdfast.journal.error_classes import error_class, error_members
from holdfast.journal.forms import FORM
from holdfast.journal.payload import Err, Failure, Ok
from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import Arrival, AttemptFailed, CallSettled, CancelArrived, SignalArrived
from holdfast.kernel.checkpoint import Checkpoint
from holdfast.kernel.requests import Abandon, Invoke, Stop
from holdfast.kernel.turn import Turn
from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.compiler import compile_document, load
from holdfast.programs.definition.interpreter.program import DefinitionProgram
from holdfast.programs.definition.interpreter.routine import Routine
from holdfast.programs.function.failures import describe
from holdfast.programs.function.values import encode
from holdfast.runs.kinds.child import WORKFLOW
from holdfast.runs.kinds.detached import DETACHED
from holdfast.runs.kinds.signal import SIGNAL
from holdfast.runs.program_names import definition_name
from holdfast.tasks import questions
from tests.definitions import Defined, Tools
from tests.laws.definitions.grow import Case
from tests.laws.definitions.outside import CONTINUED, ERRORS, FUNCTION, GIVEN_UP, Fate, Outside
from tests.laws.definitions.reference import Ending
from tests.runs import NOW, Run

TURNS: Final = 20_000
"""More turns than any case of these sizes can take."""


class Broken(AssertionError):
    """A law is broken."""


class Library:
    """The accepted definitions of a case, each once more as it is kept: canonical bytes, loaded again."""

    def __init__(self, case: Case) -> None:
        self.accepted: dict[str, m.Accepted] = {}
        for name, document in {**case.children, case.document["name"]: case.document}.items():
            self.accepted[name] = compile_document(document, Tools(), self)
        found = self.accepted.values()
        self.routines = {each.definition.name: Routine(load(each.canonical), each.digest, Tools()) for each in found}
        self.called = {definition_name(each.definition.name, 1, each.digest): each.definition.name for each in found}

    def definition(self, reference: str) -> m.Accepted | None:
        return self.accepted.get(reference.partition("@")[0])

    def function_names(self) -> Collection[str]:
        return [FUNCTION, CONTINUED]

    def definition_names(self) -> Collection[str]:
        return self.accepted.keys()


class Played(Defined):
    """A definition of the library where ``Run`` wants a workflow."""

    def __init__(self, routine: Routine) -> None:
        self.routine = routine
        self.signature = self
        self._routines: dict[str, Routine] = {}

    def program(self) -> DefinitionProgram:
        return DefinitionProgram(self.routine, self._loaded)

    def _loaded(self, data: bytes, digest: str) -> Routine:
        """Each version that a run moves to is made ready once, as a worker does."""
        if digest not in self._routines:
            self._routines[digest] = Routine(load(data), digest, self.routine.tools)
        return self._routines[digest]


class Player:
    """One run in the world: its checkpoints, its calls under way, and its end."""

    def __init__(self, world: World, routine: Routine, start: Any, key: str, over: Callable[[e.Event], None]) -> None:
        self.world, self.over, self.key = world, over, key
        played = Played(routine)
        self._made = lambda: Run(played, start, key=key)  # type: ignore[arg-type]
        self.run = self._made()
        self.checkpoint: Checkpoint | None = None
        self.calls: dict[PromiseId, str] = {}
        self.begun: set[tuple[PromiseId, int]] = set()
        self.children: dict[PromiseId, Player] = {}
        self.cancelled: set[PromiseId] = set()
        self.abandoned: set[PromiseId] = set()
        self.parked = False

    def advance(self, *arrivals: Arrival) -> None:
        """One turn, and what it asks for. A parked run only records what arrives."""
        if self.parked and not self.run.ended:
            self.run.advance(*arrivals, resume=False)
        if self.parked or self.run.ended:
            return
        run = self.run
        run.now = NOW + self.world.now
        self._renew()
        run = self.run
        try:
            turn = run.advance(*arrivals)
        except InvalidDefinition:
            self._park(arrivals)
            return
        self._follow(turn)

    def _park(self, arrivals: tuple[Arrival, ...]) -> None:
        self.parked = True
        if self.run.journal:
            self._replace(self.run.rebuilt())
        else:
            self.run = self._made()
        self.run.advance(*arrivals, resume=False)

    def cancel(self) -> None:
        """D7: it is parked, and cancelled. What failed is not evaluated again, whatever has arrived meanwhile."""
        self.parked = False
        self._replace(self.run.rebuilt() if self.world.source.random() < 0.5 else self._restored())
        self.run.now = NOW + self.world.now
        self._follow(self.run.advance(CancelArrived("enough"), cancel_first=True))

    def _follow(self, turn: Turn) -> None:
        run = self.run
        self._check()
        for request in turn.requests:
            if isinstance(request, Invoke):
                self._perform(request)
            else:
                self._give_up(request)
        if run.ended:
            self.over(run.events[-1])
        elif (due := run.execution.next_due()) is not None:
            self.world.at(due - NOW, self.ring)

    def ring(self) -> None:
        """Take a turn where something is due."""
        due = self.run.execution.next_due() if not self.run.ended else None
        if due is not None and due <= NOW + self.world.now:
            self.advance()

    # -- made again ------------------------------------------------------------------------------------------------

    def _renew(self) -> None:
        source = self.world.source
        if not self.run.journal or source.random() < 0.6:
            return
        self._replace(self._restored() if source.random() < 0.5 else self.run.rebuilt())

    def _replace(self, fresh: Run) -> None:
        fresh.abandoned, fresh.stopped, fresh.invokes = self.run.abandoned, self.run.stopped, self.run.invokes
        fresh.execution.advance((), fresh.now, resume=False)
        self.run.execution.program.close()
        self.run = fresh

    def _restored(self) -> Run:
        return self.run.rebuilt() if self.checkpoint is None else self.run.restored(self.checkpoint)

    def _check(self) -> None:
        """D4: whatever it is made of, it stands where it stands."""
        run = self.run
        if run.ended:
            if run.rebuilt().events != run.events:
                raise Broken(f"D4: {self.key} ends in another way when it is rebuilt")
            return
        live = run.execution.checkpoint()
        for how, other in (("rebuilt", run.rebuilt()), ("restored", self._restored())):
            found = other.execution.checkpoint()
            if found != live:
                raise Broken(f"D4: {self.key}, {how}, has another checkpoint: {_difference(live, found)}")
            if _waiting(other) != _waiting(run):
                raise Broken(f"D4: {self.key}, {how}, waits for {_waiting(other)}, and not for {_waiting(run)}")
            other.execution.program.close()
        restored = run if live is None else run.restored(live)
        if _waiting(restored) != _waiting(run):
            raise Broken(f"D4: {self.key}, restored, waits for {_waiting(restored)}, and not for {_waiting(run)}")
        if self.world.source.random() < 0.5:
            self.checkpoint = live

    def check_undone(self) -> None:
        program = self.run.execution.program
        assert isinstance(program, DefinitionProgram)
        check_undone(self.key, program, self.run.events)

    # -- calls -----------------------------------------------------------------------------------------------------

    def _perform(self, invoke: Invoke) -> None:
        """Begin an attempt. A run that was made again asks once more for one that is under way."""
        world, attempt = self.world, (invoke.promise_id, invoke.attempt)
        if attempt in self.begun:
            return
        self.begun.add(attempt)
        if invoke.kind == WORKFLOW and invoke.function_name in world.library.called:
            self._begin_child(invoke)
            return
        if invoke.kind == FORM:
            self._ask(invoke)
            return
        name = self.calls.get(invoke.promise_id)
        if name is None:
            name = self.calls[invoke.promise_id] = world.outside.name(*_named(invoke))
        self._begin(invoke, name)

    def _begin(self, invoke: Invoke, name: str) -> None:
        """One attempt, or what is done once more because people say that it did not happen."""
        world = self.world
        fate = world.outside.begin(world.now, name, invoke.attempt)
        if invoke.kind in (DETACHED, SIGNAL):
            fate = Fate(0, 0)
        limit = invoke.retry.attempt_timeout
        if limit is not None and fate.duration > round(limit * 1e6):
            fate = Fate(round(limit * 1e6), 0, "timeout")
        world.at(world.now + fate.duration, lambda: self._judge(invoke, name, fate))

    def _judge(self, invoke: Invoke, name: str, fate: Fate) -> None:
        """What the gate does: it asks people about a writing action of unknown outcome, if the run waits for it."""
        is_heard = not (self.parked or self.run.ended or invoke.promise_id in self.abandoned)
        judged = self.world.outside.judge(self.world.now, name, fate, noted=is_heard)
        if judged is not None:
            self._answer(invoke, judged)
        elif is_heard:
            self._begin(invoke, f"{name} again")

    def _answer(self, invoke: Invoke, fate: Fate) -> None:
        if invoke.promise_id in self.cancelled:
            return
        if fate.error == GIVEN_UP:
            failure = Failure("holdfast.errors:ApprovalRejected", "nobody knows")
            self.advance(CallSettled(invoke.promise_id, Err(failure), invoke.attempt, self.run.now))
            return
        if not fate.error:
            outcome = Ok(encode(fate.value))
            self.advance(CallSettled(invoke.promise_id, outcome, invoke.attempt, self.run.now))
            return
        failure = describe(ERRORS[fate.error]("no"))
        if invoke.kind == WORKFLOW or (invoke.retry.on and fate.error not in invoke.retry.on):
            self.advance(CallSettled(invoke.promise_id, Err(failure), invoke.attempt, self.run.now))
        else:
            self.advance(AttemptFailed(invoke.promise_id, failure, invoke.attempt, self.run.now))

    def _ask(self, invoke: Invoke) -> None:
        shown, question = questions.read(invoke.input)
        name = self.world.outside.name("task", shown)
        fate = self.world.outside.begin(self.world.now, name)
        outcome: Ok | Err = Ok(encode({"n": fate.value}))
        duration = fate.duration
        if question.expire is not None and question.expire < duration:
            duration, outcome = question.expire, Err(Failure("holdfast.errors:TaskExpired", "nobody"))
        settled = CallSettled(invoke.promise_id, outcome, 1, self.run.now)
        self.world.at(self.world.now + duration, lambda: self.advance(settled))

    def _begin_child(self, invoke: Invoke) -> None:
        world = self.world
        _, start = cbor2.loads(invoke.input.data)
        routine = world.library.routines[world.library.called[invoke.function_name]]

        def over(ending: e.Event) -> None:
            match ending:
                case e.ExecutionCompleted(result=result):
                    outcome: Ok | Err = Ok(result)
                case e.ExecutionFailed(error=error):
                    outcome = Err(error)
                case _:
                    outcome = Err(Failure("holdfast.errors:RunCancelled", ""))
            settled = CallSettled(invoke.promise_id, outcome, 1, self.run.now)
            world.at(world.now, lambda: self.advance(settled))

        child = world.player(world, routine, start, f"{self.key}/{invoke.promise_id.path[-1]}", over)
        self.children[invoke.promise_id] = child
        world.players.append(child)
        world.at(world.now, child.advance)

    def _give_up(self, request: Abandon | Stop) -> None:
        world, promise = self.world, request.promise_id
        self.abandoned |= {promise} if isinstance(request, Abandon) else set()
        child = self.children.get(promise)
        if child is not None:
            world.at(world.now, lambda: child.advance(CancelArrived("given up")))
        elif request.kind == WORKFLOW:
            self.cancelled.add(promise)
            fate = world.outside.begin(world.now, f"cancel {self.calls[promise]}")
            settled = CallSettled(promise, Err(Failure("holdfast.errors:RunCancelled", "")), 1, self.run.now)
            world.at(world.now + fate.duration, lambda: self.advance(settled))


def _waiting(run: Run) -> list[PromiseId]:
    """What a program waits for: the journal of its next turn lists that."""
    return sorted(run.execution.program.waiting_on())


def _named(invoke: Invoke) -> tuple[str, Any]:
    """What an invocation is known by, and its arguments."""
    data = cbor2.loads(invoke.input.data)
    if invoke.kind == WORKFLOW:
        return "run", data[1]
    if invoke.kind == DETACHED:
        return "continue", cbor2.loads(data[0][2])[1]
    if invoke.kind == SIGNAL:
        return "send", data[0][2]
    return invoke.function_name.rpartition(".")[2], data[1]


class World:
    """One case under way."""

    player = Player

    def __init__(self, case: Case) -> None:
        self.case = case
        self.library = Library(case)
        self.outside = Outside(case.seed)
        self.source = random.Random(f"world {case.seed}")
        self.now = 0
        self.players: list[Player] = []
        self._events: list[tuple[int, int, Callable[[], object]]] = []
        self._count = 0

    def at(self, when: int, act: Callable[[], object]) -> None:
        """Let this happen then."""
        self._count += 1
        heapq.heappush(self._events, (max(when, self.now), self._count, act))

    def play(self) -> Ending:
        """To the end of all runs."""
        case, endings = self.case, list[e.Event]()
        routine = self.library.routines[case.document["name"]]
        root = self.player(self, routine, {"at": "root", "i": []}, "run", endings.append)
        self.players.append(root)
        self.at(0, root.advance)
        for when, address, payload in case.signals:
            arrival = SignalArrived(address, encode(payload))
            self.at(when, lambda arrival=arrival: root.advance(arrival))  # type: ignore[misc]
        self.at(case.cancel_at, lambda: root.advance(CancelArrived("enough")))
        self._play_on(root)
        return _ending(root, endings)

    def _play_on(self, root: Player) -> None:
        for _ in range(TURNS):
            if not self._events:
                return
            self.now, _, act = heapq.heappop(self._events)
            act()
        raise Broken(f"D1: the run does not end; it waits for {root.run.execution.waits()}")

    def cancel_parked(self) -> None:
        """D7: cancel what is parked. Then everything ends, and nothing is left that should be undone."""
        for player in self.players:
            if player.parked:
                self.at(self.now, player.cancel)
        self._play_on(self.players[0])
        for player in self.players:
            if not player.run.ended and not player.parked:
                raise Broken(f"D7: {player.key} does not end; it waits for {player.run.execution.waits()}")
            player.check_undone()


def check_undone(run: str, program: DefinitionProgram, events: Sequence[e.Event]) -> None:
    """D7: of a run that did not complete nothing is left to undo, and nothing was undone twice."""
    undone = [event.undoes for event in events if isinstance(event, e.InvokeScheduled) and event.undoes is not None]
    if len(undone) != len(set(undone)):
        raise Broken(f"D7: {run} undoes a call twice")
    failed = isinstance(events[-1], e.ExecutionFailed | e.ExecutionCancelled)
    if failed and program.interpreter.deeds.done:
        raise Broken(f"D7: {run} has ended and has not undone {program.interpreter.deeds.done}")


def _ending(root: Player, endings: list[e.Event]) -> Ending:
    program = root.run.execution.program
    assert isinstance(program, DefinitionProgram)
    state, reference = program.state, program.reference
    if root.parked:
        return Ending("parked", {"class": "expression", "code": "EXPRESSION"}, state, reference)
    match endings:
        case [e.ExecutionCompleted(result=result)]:
            return Ending("completed", cbor2.loads(result.data), state, reference)
        case [e.ExecutionFailed(error=error)]:
            return Ending("failed", shown(error), state, reference)
        case [e.ExecutionCancelled()]:
            return Ending("cancelled", None, state, reference)
        case [] if any(player.parked for player in root.world.players):  # it waits for a child that is parked
            return Ending("stuck", None, state, reference)
        case _:
            raise Broken(f"D1: the run has not ended: {root.run.execution.waits()}")


def shown(failure: Failure) -> dict[str, Any]:
    """A failure's class and code."""
    code = error_members(failure).get("code") or failure.type.rpartition(":")[2]
    return {"class": error_class(failure), "code": code}


def _difference(one: Checkpoint | None, other: Checkpoint | None) -> str:
    if one is None or other is None:
        return f"{one} is not {other}"
    parts = [name for name in one.__struct_fields__ if getattr(one, name) != getattr(other, name)]
    if "program" not in parts:
        return f"{parts} differ"
    a, b = cbor2.loads(one.program), cbor2.loads(other.program)
    return "; ".join(f"{name}: {a[name]} is not {b[name]}" for name in a if a[name] != b[name])
