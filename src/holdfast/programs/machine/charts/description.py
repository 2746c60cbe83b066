"""Says what of a chart will not work here, with its lines: for whoever imports one."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from holdfast.programs.machine.charts import chart as c
from holdfast.programs.machine.charts.expressions.check import expression_fault, script_fault
from holdfast.programs.machine.charts.reader import SCXML_INVOKE_TYPES
from holdfast.programs.machine.charts.sender import SCXML_TYPES


def describe(chart: c.Chart, types: frozenset[str] = frozenset()) -> tuple[c.ChartNote, ...]:
    """What is not supported, or looks like a mistake, by line. Charts in ``<invoke>`` are included.

    ``types`` are those of a ``<send>`` that the caller delivers. An unsupported part does nothing but raise
    ``error.execution`` or ``error.communication`` within the chart when it is reached.
    """
    return tuple(sorted(_Description(chart, types).notes(), key=lambda note: note.line))


class _Description:
    def __init__(self, chart: c.Chart, types: frozenset[str]) -> None:
        self._chart = chart
        self._types = types

    def notes(self) -> Iterator[c.ChartNote]:
        yield from self._chart.notes
        if self._chart.script is not None:
            yield from self._content(self._chart.script)
        for state in self._chart.states:
            yield from self._state(state)

    def _state(self, state: c.ChartState) -> Iterator[c.ChartNote]:
        for item in state.data:
            yield from self._value(item.value)
        for transition in (*state.transitions, *((state.initial,) if state.initial else ())):
            yield from self._expressions(transition.line, transition.condition)
            yield from self._block(transition.content)
        for block in (*state.on_entry, *state.on_exit):
            yield from self._block(block)
        if state.done_data is not None:
            yield from self._params(state.done_data.params)
            yield from self._value(state.done_data.content)
        for invoke in state.invokes:
            yield from self._invoke(invoke)

    def _invoke(self, invoke: c.ChartInvoke) -> Iterator[c.ChartNote]:
        if invoke.type not in SCXML_INVOKE_TYPES:
            yield _unsupported(invoke.line, f"<invoke> of type {invoke.type!r}: only SCXML is invoked")
        elif invoke.chart is None:
            yield _unsupported(
                invoke.line, f"<invoke> from {invoke.source}: write the chart into <content>, or give src"
            )
        else:
            for note in _Description(invoke.chart, self._types).notes():
                if invoke.source:  # a file of its own, whose lines mean nothing here
                    message = f"{invoke.source}:{note.line}: {note.message}"
                    note = msgspec.structs.replace(note, line=invoke.line, message=message)
                yield note
        yield from self._expressions(invoke.line, invoke.type_expression, *invoke.names)
        yield from self._params(invoke.params)
        yield from self._block(invoke.finalize or ())

    def _block(self, block: c.Block) -> Iterator[c.ChartNote]:
        for content in block:
            yield from self._content(content)

    def _content(self, content: c.Content) -> Iterator[c.ChartNote]:
        match content:
            case c.IfContent():
                for branch in content.branches:
                    yield from self._expressions(branch.line, branch.condition)
                    yield from self._block(branch.content)
            case c.ForeachContent():
                yield from self._expressions(content.line, content.array)
                yield from self._block(content.content)
            case c.LogContent():
                yield from self._expressions(content.line, content.expression)
            case c.AssignContent():
                yield from self._expressions(content.line, content.location)
                yield from self._value(content.value)
            case c.ScriptContent():
                yield from self._found(content.line, script_fault(content.text, self._chart.datamodel), "<script>")
            case c.SendContent():
                yield from self._send(content)
            case c.CancelContent():
                yield from self._expressions(content.line, content.id_expression)
            case c.RaiseContent():
                pass

    def _send(self, content: c.SendContent) -> Iterator[c.ChartNote]:
        if content.type not in SCXML_TYPES and content.type not in self._types:
            yield _unsupported(content.line, f"<send> by type {content.type!r}: only SCXML's own processor is known")
        yield from self._expressions(
            content.line,
            content.event_expression,
            content.target_expression,
            content.type_expression,
            content.delay_expression,
            content.id_location,
            *content.names,
        )
        yield from self._params(content.params)
        yield from self._value(content.content)

    def _params(self, params: tuple[c.ChartParam, ...]) -> Iterator[c.ChartNote]:
        for param in params:
            yield from self._expressions(param.line, param.expression, param.location)

    def _value(self, value: c.ChartValue | None) -> Iterator[c.ChartNote]:
        if value is not None:
            yield from self._expressions(value.line, value.expression)

    def _expressions(self, line: int, *texts: str | None) -> Iterator[c.ChartNote]:
        for text in texts:
            if text is not None:
                yield from self._found(line, expression_fault(text, self._chart.datamodel), repr(text))

    def _found(self, line: int, wrong: str, what: str) -> Iterator[c.ChartNote]:
        if not wrong:
            return
        if self._chart.datamodel == "ecmascript":
            wrong = f"{wrong} (of ECMAScript, only simple expressions are read: write it for datamodel='python')"
        yield _unsupported(line, f"{what}: {wrong}")


def _unsupported(line: int, message: str) -> c.ChartNote:
    return c.ChartNote(line=line, message=message, unsupported=True)
