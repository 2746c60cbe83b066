"""Drives a chart in virtual time: delivers what it sends to itself, and its delayed events when they are due."""

from __future__ import annotations

import heapq
from collections import deque
from typing import Any

from holdfast.programs.machine.charts import Chart, ChartConfiguration, ChartEvent, ChartResult, begin, fire, step
from holdfast.programs.machine.charts.configuration import ChartError, ChartLog
from holdfast.programs.machine.charts.structure import Structure, structure_of


class ChartDriver:
    """A chart that has been entered. Nothing that it sent is delivered before ``deliver`` or ``pass_time``."""

    def __init__(self, chart: Chart, data: dict[str, Any] | None = None) -> None:
        self.chart = chart
        self.now = 0
        self.logs: list[ChartLog] = []
        self.errors: list[ChartError] = []
        self._sent: deque[ChartEvent] = deque()
        self._timers: list[tuple[int, int]] = []
        self.configuration: ChartConfiguration = self._take(begin(chart, "session", data))

    def _take(self, result: ChartResult) -> ChartConfiguration:
        self.configuration = result.configuration
        self.logs.extend(result.logs)
        self.errors.extend(result.errors)
        self._sent.extend(send.event for send in result.sends)
        for timer in result.timers:
            heapq.heappush(self._timers, (self.now + timer.delay_milliseconds, int(timer.id)))
        return result.configuration

    def deliver(self) -> None:
        """Deliver what was sent, until nothing more is."""
        while self._sent:
            self._take(step(self.chart, self.configuration, self._sent.popleft()))

    def send(self, name: str, data: Any = None) -> None:
        """Tell the chart an event."""
        self._take(step(self.chart, self.configuration, ChartEvent(name=name, data=data)))
        self.deliver()

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass. Cancelled timers are fired too: nobody hears them."""
        end = self.now + milliseconds
        self.deliver()
        while self._timers and self._timers[0][0] <= end:
            self.now, timer = heapq.heappop(self._timers)
            self._take(fire(self.chart, self.configuration, str(timer)))
            self.deliver()
        self.now = end

    @property
    def atomic(self) -> list[str]:
        """The active states that have no active children."""
        structure = structure_of(self.chart)
        return sorted(id for id in self.configuration.active if structure.is_atomic(structure.positions[id]))


def illegal(structure: Structure, active: tuple[str, ...]) -> list[str]:
    """What is wrong with a set of active states: nothing, if a chart can rest there."""
    positions = {structure.positions[id] for id in active}
    found = [
        f"{structure.states[each].id} is no state" for each in positions if structure.is_history(each) or each == 0
    ]
    for position in {0, *positions}:
        state, children = structure.states[position], structure.children[position]
        count = len(positions.intersection(children))
        wanted = len(children) if state.kind == "parallel" else min(len(children), 1)
        if count != wanted:
            found.append(f"{state.id} has {count} active children, not {wanted}")
        if state.parent > 0 and state.parent not in positions:
            found.append(f"{state.id} is active without its parent")
    return found
