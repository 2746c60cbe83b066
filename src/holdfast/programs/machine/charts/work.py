"""A configuration while a step works on it, and all that the step gives out.

The step works on copies: a step that raises leaves nothing behind.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.errors import InvalidDefinition
from holdfast.programs.machine.charts import configuration as n
from holdfast.programs.machine.charts.chart import Chart
from holdfast.programs.machine.charts.expressions.values import Budget

TIMER_LIMIT: Final = 10_000


class StepWork:
    """What one step has done so far, in all sessions."""

    def __init__(
        self,
        chart: Chart,
        configuration: n.ChartConfiguration,
        limits: n.ChartLimits,
        types: frozenset[str],
    ) -> None:
        self.chart = chart
        self.types = types
        self.root = configuration.root
        self.sessions = dict(configuration.sessions)
        self.timers = dict(configuration.timers)
        self.issued = configuration.issued
        self.done_data = configuration.done_data
        self.budget = Budget(limits.cost)
        self.limits = limits
        self._microsteps = 0
        self.sends: list[n.ChartSend] = []
        self.begun: dict[str, n.ChartTimer] = {}
        self.cancelled: list[str] = []
        self.logs: list[n.ChartLog] = []
        self.errors: list[n.ChartError] = []

    def microstep(self) -> None:
        """Count a set of transitions that is taken. Raises InvalidDefinition where there are too many."""
        self._microsteps += 1
        if self._microsteps > self.limits.microsteps:
            raise InvalidDefinition(
                f"one event made the chart take more than {self.limits.microsteps:,} sets of transitions: look for "
                "transitions without an event, or raised events, that lead to each other for ever, or raise the limit"
            )

    def issue(self) -> str:
        """An id that was not given before."""
        self.issued += 1
        return str(self.issued)

    def children(self, session: str) -> list[n.ChartSession]:
        """The sessions that a session invoked, in the order of their ids."""
        return [self.sessions[id] for id in sorted(self.sessions) if self.sessions[id].parent == session]

    def begin_timer(self, delay_milliseconds: int, delayed: n.DelayedSend) -> None:
        """Keep a delayed event."""
        if len(self.timers) >= TIMER_LIMIT:
            raise InvalidDefinition(
                f"the chart has more than {TIMER_LIMIT:,} delayed events: cancel some, or send fewer"
            )
        id = self.issue()
        self.timers[id] = delayed
        self.begun[id] = n.ChartTimer(id=id, delay_milliseconds=delay_milliseconds)

    def cancel_timers(self, session: str, sendid: str | None = None) -> None:
        """Forget a session's delayed events: those of one id, or all."""
        for id in sorted(self.timers, key=int):
            delayed = self.timers[id]
            if delayed.session == session and sendid in (None, delayed.sendid):
                del self.timers[id]
                if self.begun.pop(id, None) is None:  # nobody outside has heard of one that began in this step
                    self.cancelled.append(id)

    def result(self, *, is_heard: bool = True) -> n.ChartResult:
        """What the step gives."""
        return n.ChartResult(
            configuration=n.ChartConfiguration(
                root=self.root,
                sessions=self.sessions,
                timers=self.timers,
                issued=self.issued,
                done_data=self.done_data,
            ),
            sends=tuple(self.sends),
            timers=tuple(self.begun.values()),
            cancelled=tuple(self.cancelled),
            logs=tuple(self.logs),
            errors=tuple(self.errors),
            is_heard=is_heard,
        )


def chart_at(chart: Chart, path: tuple[int, ...]) -> Chart:
    """The chart of a session: the outermost, or one that an ``<invoke>`` in it holds."""
    for state, invoke in zip(path[::2], path[1::2], strict=True):
        found = chart.states[state].invokes[invoke].chart
        assert found is not None  # only an invoke with a chart makes a session
        chart = found
    return chart


def event_data(event: n.ChartEvent) -> dict[str, Any]:
    """An event as expressions see it."""
    return {
        "name": event.name,
        "type": event.type,
        "sendid": event.sendid or None,
        "origin": event.origin or None,
        "origintype": event.origintype or None,
        "invokeid": event.invokeid or None,
        "data": event.data,
    }
