"""One session while it handles one event: the W3C algorithm's loops (appendix D), from rest to rest.

An event comes in, transitions are taken until none is enabled and the internal queue is empty, then the charts of newly
entered states are invoked. The sets of states come from ``selection``, content is run by ``content_runner``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.errors import InvalidDefinition
from holdfast.programs.machine.charts import chart as c
from holdfast.programs.machine.charts import configuration as n
from holdfast.programs.machine.charts import selection
from holdfast.programs.machine.charts.content_runner import ContentRunner
from holdfast.programs.machine.charts.expressions.evaluator import Evaluator
from holdfast.programs.machine.charts.expressions.script import assign
from holdfast.programs.machine.charts.expressions.values import Budget, ExpressionFault, stored
from holdfast.programs.machine.charts.reader import SCXML_INVOKE_TYPES
from holdfast.programs.machine.charts.sender import ContentFault, Sender, addressed_session, session_address
from holdfast.programs.machine.charts.structure import ROOT, PlacedTransition, structure_of
from holdfast.programs.machine.charts.work import StepWork, chart_at, event_data


class SessionRun:
    """A session being worked on. Its stored form changes when ``close`` writes it back."""

    def __init__(self, work: StepWork, session: n.ChartSession) -> None:
        self._work = work
        self._session = session
        self._structure = structure_of(chart_at(work.chart, session.path))
        positions = self._structure.positions
        self._active = {positions[id] for id in session.active}
        self._history = {positions[id]: self._structure.of(kept) for id, kept in session.history.items()}
        self._bound = {positions[id] for id in session.bound}
        self._queue: deque[n.ChartEvent] = deque()
        self._to_invoke: set[int] = set()
        self._is_running = not session.finished
        self._data: dict[str, Any] = stored(session.data, Budget(_UNLIMITED))
        location = {"location": session_address(session.id)}
        self._system: dict[str, Any] = {
            "_event": None,
            "_name": self._structure.chart.name,
            "_sessionid": session.id,
            "_ioprocessors": {n.SCXML_PROCESSOR: location, "scxml": location},
        }
        evaluator = Evaluator(self._structure.chart.datamodel, self._data, self._system, self._in, work.budget)
        self._evaluator = evaluator
        self._sender = Sender(session, work, evaluator, self._queue.append)
        self._runner = ContentRunner(session.id, work, evaluator, self._sender, self._queue.append)

    def _in(self, state: str) -> bool:
        return self._structure.positions.get(state) in self._active

    def begin(self, given: Mapping[str, Any]) -> None:
        """Enter the chart. ``given`` replaces the first values of variables that the document itself declares."""
        chart = self._structure.chart
        if chart.late_binding:
            self._data.update({item.id: None for state in chart.states for item in state.data})
            self._bind(ROOT, given)
        else:
            for position in range(len(chart.states)):
                self._bind(position, given if position == ROOT else {})
        if chart.script is not None:
            self._runner.run((chart.script,))
        initial = self._structure.initials[ROOT]
        assert initial is not None  # the reader refuses a document without states
        self._runner.run(initial.transition.content)
        self._enter([initial])
        self._settle()

    def _bind(self, position: int, given: Mapping[str, Any]) -> None:
        """Initialise the variables of a state, the first time only."""
        if position in self._bound:
            return
        self._bound.add(position)
        for item in self._structure.states[position].data:
            self._data[item.id] = None
            try:
                if item.id in given:
                    self._data[item.id] = stored(given[item.id], self._work.budget)
                else:
                    self._data[item.id] = self._runner.value(item.value)
            except ExpressionFault as fault:
                self._runner.fail(f"<data id={item.id!r}>: {fault}", item.line)

    def hear(self, event: n.ChartEvent) -> None:
        """Handle an event from outside."""
        self._system["_event"] = event_data(event)
        self._finalize(event)
        for child in self._work.children(self._session.id):
            if self._invoke_of(child).autoforward and not child.finished:
                self._work.sends.append(n.ChartSend(event=msgspec.structs.replace(event, session=child.id)))
        if event.invokeid and event.name == f"done.invoke.{event.invokeid}":
            self._work.sessions.pop(addressed_session(event.origin), None)
        self._take(self._enabled(event.name))
        self._settle()

    def _settle(self) -> None:
        """Go on until nothing is left to do but wait; then write the session back."""
        while self._is_running:
            taken = self._enabled(None)
            if not taken and self._queue:
                event = self._queue.popleft()
                self._system["_event"] = event_data(event)
                taken = self._enabled(event.name)
                self._work.budget.spend()
            elif not taken:
                self._invoke_all()
                if not self._queue:
                    break
            self._take(taken)
        if not self._is_running:
            self._finish()
        self._close()

    def _enabled(self, event: str | None) -> list[PlacedTransition]:
        return selection.enabled(self._structure, self._active, self._history, event, self._holds)

    def _holds(self, placed: PlacedTransition) -> bool:
        self._work.budget.spend()
        condition = placed.transition.condition
        return condition is None or self._runner.holds(condition, placed.transition.line)

    def _take(self, taken: list[PlacedTransition]) -> None:
        """One microstep: leave, do, enter."""
        if not taken:
            return
        self._work.microstep()
        left: set[int] = set()
        for placed in taken:
            left |= selection.exits(self._structure, self._active, self._history, placed)
        self._remember(left)
        self._leave(left)
        for placed in taken:
            self._runner.run(placed.transition.content)
        self._enter(taken)

    def _remember(self, left: set[int]) -> None:
        structure = self._structure
        for position in left:
            for history in structure.histories[position]:
                is_deep = structure.states[history].kind == "deep"
                self._history[history] = tuple(
                    each
                    for each in sorted(self._active)
                    if (is_deep and structure.is_atomic(each) and structure.is_descendant(each, position))
                    or (not is_deep and structure.states[each].parent == position)
                )

    def _leave(self, left: set[int]) -> None:
        for position in sorted(left, reverse=True):
            self._to_invoke.discard(position)
            for block in self._structure.states[position].on_exit:
                self._runner.run(block)
            self._cancel_invoked(position)
            self._active.discard(position)

    def _enter(self, taken: list[PlacedTransition]) -> None:
        structure = self._structure
        entry = selection.entries(structure, self._history, taken)
        for position in sorted(entry.states):
            state = structure.states[position]
            self._active.add(position)
            self._to_invoke.add(position)
            self._bind(position, {})
            for block in state.on_entry:
                self._runner.run(block)
            initial = structure.initials[position]
            if position in entry.by_default and initial is not None:
                self._runner.run(initial.transition.content)
            self._runner.run(entry.history_content.get(position, ()))
            if state.kind == "final":
                self._reach_final(position)

    def _reach_final(self, position: int) -> None:
        parent = self._structure.states[position].parent
        if parent == ROOT:
            self._is_running = False
            return
        data = self._runner.done_data(self._structure.states[position].done_data)
        self._done(parent, data)
        above = self._structure.states[parent].parent
        if self._structure.states[above].kind == "parallel" and self._is_final(above):
            self._done(above, None)

    def _done(self, position: int, data: Any) -> None:
        name = f"done.state.{self._structure.states[position].id}"
        self._queue.append(n.ChartEvent(name=name, type="platform", data=data))

    def _is_final(self, position: int) -> bool:
        structure = self._structure
        if structure.states[position].kind == "parallel":
            return all(self._is_final(child) for child in structure.children[position])
        finals = [each for each in structure.children[position] if structure.states[each].kind == "final"]
        return any(each in self._active for each in finals)

    def _finish(self) -> None:
        """Leave all states, and tell the session that invoked this one."""
        data: Any = None
        for position in sorted(self._active, reverse=True):
            state = self._structure.states[position]
            for block in state.on_exit:
                self._runner.run(block)
            self._cancel_invoked(position)
            if state.kind == "final" and state.parent == ROOT:
                data = self._runner.done_data(state.done_data)
        self._work.cancel_timers(self._session.id)
        for child in self._work.children(self._session.id):  # finished ones, of whom nobody will hear
            del self._work.sessions[child.id]
        if self._session.parent and not self._sender.is_cancelled:
            self._tell_parent(data)
        elif not self._session.parent:
            self._work.done_data = data

    def _tell_parent(self, data: Any) -> None:
        own = self._session
        event = n.ChartEvent(
            name=f"done.invoke.{own.invokeid}",
            data=data,
            origin=session_address(own.id),
            origintype=n.SCXML_PROCESSOR,
            invokeid=own.invokeid,
            session=own.parent,
        )
        self._work.sends.append(n.ChartSend(event=event))

    def _close(self) -> None:
        try:
            data = stored(self._data, Budget(_UNLIMITED))
        except ExpressionFault as fault:
            raise InvalidDefinition(f"the chart's variables cannot be kept: {fault}") from fault
        ids = [state.id for state in self._structure.states]
        self._work.sessions[self._session.id] = msgspec.structs.replace(
            self._session,
            active=tuple(ids[position] for position in sorted(self._active)),
            history={ids[each]: tuple(ids[kept] for kept in self._history[each]) for each in sorted(self._history)},
            bound=tuple(ids[position] for position in sorted(self._bound)) if self._is_late else (),
            data=data,
            finished=not self._is_running,
        )

    @property
    def _is_late(self) -> bool:
        return self._structure.chart.late_binding

    def stop(self) -> None:
        """End the session because the state that invoked it was left: its parent hears nothing of it."""
        self._sender.is_cancelled = True
        if self._is_running:
            self._finish()
        self._work.sessions.pop(self._session.id)

    def _invoke_all(self) -> None:
        for position in sorted(self._to_invoke):
            for number, invoke in enumerate(self._structure.states[position].invokes):
                try:
                    self._invoke(position, number, invoke)
                except ExpressionFault as fault:
                    self._runner.fail(f"<invoke>: {fault}", invoke.line)
                except ContentFault as fault:
                    self._runner.fail(f"<invoke>: {fault}", invoke.line, fault.name)
        self._to_invoke.clear()

    def _invoke(self, position: int, number: int, invoke: c.ChartInvoke) -> None:
        type = invoke.type
        if invoke.type_expression is not None:
            type = str(self._evaluator.evaluate(invoke.type_expression))
        if type not in SCXML_INVOKE_TYPES:
            raise ExpressionFault(f"nothing is invoked by type {type!r}")
        if invoke.chart is None:
            raise ContentFault("error.communication", f"no chart is invoked from {invoke.source}")
        given = self._sender.named(invoke.names, invoke.params)
        work = self._work
        issued = work.issue()
        invokeid = invoke.id or f"{self._structure.states[position].id}.{issued}"
        if invoke.id_location is not None:
            assign(self._evaluator, invoke.id_location, invokeid)
        if len(work.sessions) >= work.limits.sessions:
            raise InvalidDefinition(f"the chart invokes more than {work.limits.sessions} charts at a time")
        session = n.ChartSession(
            id=f"{work.root}.{issued}",
            parent=self._session.id,
            invokeid=invokeid,
            path=(*self._session.path, position, number),
        )
        work.sessions[session.id] = session
        SessionRun(work, session).begin(given)

    def _invoke_of(self, child: n.ChartSession) -> c.ChartInvoke:
        position, number = child.path[-2:]
        return self._structure.states[position].invokes[number]

    def _cancel_invoked(self, position: int) -> None:
        for child in self._work.children(self._session.id):
            if child.path[-2] == position and not child.finished:  # of a finished one, the end is still to be heard
                SessionRun(self._work, child).stop()

    def _finalize(self, event: n.ChartEvent) -> None:
        """Run what an ``<invoke>`` does with the events of its chart, before transitions see them."""
        child = self._work.sessions.get(addressed_session(event.origin)) if event.invokeid else None
        if child is None or child.parent != self._session.id:
            return
        invoke = self._invoke_of(child)
        if invoke.finalize:
            self._runner.run(invoke.finalize)
        elif invoke.finalize is not None and isinstance(event.data, dict):
            self._take_over(invoke, event.data)

    def _take_over(self, invoke: c.ChartInvoke, data: Mapping[str, Any]) -> None:
        """An empty ``<finalize>``: what was passed is brought up to date from the event."""
        places = [(name, name) for name in invoke.names]
        places += [(param.name, param.location) for param in invoke.params if param.location is not None]
        for name, location in places:
            if name in data:
                try:
                    assign(self._evaluator, location, data[name])
                except ExpressionFault as fault:
                    self._runner.fail(f"<finalize>: {fault}", invoke.line)


_UNLIMITED = 1 << 62
