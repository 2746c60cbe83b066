"""Judges model traces: for every execution in every state, the verdict of the kernel's own ledger on its journal.

A trace comes from a simulation of the journal model. Its states hold a variable ``executions``: a map from execution
id to journal, status, next child position and allocated children. Each journal is folded through a ``Ledger`` without
the kernel's own laws, with the model's bound on retries. Then the stored status is compared with the fold (INV-4).

A state repeats the journals of the one before it. So each execution is watched: only appended events are read and
folded. A journal that was changed in any other way is read again from its start.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from holdfast.errors import LawBroken
from holdfast.journal import itf
from holdfast.journal.laws import LAWS, MODEL_RETRY_BOUND
from holdfast.journal.ledger import Ledger
from holdfast.journal.status import Status

VARIABLE: Final = "executions"

_JUDGED: Final = frozenset({"journal", "status"})
_IGNORED: Final = frozenset({"nextChildSeq", "allocatedChildren"})
_PROMISE: Final = re.compile(r"\b([0-9a-f]{64})((?:\.-?[0-9]+)*)")


class TraceCheck(msgspec.Struct, frozen=True, gc=False):
    """The ledger's verdict on one execution in one state. Only one of ``status`` and ``law`` is set."""

    state: int
    execution: tuple[int, ...]
    accepted: bool
    status: str | None
    law: str | None
    detail: str = ""


def check_trace(text: str | bytes) -> Iterator[TraceCheck]:
    """Judge every execution in every state, states in order. Raises InvalidRequest where the text is not such a trace.

    The whole trace is read before the first verdict is given, so a bad one gives an error and nothing else.
    """
    watched: dict[tuple[int, ...], _Watched] = {}
    verdicts: list[TraceCheck] = []
    for number, state in enumerate(_states(itf.load(text))):
        at = f"states[{number}]"
        judged: set[tuple[int, ...]] = set()
        for index, (key, value) in enumerate(itf.pairs(_variable(state, at), f"{at}.{VARIABLE}")):
            execution = itf.name(key, f"{at}.{VARIABLE}.#map[{index}][0]")
            if execution in judged:
                itf.refuse(f"{at}.{VARIABLE}.#map[{index}]", f"the execution {list(execution)} is there twice")
            judged.add(execution)
            watch = watched.setdefault(execution, _Watched(execution))
            verdicts.append(watch.judge(number, value, f"{at}.{VARIABLE}{list(execution)}"))
    return iter(verdicts)


def verdict_to_json(verdict: TraceCheck) -> str:
    """One object on one line: state, execution, accepted, status, law."""
    return json.dumps(
        {
            "state": verdict.state,
            "execution": list(verdict.execution),
            "accepted": verdict.accepted,
            "status": verdict.status,
            "law": verdict.law,
        }
    )


def render_verdict(verdict: TraceCheck) -> str:
    """One line for people."""
    who = f"state {verdict.state}  execution {list(verdict.execution)}"
    if verdict.law is None:
        return f"{who}  accepted  {verdict.status}"
    return f"{who}  refused   {verdict.law} ({LAWS[verdict.law]}): {verdict.detail}"


class _Watched:
    """One execution along the trace: its journal so far, as in the file, and its fold."""

    def __init__(self, execution: tuple[int, ...]) -> None:
        self._execution = execution
        self._begin()

    def _begin(self) -> None:
        self._journal: list[Any] = []
        self._ledger = Ledger(itf.identify(self._execution), strict=False, retry_bound=MODEL_RETRY_BOUND)
        self._broken: tuple[str, str] | None = None

    def judge(self, state: int, value: object, at: str) -> TraceCheck:
        """The verdict on the execution in this state."""
        fields = itf.record(value, at, _JUDGED, _IGNORED)
        self._follow(itf.elements(fields["journal"], f"{at}.journal"), f"{at}.journal")
        stored = itf.status(fields["status"], f"{at}.status")
        broken = self._broken or _inconsistent(stored, self._ledger.status)
        if broken is not None:
            law, detail = broken
            return TraceCheck(state, self._execution, accepted=False, status=None, law=law, detail=detail)
        status = type(self._ledger.status).__name__
        return TraceCheck(state, self._execution, accepted=True, status=status, law=None)

    def _follow(self, journal: list[Any], at: str) -> None:
        folded = len(self._journal)
        if journal[:folded] != self._journal:
            self._begin()
            folded = 0
        self._journal = journal
        for index in range(folded, len(journal)):
            entry = itf.entry(journal[index], f"{at}[{index}]")
            if self._broken is not None:
                continue  # the first broken law is reported; later events must still be readable
            try:
                self._ledger.append(entry.event, entry.timestamp, entry.sequence)
            except LawBroken as error:
                detail = _with_model_ids(str(error).removeprefix(f"law {error.law}: "))
                self._broken = error.law, f"event {index}, {type(entry.event).__name__}: {detail}"


def _inconsistent(stored: Status, folded: Status) -> tuple[str, str] | None:
    if stored == folded:
        return None
    names = type(stored).__name__, type(folded).__name__
    if names[0] == names[1]:
        return "INV-4", f"the stored status is {names[0]}, but on other promises than in the journal"
    return "INV-4", f"the stored status is {names[0]}, that of the journal is {names[1]}"


def _with_model_ids(detail: str) -> str:
    def plain(match: re.Match[str]) -> str:
        root = int.from_bytes(bytes.fromhex(match[1]), "big", signed=True)
        return str([root, *map(int, match[2].split(".")[1:])])

    return _PROMISE.sub(plain, detail)


def _states(trace: object) -> list[Any]:
    if not isinstance(trace, dict):
        itf.refuse("the beginning", f"expected an object with states, found {itf.describe(trace)}")
    meta = trace.get("#meta", {})
    written = meta.get("format", "ITF") if isinstance(meta, dict) else meta
    if written != "ITF":
        itf.refuse("#meta.format", f"expected 'ITF', found {itf.describe(written)}")
    states = trace.get("states")
    if not isinstance(states, list) or not states:
        itf.refuse("states", f"expected a list of at least one state, found {itf.describe(states)}")
    return states


def _variable(state: object, at: str) -> object:
    """The model's variable; a model run as an instance of a module writes the module's name before it."""
    if not isinstance(state, dict):
        itf.refuse(at, f"expected a state, found {itf.describe(state)}")
    named = [key for key in state if key == VARIABLE or key.endswith(f"::{VARIABLE}")]
    if not named:
        itf.refuse(at, f"there is no variable {VARIABLE!r}: this is a trace of another model")
    return state[named[0]]
