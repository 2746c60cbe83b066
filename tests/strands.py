"""A small program with checkpoints: it runs concurrent strands of instructions, with all of its state in one struct.

It uses everything that a program can: steps, steps on a queue, children, timers, receives, races between timers and
receives, join sets, recorded values, compensation, and continuing as new. The laws of checkpoints are tested with it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import cbor2
import msgspec

from holdfast.journal import events as e
from holdfast.journal.payload import Err, Failure, Ok, Outcome, Payload
from holdfast.journal.promise import JoinSetId, PromiseId
from holdfast.kernel.program import Continued, Program, Raised, Returned, Scribe, Stopped, Waiting, Yielded
from holdfast.programs.function.decorators import WORKFLOWS, Workflow
from tests.laws.programs import MAX_ATTEMPTS, SIGNALS, Perform, perform, play
from tests.simulation.workload import QUEUE, queued, undo

FORMAT: Final = 1

Instruction = list[Any]


class Script(msgspec.Struct, frozen=True):
    """The instructions of a run. With ``lists`` its waits list the open promises; ``again`` is the next generation."""

    strands: list[list[Instruction]]
    lists: bool = False
    again: list[list[Instruction]] | None = None
    rounds: int = 1  # how often each strand is run


class _Join(msgspec.Struct):
    position: int
    at_once: bool
    members: list[int]
    results: dict[int, list[Any]] = {}


class _State(msgspec.Struct):
    at: list[int]
    root: bytes = b""
    waits: dict[int, tuple[int, str, str]] = {}  # by position: the strand, the kind of wait, and its key
    joins: dict[int, _Join] = {}  # by strand
    done: list[tuple[int, str]] = []  # steps to undo: position and key
    given_up: dict[int, str] = {}  # abandoned steps that must be undone if they succeed: key by position
    log: list[str] = []
    unwinding: str = ""
    failure: str = ""


class Strands:
    """The program. See ``Program``."""

    needs: ClassVar[tuple[str, ...]] = ()
    reference: ClassVar[str | None] = None
    names: Mapping[str, str | None]

    restored: ClassVar[list[int]] = []  # the sizes of the checkpoints that were restored

    def start(self, scribe: Scribe, started: e.ExecutionStarted) -> None:
        self._read(scribe, started)
        self._state = _State([0] * len(self._script.strands))

    def _read(self, scribe: Scribe, started: e.ExecutionStarted) -> None:
        self._scribe = scribe
        (script,), _ = cbor2.loads(started.input.data)
        self._script = msgspec.convert(script, Script)

    def checkpoint(self) -> bytes | None:
        return cbor2.dumps([FORMAT, msgspec.to_builtins(self._state, builtin_types=(bytes,))], canonical=True)

    def restore(self, scribe: Scribe, started: e.ExecutionStarted, checkpoint: bytes) -> None:
        number, state = cbor2.loads(checkpoint)
        if number != FORMAT:
            raise ValueError(f"format {number}")
        self._read(scribe, started)
        self._state = msgspec.convert(state, _State)
        self.restored.append(len(checkpoint))

    def close(self) -> None:
        pass

    def revise(self, payload: Payload) -> None:
        self._state.log.append(f"revised {cbor2.loads(payload.data)}")

    # -- arrivals ---------------------------------------------------------------------------------------------------

    def settle(self, promise_id: PromiseId, outcome: Outcome | None) -> None:
        state, position = self._state, promise_id.path[-1]
        wait = state.waits.pop(position, None)
        if wait is None:
            if isinstance(outcome, Ok) and position in state.given_up:
                state.done.append((position, state.given_up.pop(position)))
            return
        strand, what, key = wait
        state.log.append(f"{position} {what} {_as_text(outcome)}")
        if what == "member":
            self._member(strand, position, outcome)
        elif what == "race":
            self._give_up([other for other, rival in state.waits.items() if rival[:2] == (strand, "race")])
        elif isinstance(outcome, Err) and what != "undo":
            self._unwind("failing", str(outcome.failure))
        elif what == "undoable":
            state.done.append((position, key))
        self._go()

    def _member(self, strand: int, position: int, outcome: Outcome | None) -> None:
        join = self._state.joins[strand]
        assert outcome is not None
        join.results[position] = _plain(outcome)
        taken = [position]
        if join.at_once:
            taken = join.members if len(join.results) == len(join.members) else []
        for member in taken:
            self._scribe.consume(JoinSetId(self._at(join.position)), self._at(member), _outcome(join.results[member]))

    def cancel(self, reason: str) -> None:
        self._unwind("cancelling", reason)
        self._go()

    def _unwind(self, how: str, why: str) -> None:
        state = self._state
        if not state.unwinding:
            state.unwinding, state.failure = how, why
            self._give_up(list(state.waits))
            state.joins.clear()

    def _give_up(self, positions: list[int]) -> None:
        for position in positions:
            _, what, key = self._state.waits.pop(position)
            if what == "undoable":
                self._state.given_up[position] = key
            self._scribe.abandon(self._at(position))

    # -- running ----------------------------------------------------------------------------------------------------

    def run(self) -> Yielded:
        self._go()
        state = self._state
        del state.log[:-20]
        if state.waits:
            return self._waiting()
        if state.unwinding == "failing":
            return Raised(Failure("tests:Unlucky", state.failure))
        if state.unwinding:
            return Stopped()
        if self._script.again is not None:
            return Continued(_input(Script(self._script.again)))
        return Returned(Payload(cbor2.dumps(state.log)))

    def _waiting(self) -> Waiting:
        waits = self._state.waits
        if len(waits) == 1:
            ((position, (_, what, key)),) = waits.items()
            kind = e.Signal(key, self._at(position)) if what == "receive" else e.Single()
            return Waiting((self._at(position),), kind)
        whole = {wait[0] for wait in waits.values() if wait[1] == "member"} if self._state.joins else set()
        if len(whole) == 1 and all(wait[1] == "member" for wait in waits.values()):
            (strand,) = whole
            return Waiting(self.waiting_on(), e.All() if self._state.joins[strand].at_once else e.Any())
        return Waiting(self.waiting_on(), e.Any()) if self._script.lists else Waiting((), e.Open())

    def clock_of(self, promise_id: PromiseId) -> PromiseId | None:
        return None

    def waiting_on(self) -> tuple[PromiseId, ...]:
        return tuple(self._at(position) for position in self._state.waits)

    def _go(self) -> None:
        state = self._state
        if state.unwinding:
            if not state.waits and state.done:
                position, key = state.done.pop()
                self._invoke(0, "undo", undo, [key], undoes=self._at(position))
            return
        for strand, instructions in enumerate(self._script.strands):
            length = len(instructions) * self._script.rounds
            while state.at[strand] < length and all(wait[0] != strand for wait in state.waits.values()):
                instruction = instructions[state.at[strand] % len(instructions)]
                state.at[strand] += 1
                state.joins.pop(strand, None)
                self._play(strand, *instruction)

    def _play(self, strand: int, verb: str, *rest: Any) -> None:
        scribe, state = self._scribe, self._state
        if verb in ("step", "undoable"):
            self._invoke(strand, verb, perform, list(rest))
        elif verb == "queued":
            self._invoke(strand, verb, queued, list(rest), queue=QUEUE)
        elif verb == "child":
            self._invoke(strand, verb, play, [msgspec.to_builtins(Perform(rest[0], 0))], kind="workflow")
        elif verb == "sleep":
            self._wait(strand, "timer", scribe.timer(rest[0]))
        elif verb in ("receive", "race"):
            promise, payload = scribe.receive(rest[0])
            if payload is not None:
                state.log.append(f"{promise.path[-1]} {verb} {_as_text(Ok(payload))}")
                return
            self._wait(strand, verb, promise, rest[0])
            if verb == "race":
                self._wait(strand, verb, scribe.timer(rest[1]))
        elif verb == "ticks":
            for _ in range(rest[0]):
                scribe.now()
        elif verb == "join":
            self._join(strand, *rest)
        else:
            state.log.append(f"{scribe.now()} {scribe.random(4).hex()} {scribe.patched('change')}")

    def _join(self, strand: int, at_once: bool, steps: list[list[Any]]) -> None:
        join_set = self._scribe.join_set()
        join = _Join(join_set.position.path[-1], at_once, [])
        self._state.joins[strand] = join
        for arguments in steps:
            promise = self._invoke(strand, "member", perform, arguments)
            self._scribe.submit(join_set, promise)
            join.members.append(promise.path[-1])

    def _invoke(
        self,
        strand: int,
        what: str,
        called: Any,
        arguments: list[Any],
        kind: str = "step",
        queue: str | None = None,
        undoes: PromiseId | None = None,
    ) -> PromiseId:
        payload = Payload(cbor2.dumps([arguments, {}], canonical=True))
        promise = self._scribe.invoke(kind, called.name, payload, called.retry, queue, undoes)
        return self._wait(strand, what, promise, str(arguments[0]))

    def _wait(self, strand: int, what: str, promise: PromiseId, key: str = "") -> PromiseId:
        self._state.root = promise.root
        self._state.waits[promise.path[-1]] = (strand, what, key)
        return promise

    def _at(self, position: int) -> PromiseId:
        return PromiseId(self._state.root, (position,))


def _plain(outcome: Outcome) -> list[Any]:
    if isinstance(outcome, Ok):
        return [outcome.value.data]
    return [outcome.failure.type, outcome.failure.message, outcome.failure.trace]


def _outcome(plain: list[Any]) -> Outcome:
    return Ok(Payload(plain[0])) if len(plain) == 1 else Err(Failure(*plain))


def _as_text(outcome: Outcome | None) -> str:
    if outcome is None:
        return "fired"
    return str(outcome.failure) if isinstance(outcome, Err) else str(cbor2.loads(outcome.value.data))


def _input(script: Script) -> Payload:
    return Payload(cbor2.dumps([[msgspec.to_builtins(script)], {}], canonical=True))


class Scripted(Workflow[..., Any]):
    """A workflow whose program is ``Strands``, so that a worker can find it by name."""

    def program(self, directory: object = None) -> Program:  # type: ignore[override]  # it is no function
        return Strands()


async def _body(script: Script) -> list[str]:
    raise AssertionError("this function must not be called")


strands: Final = Scripted(_body, name="tests.strands")
WORKFLOWS.add(strands)


def script(source: random.Random, size: int, *, prefix: str = "", again: bool = False) -> Script:
    """A random script."""
    instructions: list[list[Instruction]] = [[] for _ in range(source.randint(1, 4))]
    for number in range(size):
        source.choice(instructions).append(_instruction(source, f"{prefix}s{number}"))
    rest = script(source, 2, prefix=f"{prefix}again ").strands if again else None
    return Script(instructions, source.random() < 0.5, rest)


def _instruction(source: random.Random, key: str) -> Instruction:
    verb = source.choice(
        ("step", "step", "undoable", "undoable", "queued", "child", "sleep", "receive", "race", "join", "value")
    )
    if verb in ("step", "undoable", "queued"):
        return [verb, key, _fails(source)]
    if verb == "child":
        return [verb, key]
    if verb == "sleep":
        return [verb, source.choice((0, 500_000, 3_000_000))]
    if verb == "receive":
        return [verb, source.choice(SIGNALS)]
    if verb == "race":
        return [verb, source.choice(SIGNALS), source.choice((500_000, 3_000_000))]
    if verb == "join":
        members = [[f"{key}.{number}", _fails(source)] for number in range(source.randint(1, 4))]
        return [verb, source.random() < 0.5, members]
    return [verb]


def _fails(source: random.Random) -> int:
    return source.choices(range(MAX_ATTEMPTS + 1), weights=(80, 12, 5, 3))[0]
