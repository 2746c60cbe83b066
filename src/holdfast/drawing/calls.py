"""A function's run as parts: its calls in order, those at the same time beside each other, children with theirs inside.

Where one name is called more than a few times in a row or at once, the calls are folded into one box with counts.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from holdfast.drawing import parts as d
from holdfast.drawing.layout.layout import lay_out
from holdfast.drawing.picture import Direction, Element, Heading, Picture, State, TextLine

SHOWN: Final = 4
"""So many calls of one name are drawn one by one. More are folded."""


class DrawnCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a run. ``id`` is unique in the picture; ``ended`` is None while it is under way."""

    id: str
    kind: str
    name: str
    state: State
    began: int
    ended: int | None = None
    notes: tuple[str, ...] = ()
    inside: tuple[DrawnCall, ...] = ()


def draw_calls(calls: Sequence[DrawnCall], heading: Heading, direction: Direction = "down") -> Picture:
    """The picture of a run by its calls."""
    start = d.SingleBox(Element(id=":start", kind="start", shape="dot", tip="start"))
    return lay_out(d.Sequence((start, *_line(calls))), heading, direction)


def _line(calls: Sequence[DrawnCall]) -> tuple[d.Part, ...]:
    """Calls behind each other; those that overlap in time as one split."""
    groups: list[list[DrawnCall]] = []
    end = -1.0
    for call in sorted(calls, key=lambda call: call.began):
        if call.began >= end or not groups:
            groups.append([])
        groups[-1].append(call)
        end = max(end, float("inf") if call.ended is None else call.ended)
    return tuple(part for group in _joined(groups) for part in _group(group))


def _joined(groups: Iterable[list[DrawnCall]]) -> list[list[DrawnCall]]:
    """Single calls of one name in a row are one group, so that they can be folded."""
    found: list[list[DrawnCall]] = []
    for group in groups:
        single = len(group) == 1 and found and len({call.name for call in (*found[-1], *group)}) == 1
        if single and _is_row(found[-1]):
            found[-1] += group
        else:
            found.append(list(group))
    return found


def _is_row(calls: Sequence[DrawnCall]) -> bool:
    """Whether each call began when the one before it was over."""
    pairs = itertools.pairwise(calls)
    return all(first.ended is not None and first.ended <= second.began for first, second in pairs)


def _group(calls: Sequence[DrawnCall]) -> list[d.Part]:
    if _is_row(calls):
        return [_fold(calls)] if len(calls) > SHOWN else [_call(call) for call in calls]
    names = Counter((call.kind, call.name) for call in calls)
    folded = [key for key, count in names.items() if count > SHOWN]
    rest = [call for call in calls if (call.kind, call.name) not in folded]
    lines = [d.Sequence(tuple(_call(call) for call in lane)) for lane in _lanes(rest)]
    lines += [d.Sequence((_fold([call for call in calls if (call.kind, call.name) == key]),)) for key in folded]
    if len(lines) == 1:
        return list(lines[0].parts)
    text = f"{len(calls)} at once"
    head = Element(id=f"{calls[0].id}:split", kind="label", shape="chip", texts=(TextLine(text, "detail"),), tip=text)
    return [d.Split(head=head, branches=tuple(lines), bars=True)]


def _lanes(calls: Sequence[DrawnCall]) -> list[list[DrawnCall]]:
    """Calls that overlap, in as few lines as possible."""
    lanes: list[list[DrawnCall]] = []
    for call in calls:
        free = (lane for lane in lanes if (ended := lane[-1].ended) is not None and ended <= call.began)
        lane = next(free, None)
        if lane is None:
            lanes.append([call])
        else:
            lane.append(call)
    return lanes


def _call(call: DrawnCall) -> d.Part:
    element = _element(call, call.id, call.state, call.notes)
    if not call.inside:
        return d.SingleBox(element)
    framed = msgspec.structs.replace(element, kind="frame", shape="frame")
    return d.Frame(element=framed, inside=d.Sequence(_line(call.inside)))


def _fold(calls: Sequence[DrawnCall]) -> d.Part:
    """Many calls of one name as one box: ``×100, 3 running, 1 failed``."""
    states = Counter(call.state for call in calls)
    parts = [f"×{len(calls)}"]
    parts += [f"{count} {state}" for state, count in states.items() if state != "success"]
    worst: tuple[State, ...] = ("failed", "retrying", "running", "waiting", "cancelled", "success")
    state = next((each for each in worst if states[each]), calls[0].state)
    element = _element(calls[0], calls[0].id, state, (", ".join(parts),))
    return d.SingleBox(msgspec.structs.replace(element, shape="stack"))


def _element(call: DrawnCall, id: str, state: State, notes: tuple[str, ...]) -> Element:
    lines = (TextLine(call.name, "name"), TextLine(call.kind, "detail"), *(TextLine(text, "note") for text in notes))
    tip = "\n".join([call.name, call.kind, state, *notes])
    return Element(id=id, verb=call.kind, texts=lines, tip=tip, state=state)
