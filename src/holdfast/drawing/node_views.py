"""Where a run of a definition stands, node by node: what its picture shows beside the definition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, get_args

import msgspec

from holdfast.drawing.node_words import WAITS
from holdfast.drawing.picture import State
from holdfast.programs.definition.interpreter.frames import Visit, visits
from holdfast.programs.definition.interpreter.interpreter import Interpreter
from holdfast.programs.definition.interpreter.marks import NodeMark
from holdfast.programs.definition.model import RepeatVerb
from holdfast.runs.times import moment

_STATES: Final = frozenset(get_args(State))


class NodeView(msgspec.Struct, kw_only=True):
    """One node in one run. ``notes`` are lines for its box; ``message`` is why it failed or was skipped."""

    state: State = "pending"
    visits: int = 0
    notes: list[str] = []
    message: str = ""


class WaitTimes(msgspec.Struct, frozen=True):
    """When the run began to wait for a promise, and until when at most, in microseconds."""

    since: int
    until: int | None = None


def views_of(
    engine: Interpreter, promised: Mapping[int, WaitTimes], shown: Callable[[str], str] = str
) -> dict[str, NodeView]:
    """The view of every node that the run has visited. ``promised`` is by position; ``shown`` hides secrets."""
    views = {name: _view(mark, shown) for name, mark in engine.marks.items()}
    under_way: dict[str, list[Visit]] = {}
    for visit in visits(engine.root):
        if visit.line is not None:
            under_way.setdefault(visit.node.name, []).append(visit)
    for name, found in under_way.items():
        _add_open(views.setdefault(name, NodeView()), found, promised)
    for name, view in views.items():
        if view.visits > 1:
            view.notes.insert(0, _count(view, len(under_way.get(name, ()))))
    return views


def _view(mark: NodeMark, shown: Callable[[str], str]) -> NodeView:
    state: State = mark.state if mark.state in _STATES else "running"  # type: ignore[assignment]  # it is looked up
    return NodeView(state=state, visits=mark.visits, message=shown(mark.message))


def _count(view: NodeView, under_way: int) -> str:
    return f"×{view.visits}" + (f", {under_way} under way" if under_way > 1 else "")


def _add_open(view: NodeView, found: list[Visit], promised: Mapping[int, WaitTimes]) -> None:
    """What is to be said of the visits of one node that are under way."""
    first = found[0]
    waiting = [visit for visit in found if isinstance(visit.node.verb, WAITS) and visit.promise is not None]
    if waiting and view.state == "running":
        view.state = "waiting"
    elif view.state in ("success", "failed", "skipped", "cancelled"):  # another iteration is over already
        view.state = "running"
    if isinstance(first.node.verb, RepeatVerb):
        view.notes += [text for visit in found if (text := _iterations(visit))][:1]
    times = [promised[at] for visit in found if (at := _position(visit)) in promised]
    if times:
        begun = min(times, key=lambda each: each.since)
        view.notes.append(f"since {moment(begun.since)}")
        if begun.until is not None:
            view.notes.append(f"until {moment(begun.until)}")


def _position(visit: Visit) -> int:
    return -1 if visit.promise is None else visit.promise.path[-1]


def _iterations(visit: Visit) -> str:
    """``×100, 3 running, 1 failed``: the iterations of a repeat, folded into one line."""
    memo = visit.memo
    if "next" not in memo:
        return ""
    count, begun, running = memo["count"], memo["next"], len(visit.lines)
    failed = sum(1 for each in memo["out"] if isinstance(each, dict) and set(each) == {"error"})
    parts = [f"×{count}" if count is not None else f"iteration {begun}"]
    if running:
        parts.append(f"{running} running")
    done = begun - running - failed
    if done:
        parts.append(f"{done} done")
    if failed:
        parts.append(f"{failed} failed")
    return ", ".join(parts)
