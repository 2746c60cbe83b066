"""Begins and steps a chart: pure functions from a configuration and an event to a result.

Nothing is read but the arguments: no clock, no randomness. Delayed events are the caller's to time; a timer that was
cancelled meanwhile is not heard, so a caller that is late does no harm.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from holdfast.errors import InvalidRequest
from holdfast.programs.machine.charts import configuration as n
from holdfast.programs.machine.charts.chart import Chart
from holdfast.programs.machine.charts.expressions.values import ExpressionFault, stored
from holdfast.programs.machine.charts.sender import addressed_session
from holdfast.programs.machine.charts.session_run import SessionRun
from holdfast.programs.machine.charts.work import StepWork

USUAL_LIMITS = n.ChartLimits()


def begin(
    chart: Chart,
    session: str,
    data: Mapping[str, Any] | None = None,
    *,
    types: Collection[str] = (),
    limits: n.ChartLimits = USUAL_LIMITS,
) -> n.ChartResult:
    """Enter a chart.

    ``session`` is its ``_sessionid``. ``data`` replaces the first values of variables that the document declares.
    ``types`` are those of a ``<send>`` that the caller delivers. Raises InvalidDefinition where the chart costs too
    much, InvalidRequest where ``data`` is no plain data.
    """
    if not session:
        raise InvalidRequest("a chart needs the id of its session")
    work = StepWork(
        chart,
        n.ChartConfiguration(root=session, sessions={session: n.ChartSession(id=session)}),
        limits,
        frozenset(types),
    )
    SessionRun(work, work.sessions[session]).begin(_plain(data or {}, work))
    return work.result()


def step(
    chart: Chart,
    configuration: n.ChartConfiguration,
    event: n.ChartEvent,
    *,
    types: Collection[str] = (),
    limits: n.ChartLimits = USUAL_LIMITS,
) -> n.ChartResult:
    """Handle an event, from rest to rest.

    It is not heard where its session has ended, or where it comes from an invoked chart that was left meanwhile. Raises
    InvalidDefinition where the chart costs too much, InvalidRequest where the event's data is no plain data.
    """
    work = StepWork(chart, configuration, limits, frozenset(types))
    return work.result(is_heard=_hear(work, event))


def fire(
    chart: Chart,
    configuration: n.ChartConfiguration,
    timer: str,
    *,
    types: Collection[str] = (),
    limits: n.ChartLimits = USUAL_LIMITS,
) -> n.ChartResult:
    """A delay is over: send its event, which the chart hears at once if it is its own. Raises as ``step`` does."""
    work = StepWork(chart, configuration, limits, frozenset(types))
    delayed = work.timers.pop(timer, None)
    if delayed is None:
        return work.result(is_heard=False)
    if delayed.send.type:
        work.sends.append(delayed.send)
        return work.result()
    return work.result(is_heard=_hear(work, delayed.send.event))


def _hear(work: StepWork, event: n.ChartEvent) -> bool:
    session = work.sessions.get(event.session or work.root)
    if session is None or session.finished:
        return False
    if event.invokeid and event.origin and addressed_session(event.origin) not in work.sessions:
        return False
    SessionRun(work, session).hear(msgspec.structs.replace(event, data=_plain(event.data, work)))
    return True


def _plain(data: Any, work: StepWork) -> Any:
    try:
        return stored(data, work.budget)
    except ExpressionFault as fault:
        raise InvalidRequest(f"the data of an event must be plain data: {fault}") from fault
