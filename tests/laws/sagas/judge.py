"""The judge: it reads the journals of a run and what its program saw, and says whether the laws hold.

It does not know how the engine works. A value like ``k3#17`` names one execution of one effect: where a journal has it
as the result of ``sagas.do``, that success is recorded; where an undo that was given it has succeeded, it is undone.
"""

from __future__ import annotations

from collections import defaultdict

import cbor2

from holdfast.journal import events as e
from holdfast.journal.payload import Err, Ok
from tests import carried
from tests.laws.sagas.lives import DOING, UNDOING, Call, Life, calls, how_ended
from tests.laws.sagas.play import Note, key_of
from tests.laws.sagas.violation import Violation


class Account:
    """What one run did, over all its generations."""

    def __init__(self, lives: list[Life]) -> None:
        self.lives = lives
        self.recorded: dict[str, int] = {}  # each execution, and the generation that recorded it first
        self.undone: dict[str, set[str]] = defaultdict(set)  # each execution, and what undid it
        self.not_undone: dict[str, int] = {}  # each execution whose undo failed for good
        self._failing: set[int] = set()  # the generations in which one did
        for number, life in enumerate(lives):
            for call in calls(life):
                self._take_in(number, call)

    def _take_in(self, number: int, call: Call) -> None:
        good = isinstance(call.result, Ok)
        if call.name in DOING and good:
            self.recorded.setdefault(call.execution, number)
        elif call.name in UNDOING and good:
            self._undone(call)
        elif call.name in UNDOING:
            self.not_undone[call.execution] = number
            self._failing.add(number)

    def _undone(self, call: Call) -> None:
        assert isinstance(call.result, Ok)
        said = str(cbor2.loads(call.result.value.data))
        if not said.startswith(f"{call.execution} undone by"):
            raise Violation("L5", f"an undo was given something else than its call had: {said!r}")
        self.undone[call.execution].add(said)

    def fails_by(self, generation: int) -> bool:
        """Whether something could not be undone in this generation: then it fails, however its body ended."""
        return generation in self._failing

    @property
    def end(self) -> e.Event:
        return self.lives[-1].entries[-1].event

    def path(self) -> list[int]:
        """The generations that led to this end: a retried one was replaced by the one that retried it."""
        number = len(self.lives) - 1
        found = [number]
        while number > 0:
            origin = self.lives[number].origin
            number -= 1
            if origin == "continue":
                found.append(number)
        return found

    def was_retried(self) -> bool:
        return any(life.origin == "retry" for life in self.lives)

    def standing(self) -> dict[str, list[str]]:
        """The executions that are recorded and not undone, by effect."""
        found: dict[str, list[str]] = {key_of(value): [] for value in self.recorded}
        for value in self.recorded:
            if not self.undone.get(value):
                found[key_of(value)].append(value)
        return found


def judge(run: str, lives: list[Life]) -> None:
    """Judge a run that has ended. Raises Violation."""
    account = Account(lives)
    _judge_signals(run, lives)
    _judge_undos(run, account)
    if isinstance(account.end, e.ExecutionCompleted):
        _judge_completed(run, account)
    else:
        _judge_taken_back(run, account)
    _judge_ending(run, account)
    _judge_order(run, account)


# -- effects -----------------------------------------------------------------------------------------------------------


def _judge_undos(run: str, account: Account) -> None:
    for value, times in account.undone.items():
        if value not in account.recorded:
            raise Violation("L3", f"run {run} undid {value}, which was never recorded")
        if len(times) > 1:
            law = "L4" if account.was_retried() else "L3"
            raise Violation(law, f"run {run} undid {value} {len(times)} times")


def _judge_completed(run: str, account: Account) -> None:
    relied_on = {key for number in account.path() for key in _relied_on(account.lives[number])}
    for key, standing in account.standing().items():
        expected = 1 if key in relied_on else 0
        if len(standing) == expected:
            continue
        if not expected and all(value in account.not_undone for value in standing):
            continue  # it could not be undone, and the run's failure said so
        law = "L4" if account.was_retried() else "L2"
        raise Violation(law, f"run {run} completed and {key} stands {len(standing)} times, not {expected}: {standing}")


