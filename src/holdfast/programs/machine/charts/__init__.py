"""SCXML charts: read, described, begun and stepped by pure functions over plain data.

::

    chart = parse(text, "order.scxml", read_file)     # raises InvalidDefinition: every fault with its line
    describe(chart)                                   # what is not supported here, by line
    result = begin(chart, "order/17", {"cents": 500})
    result = step(chart, result.configuration, ChartEvent(name="paid", data={"by": "card"}))
    result = fire(chart, result.configuration, timer) # a delay of ``result.timers`` is over

The caller keeps ``result.configuration`` (``encode_configuration``, ``decode_configuration``), hands each of
``result.sends`` to ``step`` in the order given, or to whom its ``type`` says; calls ``fire`` after the delay of each of
``result.timers`` that no later ``result.cancelled`` names; and keeps the chart by ``Chart.digest`` (``encode_chart``,
``decode_chart``). Equal arguments give equal results: there is no clock and no chance, and a stored configuration steps
like the one in memory.

The interpreter is the algorithm of the W3C Recommendation, appendix D, with the data models ``python`` (a subset: see
``expressions/``), ``null``, and simple expressions of ``ecmascript``. An ``<invoke>`` runs a chart that the document or
a file beside it holds. Whatever else an ``<invoke>`` names, the HTTP processor, and functions kept in variables are not
supported. Values are copied when they are assigned. One event costs at most ``ChartLimits``; a chart that goes on for
ever ends in InvalidDefinition, and its configuration stays what it was.

Nothing here may do I/O, or know a store, a worker or a machine.
"""

from holdfast.programs.machine.charts.chart import Chart, ChartNote
from holdfast.programs.machine.charts.chart import decode as decode_chart
from holdfast.programs.machine.charts.chart import encode as encode_chart
from holdfast.programs.machine.charts.configuration import (
    ChartConfiguration,
    ChartEvent,
    ChartLimits,
    ChartResult,
    ChartSend,
    ChartTimer,
    decode_configuration,
    encode_configuration,
)
from holdfast.programs.machine.charts.description import describe
from holdfast.programs.machine.charts.interpreter import begin, fire, step
from holdfast.programs.machine.charts.reader import parse

__all__ = [
    "Chart",
    "ChartConfiguration",
    "ChartEvent",
    "ChartLimits",
    "ChartNote",
    "ChartResult",
    "ChartSend",
    "ChartTimer",
    "begin",
    "decode_chart",
    "decode_configuration",
    "describe",
    "encode_chart",
    "encode_configuration",
    "fire",
    "parse",
    "step",
]
