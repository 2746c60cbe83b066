"""The places at which an interpreter waits: the resume pointers of a run, by names of nodes and iterations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.journal.promise import PromiseId
from holdfast.programs.definition import model as m
from holdfast.programs.definition.interpreter.frames import Line, Visit
from holdfast.programs.definition.interpreter.interpreter import Interpreter


class WaitingPlace(NamedTuple):
    """One thing that a run waits for, and where. The run goes on there when the promise is settled."""

    path: tuple[str | int, ...]
    node: str
    kind: str
    name: str
    promise: PromiseId
    attempt: int


def waiting_places(engine: Interpreter) -> Iterator[WaitingPlace]:
    """All places at which it waits, in the order in which it began to."""
    for promise, (what, place) in engine.waiting.items():
        if isinstance(place, Line):
            node = place.nodes[place.at].name
            yield WaitingPlace((*place.path(), node), node, "turn", "", promise, 1)
        else:
            kind, name = _called(place) if what == "call" else (_KINDS[what], "")
            yield WaitingPlace(place.path(), place.node.name, kind, name, promise, place.attempt)


_KINDS = {"deadline": "timeout", "rest": "retry", "undo": "undo"}


def _called(visit: Visit) -> tuple[str, str]:
    match visit.node.verb:
        case m.TaskVerb(task=name):
            return "task", name
        case m.WaitVerb(signal=name):
            return "signal", visit.memo.get("signal", name)
        case m.SleepVerb():
            return "timer", ""
        case m.CallVerb(kind=kind, name=name):
            return kind, name
        case m.TransportVerb(verb=name):
            return "transport", name
        case m.RunVerb(workflow=name, version=version):
            return "workflow", name if version is None else f"{name}@{version}"
        case m.ContinueVerb(workflow=name) | m.SendVerb(signal=name):
            return "commit", name
        case _:
            return "call", ""