def _relied_on(life: Life) -> set[str]:
    """The effects that the body relied on: it did not give them up, and they were done before it ended."""
    given_up = {note.name for note in life.notes if note.what == "gave up"}
    ended = _left(life.notes).at
    done = {
        key_of(call.execution)
        for call in calls(life)
        if call.name in DOING and isinstance(call.result, Ok) and call.completed < ended
    }
    return done - given_up


def _judge_taken_back(run: str, account: Account) -> None:
    """A run that failed or was cancelled."""
    said = str(account.end.error) if isinstance(account.end, e.ExecutionFailed) else ""
    for key, standing in account.standing().items():
        for value in standing:
            if value not in account.not_undone:
                how = type(account.end).__name__
                left = _left(account.lives[-1].notes)
                why = f"its body was left by {left.value or left.name}"
                raise Violation(_blame(account, value), f"run {run}: {how}, and {value} was not undone; {why}")
            if account.not_undone[value] == len(account.lives) - 1 and key not in said:
                raise Violation("L3", f"run {run}: {value} could not be undone, and its end does not say so: {said}")


def judge_refusal(run: str, reason: str, runs: list[list[Life]]) -> None:
    """A retry is refused with a reason, and only where something was undone, in this run or in one beside it, or where
    something was done after a failure or a cancellation: from before that it would be done twice."""
    lives = [life for each in runs for life in each]
    undone = any(call.name in UNDOING for life in lives for call in calls(life))
    if not reason or not (undone or any(_did_after_trouble(life) for life in lives)):
        raise Violation("L4", f"the retry of run {run} was refused, and nothing stood in its way: {reason!r}")


def _did_after_trouble(life: Life) -> bool:
    made = list(calls(life))
    trouble = [call.completed for call in made if isinstance(call.result, Err)]
    trouble += [entry.sequence for entry in life.entries if isinstance(entry.event, e.CancelRequested)]
    return any(isinstance(call.result, Ok) and call.scheduled > min(trouble, default=call.scheduled) for call in made)


def _blame(account: Account, value: str) -> str:
    """Which law is broken where an effect stands: it depends on what else happened."""
    last = account.lives[-1]
    following = [life.origin for life in account.lives[account.recorded[value] + 1 :]]
    if following:
        return "L5" if "continue" in following else "L4"
    if any(name in _left(last.notes).value for name in ("SystemExit", "KeyboardInterrupt", "Abort")):
        return "L5"
    began = [
        entry.sequence
        for entry in last.entries
        if isinstance(entry.event, e.InvokeScheduled) and entry.event.function_name in UNDOING
    ]
    return "L3" if began else "L2"


def _judge_order(run: str, account: Account) -> None:
    """Newest first: where one call was made after another had succeeded, it is undone before that one's undo begins."""
    if account.was_retried():
        return
    done: dict[str, _Span] = {}
    undos: dict[str, _Span] = {}
    for number, life in enumerate(account.lives):
        for call in calls(life):
            span = (number, call.scheduled), (number, call.completed)
            if call.name in UNDOING:
                undos[call.execution] = span
            elif call.name in DOING and isinstance(call.result, Ok):
                done[call.execution] = span
    known = _before_compensation(account.lives)
    undone = {value: span for value, span in done.items() if value in undos and span[1] < known}
    for older, (_, completed) in undone.items():
        for newer, (began, _) in undone.items():
            if completed < began and undos[newer][1] > undos[older][0]:
                raise Violation("L3", f"run {run} began to undo {older} before {newer}, which is newer, was undone")


_Span = tuple[tuple[int, int], tuple[int, int]]
"""When a call was scheduled and when it ended: generation and sequence of both."""


