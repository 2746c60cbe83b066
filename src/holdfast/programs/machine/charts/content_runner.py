"""Runs executable content in one session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never

from holdfast.programs.machine.charts import chart as c
from holdfast.programs.machine.charts import configuration as n
from holdfast.programs.machine.charts.expressions.evaluator import Evaluator
from holdfast.programs.machine.charts.expressions.script import assign, declare, run_script
from holdfast.programs.machine.charts.expressions.values import ExpressionFault, stored
from holdfast.programs.machine.charts.sender import ContentFault, Sender
from holdfast.programs.machine.charts.work import StepWork


class ContentRunner:
    """Runs blocks of content: raised events go to ``enqueue``, sent ones through the sender."""

    def __init__(
        self,
        session: str,
        work: StepWork,
        evaluator: Evaluator,
        sender: Sender,
        enqueue: Callable[[n.ChartEvent], None],
    ) -> None:
        self._session = session
        self._work = work
        self._evaluator = evaluator
        self._sender = sender
        self._enqueue = enqueue

    def fail(self, message: str, line: int, name: str = "error.execution", sendid: str = "") -> None:
        """Raise an error event within the chart.

        The chart sees the line and no message: versions of Python word theirs differently, and a replay must not.
        """
        self._work.errors.append(n.ChartError(session=self._session, name=name, message=message, line=line))
        self._enqueue(n.ChartEvent(name=name, type="platform", sendid=sendid, data={"line": line}))

    def run(self, block: c.Block) -> None:
        """Run a block up to the first content that fails."""
        for content in block:
            try:
                self._content(content)
            except _Failed:
                return

    def _content(self, content: c.Content) -> None:
        """Run one piece of content. Raises _Failed once its error event was raised."""
        self._work.budget.spend()
        try:
            self._act(content)
        except ContentFault as fault:
            self.fail(str(fault), content.line, fault.name, fault.sendid)
            raise _Failed from None
        except ExpressionFault as fault:
            self.fail(str(fault), content.line)
            raise _Failed from None

    def _act(self, content: c.Content) -> None:
        evaluator = self._evaluator
        match content:
            case c.RaiseContent():
                self._enqueue(n.ChartEvent(name=content.event, type="internal"))
            case c.IfContent():
                self._if(content)
            case c.ForeachContent():
                self._foreach(content)
            case c.LogContent():
                value = None if content.expression is None else evaluator.evaluate(content.expression)
                entry = n.ChartLog(session=self._session, label=content.label, value=value, line=content.line)
                self._work.logs.append(entry)
            case c.AssignContent():
                assign(evaluator, content.location, self.value(content.value))
            case c.ScriptContent():
                run_script(evaluator, content.text)
            case c.SendContent():
                self._sender.send(content)
            case c.CancelContent():
                id = content.id if content.id_expression is None else evaluator.evaluate(content.id_expression)
                self._work.cancel_timers(self._session, str(id))
            case _:
                assert_never(content)

    def _if(self, content: c.IfContent) -> None:
        for branch in content.branches:
            if branch.condition is None or self.holds(branch.condition, branch.line):
                for each in branch.content:
                    self._content(each)
                return

    def holds(self, condition: str, line: int) -> bool:
        """Whether a condition holds. One that cannot be evaluated does not, and raises an error event."""
        try:
            return self._evaluator.is_true(condition)
        except ExpressionFault as fault:
            self.fail(f"cond={condition!r}: {fault}", line)
            return False

    def _foreach(self, content: c.ForeachContent) -> None:
        items = self._evaluator.evaluate(content.array)
        if not isinstance(items, list):
            raise ExpressionFault(f"foreach goes through a list, not a {type(items).__name__}")
        if not items:  # the names must be declared all the same
            declare(self._evaluator, content.item, None)
        for index, item in enumerate(items):
            declare(self._evaluator, content.item, item)
            if content.index is not None:
                declare(self._evaluator, content.index, index)
            for each in content.content:
                self._content(each)

    def value(self, value: c.ChartValue) -> Any:
        """A value that the chart gives. Raises ExpressionFault."""
        if value.expression is not None:
            return self._evaluator.evaluate(value.expression)
        return stored(value.data, self._work.budget)

    def done_data(self, done: c.DoneData | None) -> Any:
        """What a final state tells. What cannot be evaluated is left out, and raises error events."""
        if done is None:
            return None
        if done.content is not None:
            try:
                return self.value(done.content)
            except ExpressionFault as fault:
                self.fail(str(fault), done.content.line)
                return None
        found: dict[str, Any] = {}
        for param in done.params:
            try:
                found[param.name] = self._sender.param(param)
            except ExpressionFault as fault:
                self.fail(str(fault), param.line)
        return found or None


class _Failed(Exception):  # ends the block whose content failed; its error event has been raised
    pass
