"""The picture of a run: where it stands, or stood at an earlier version. Nothing is written.

A definition's run is its definition with the states of its nodes. Any other run is drawn by its calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from holdfast.client.definitions.drawn import drawn
from holdfast.client.filters import run_rows
from holdfast.client.people.permission import operating
from holdfast.client.runs.standing import program_at
from holdfast.client.views.mask import JournalMask, mask_of, masked_entries
from holdfast.client.views.states import STEP_STATES
from holdfast.client.views.timeline import Item, fold
from holdfast.client.views.times import clock, microseconds, moment, span
from holdfast.drawing.calls import DrawnCall, draw_calls
from holdfast.drawing.definitions import DEEPEST, heading_of
from holdfast.drawing.node_views import NodeView, WaitTimes, views_of
from holdfast.drawing.picture import Direction, Heading, Picture, State
from holdfast.errors import EngineError, InvalidRequest
from holdfast.journal import events as e
from holdfast.programs.definition.interpreter.program import DefinitionProgram
from holdfast.runs.journals import row_of
from holdfast.runs.kinds.child import WORKFLOW
from holdfast.store.protocol import Key, Run

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

MOST_CALLS: Final = 400
"""Children are drawn with what they did until a picture has so many calls."""

_CALLS: Final = frozenset({"step", "action", "workflow", "detached", "signal", "timer", "form"})


async def picture_of_run(
    app: Holdfast, key: Key, *, at: int | None = None, direction: Direction = "down", deepest: int = DEEPEST
) -> Picture:
    """The picture of a run as it is, or as it was when its journal had ``at`` events.

    Raises RunNotFound, InvalidRequest where it has no such version, and what replaying its journal raises.
    """
    async with operating(app, "runs.see", key.tenant):
        return await _picture(app, key, at, direction, deepest)


async def _picture(app: Holdfast, key: Key, at: int | None, direction: Direction, deepest: int) -> Picture:
    row = await row_of(app.store, key)
    if at is not None and not 1 <= at <= row.version:
        raise InvalidRequest(f"run {key.run!r} has the versions 1 to {row.version}, not {at}.")
    mask = await mask_of(app.store, row)
    entries = [entry async for entry in masked_entries(app.store, row, 0, mask)][:at]
    program = await program_at(app, row, at) if row.program_kind != "function" else None
    if isinstance(program, DefinitionProgram):
        definition = await app.definitions.as_written(program.routine, key.tenant)
        heading = Heading(title=heading_of(definition).title, subtitle=_subtitle(row, entries, at))
        views = _views(program, entries, mask)
        return await drawn(app, definition, views, direction=direction, heading=heading, deepest=deepest)
    calls = await _calls(app, row, entries, [MOST_CALLS])
    return draw_calls(calls, Heading(title=row.workflow, subtitle=_subtitle(row, entries, at)), direction)


def _subtitle(row: Run, entries: list[e.Entry], at: int | None) -> str:
    if at is None:
        return f"run {row.key.run}, {row.status} at version {row.version}"
    when = f", {clock(moment(entries[-1].timestamp))}" if entries else ""
    return f"run {row.key.run} as it was at version {at}{when}"


# -- definitions -------------------------------------------------------------------------------------------------------


def _views(program: DefinitionProgram, entries: list[e.Entry], mask: JournalMask) -> dict[str, NodeView]:
    try:
        engine = program.interpreter
    except EngineError:  # only its start is recorded: nothing has begun
        return {}
    return views_of(engine, _promised(entries), mask.text)


def _promised(entries: Iterable[e.Entry]) -> dict[int, WaitTimes]:
    """When the run began to wait for each of its promises, as far as its journal says."""
    found: dict[int, WaitTimes] = {}
    for entry in entries:
        match entry.event:
            case e.InvokeScheduled(promise_id=promise):
                found[promise.path[-1]] = WaitTimes(entry.timestamp)
            case e.TimerScheduled(promise_id=promise, fire_at=fire_at):
                found[promise.path[-1]] = WaitTimes(entry.timestamp, fire_at)
            case e.ExecutionAwaiting(waiting_on=promises):
                for promise in promises:
                    found.setdefault(promise.path[-1], WaitTimes(entry.timestamp))
    return found


# -- calls -------------------------------------------------------------------------------------------------------------


async def _calls(app: Holdfast, row: Run, entries: list[e.Entry], left: list[int]) -> tuple[DrawnCall, ...]:
    """The calls of a run, with those of its children; ``left`` is how many may still be drawn."""
    items = [item for item in fold(entries) if item.kind in _CALLS and item.position is not None]
    left[0] -= len(items)
    children = {}
    if any(item.kind == WORKFLOW for item in items):
        children = {
            child.parent_position: child
            async for child in run_rows(app.store, tenant=row.key.tenant, parent=row.key.run)
        }
    until = entries[-1].timestamp if entries else 0
    found = []
    for item in items:
        child = children.get(item.position) if item.kind == WORKFLOW else None
        inside: tuple[DrawnCall, ...] = ()
        if child is not None and left[0] > 0:
            inner = [entry async for entry in masked_entries(app.store, child)]
            settled = until if item.until is None else microseconds(item.until)
            inside = await _calls(app, child, [each for each in inner if each.timestamp <= settled], left)
        found.append(_call(row, item, inside))
    return tuple(found)


def _call(row: Run, item: Item, inside: tuple[DrawnCall, ...]) -> DrawnCall:
    took = [] if item.duration is None else [f"took {span(item.duration)}"]
    tries = [f"attempt {item.attempts}"] if item.attempts > 1 else []
    begun = [f"since {clock(item.at)}"] if item.state == "open" else []
    state: State = STEP_STATES.get(item.state, "running")
    if state == "running" and item.kind in ("timer", "form"):
        state = "waiting"
    return DrawnCall(
        id=f"{row.key.run}:{item.position}",
        kind=item.kind,
        name=item.name,
        state=state,
        began=microseconds(item.at),
        ended=None if item.until is None else microseconds(item.until),
        notes=(*took, *tries, *begun, *(text for _, text in item.troubles[-1:])),
        inside=inside,
    )