def _before_compensation(lives: list[Life]) -> tuple[int, int]:
    """The end of the turn before the first undo. What succeeds later is undone when it is known, in whatever order."""
    rest = (0, 0)
    for number, life in enumerate(lives):
        for entry in life.entries:
            if isinstance(entry.event, e.ExecutionAwaiting):
                rest = number, entry.sequence
            elif isinstance(entry.event, e.InvokeScheduled) and entry.event.function_name in UNDOING:
                return rest
    return rest


# -- endings -----------------------------------------------------------------------------------------------------------


def _left(notes: list[Note]) -> Note:
    found = [note for note in notes if note.what == "left"]
    return found[-1] if found else Note("left", "never")


def _judge_ending(run: str, account: Account) -> None:
    """Each generation ends as its body did. What comes after the body is compensation, which may fail."""
    for number, life in enumerate(account.lives):
        left = _left(life.notes)
        where = f"run {run}, generation {number}: the body was left by {left.value or left.name}, and the end is"
        how = how_ended(life)
        cancelled = any(isinstance(entry.event, e.CancelRequested) for entry in life.entries)
        continues = {note.name for note in life.notes if note.what == "continues"}
        leaves = set(left.value.split())
        if left.name == "never":
            expected = {"cancelled", "failed"} if cancelled else set()  # an undo of an earlier generation may fail
        elif account.fails_by(number):
            expected = {"failed"}
        elif left.name == "returned":
            expected = {"completed"}
        elif continues and leaves <= continues:
            expected = {"continued"}
        elif continues & leaves:
            expected = {"continued", "failed", "cancelled"}
        else:
            expected = {"failed", "cancelled"} if cancelled else {"failed"}
        if how not in expected:
            raise Violation("L5", f"{where} {how}")


# -- signals -----------------------------------------------------------------------------------------------------------


def deliveries(life: Life) -> dict[str, list[str]]:
    """What was delivered to this generation, by name, in order."""
    found: dict[str, list[str]] = defaultdict(list)
    for event in carried.deliveries(life.entries, life.blobs):
        found[event.signal_name].append(cbor2.loads(event.payload.data))
    return found


def seen(life: Life, name: str) -> list[str]:
    return [note.value for note in life.notes if note.what == "got" and note.name == name]


def judge_waiting(run: str, life: Life) -> None:
    """A run at rest: a receive that waits has not missed a signal of its name. None waits after the body has ended."""
    if any(note.what == "left" for note in life.notes):
        return
    delivered = deliveries(life)
    for name, values in delivered.items():
        asked = sum(note.name == name and note.what == "wants" for note in life.notes)
        answered = sum(note.name == name and note.what in ("got", "missed") for note in life.notes)
        unseen = [value for value in values if value not in seen(life, name)]
        if asked > answered and unseen:
            raise Violation("L1", f"run {run} waits for {name}, and never saw {unseen}, which were delivered")


def _judge_signals(run: str, lives: list[Life]) -> None:
    for number, life in enumerate(lives):
        delivered = deliveries(life)
        for name, values in delivered.items():
            got = seen(life, name)
            if len(set(got)) < len(got) or not set(got) <= set(values):
                raise Violation("L1", f"run {run} got {got} of {name}, and {values} were delivered")
            if set(got) != set(values[: len(got)]):
                raise Violation("L1", f"run {run} got {got} of {name}, not the oldest of {values}: one is lost")
        if number + 1 < len(lives):
            _judge_inheritance(run, life, lives[number + 1], number)


def _judge_inheritance(run: str, life: Life, following: Life, number: int) -> None:
    """The next generation is given what this one did not see; a retried one, all of it again."""
    given = deliveries(following)
    for name, values in deliveries(life).items():
        kept = values[len(seen(life, name)) :] if following.origin == "continue" else values
        if given[name][: len(kept)] != kept:
            how = f"generation {number} of run {run} left {kept} of {name} to the next, which was given {given[name]}"
            raise Violation("L1", how)
