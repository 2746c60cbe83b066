"""An SCXML chart as a machine: each key has a session of the chart, and its state is the chart's configuration.

::

    order = machine_of_scxml(Path("order.scxml").read_text(), name="order")
    await app.emit(order.event("o1", "placed", {"cents": 500}))

The chart is entered with the first event for a key. An event without a name only enters it, and its data replaces the
first values of the chart's variables. What the chart sends to itself stays inside the turn; a delayed event is a timer
of the cell; a ``<send type="holdfast">`` is emitted as an event of the type ``order.sent``, to whoever hears that. A
chart that reaches its final state completes its cell.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidDefinition, InvalidRequest
from holdfast.programs.machine import charts
from holdfast.programs.machine.charts.expressions.dialect import Datamodel
from holdfast.programs.machine.handle import Cell
from holdfast.programs.machine.machine import LANES, MACHINES, Machine
from holdfast.programs.machine.manifest import MachineLimits
from holdfast.programs.machine.schemas import schema

SEND_TYPE: Final = "holdfast"
"""The type of a ``<send>`` whose event is emitted."""

_TYPES: Final = frozenset({SEND_TYPE})
_DELIVERIES: Final = 1000
"""So many events a chart may send itself, one leading to the other, while one event is handled."""


class ChartMachine(Machine[Any]):
    """The machine of a chart.

    ``told`` is the type of its events, ``sent`` the type of those that it emits: the key of the cell that sends, the
    target, the name and the data.
    """

    def __init__(self, chart: charts.Chart, name: str, lanes: int = LANES) -> None:
        self.chart = chart
        self.told = _record(f"{name}/Event@1", key=str, name=str, data=Any)
        self.sent = _record(f"{name}/Sent@1", key=str, target=str, name=str, data=Any)
        self._timed = _record(f"{name}/Timer@1", key=str, timer=str)
        self._rests = _record(f"{name}/Chart@1", active=tuple[str, ...], configuration=bytes)
        super().__init__(
            self._handler(name),
            name=name,
            key={self.told: "key"},
            effects=(),
            emits=(self.sent,),
            version=1,
            lanes=lanes,
            limits=MachineLimits(),
            migrate=None,
            digest=chart.digest.hex(),
        )

    def event(self, key: str, name: str = "", data: Any = None) -> Any:
        """An event for the chart of this key; without a name it only enters the chart, with ``data`` as variables."""
        return self.told(key, name, data)

    def configuration(self, state: Any) -> charts.ChartConfiguration:
        """Where the chart stands: its active states, and its variables. Raises InvalidRequest where it has no state."""
        if state is None:
            raise InvalidRequest(f"the chart {self.name} was not entered for this key: send it an event")
        return charts.decode_configuration(state.configuration)

    def _handler(self, name: str) -> Any:
        def handler(state: Any, event: Any, cell: Cell) -> Any:
            return self._handle(state, event, cell)

        handler.__name__ = handler.__qualname__ = name
        handler.__module__ = f"scxml:{self.chart.digest.hex()}"  # so another chart of this name is another machine
        handler.__doc__ = f"The chart {self.chart.name or name}."
        kinds = {"state": self._rests | None, "event": self.told | self._timed, "cell": Cell, "return": Any}
        handler.__annotations__ = kinds
        return handler

    def _handle(self, state: Any, event: Any, cell: Cell) -> Any:
        is_timer = type(event) is self._timed
        if state is None and is_timer:  # of a chart that was deleted
            return None
        turn = _ChartTurn(self, cell)
        if state is None:
            turn.take(charts.begin(self.chart, f"{self.name}/{cell.key}", _variables(event), types=_TYPES))
            turn.deliver()
        else:
            turn.configuration = self.configuration(state)
        if is_timer:
            turn.take(charts.fire(self.chart, turn.configuration, event.timer, types=_TYPES))
        elif event.name:
            turn.waiting.append(charts.ChartEvent(name=event.name, data=event.data))
        turn.deliver()
        if turn.configuration.is_finished:
            cell.complete()
        return self._rests(turn.configuration.active, charts.encode_configuration(turn.configuration))

    def timer(self, key: str, id: str) -> Any:
        """The event that comes when a delay of the chart is over."""
        return self._timed(key, id)


class _ChartTurn:
    """One event of one cell: what the chart sends is delivered to itself, emitted, or timed."""

    configuration: charts.ChartConfiguration

    def __init__(self, machine: ChartMachine, cell: Cell) -> None:
        self._machine = machine
        self._cell = cell
        self._delivered = 0
        self.waiting: deque[charts.ChartEvent] = deque()

    def take(self, result: charts.ChartResult) -> None:
        """Keep what a step gave, and hand on what it sends."""
        machine, cell = self._machine, self._cell
        self.configuration = result.configuration
        for send in result.sends:
            if send.type:
                cell.emit(machine.sent(cell.key, send.target, send.event.name, send.event.data))
            else:
                self.waiting.append(send.event)
        for timer in result.timers:
            cell.send(machine.timer(cell.key, timer.id), after=timedelta(milliseconds=timer.delay_milliseconds))
        if result.errors:
            cell.annotate([f"{each.name} in line {each.line}: {each.message}" for each in result.errors])

    def deliver(self) -> None:
        """Deliver what the chart sends to itself, until nothing more is. Raises InvalidDefinition if it never ends."""
        while self.waiting:
            self._delivered += 1
            if self._delivered > _DELIVERIES:
                raise InvalidDefinition(
                    f"one event made the chart send itself more than {_DELIVERIES:,} events: look for events that lead "
                    "to each other for ever, or give them a delay"
                )
            event = self.waiting.popleft()
            self.take(charts.step(self._machine.chart, self.configuration, event, types=_TYPES))


def machine_of_chart(
    chart: charts.Chart, *, name: str | None = None, lanes: int = LANES, register: bool = True
) -> ChartMachine:
    """The machine of a chart. By default it is known to all engines of the process, like a decorated one.

    Raises InvalidDefinition for a chart with a part that is not supported, and InvalidFunction for a name that cannot
    be one of schemas.
    """
    faults = [note for note in charts.describe(chart, _TYPES) if note.unsupported]
    if faults:
        lines = "; ".join(f"line {note.line}: {note.message}" for note in faults)
        raise InvalidDefinition(f"the chart has parts that are not supported: {lines}")
    chosen = name or chart.name
    if not chosen:
        raise InvalidRequest("the chart has no name: give name=, by which its cells are found")
    made = ChartMachine(chart, chosen, lanes)
    if register:
        MACHINES.add(made)
    return made


def machine_of_scxml(
    text: str,
    *,
    name: str | None = None,
    file: str = "chart.scxml",
    files: Mapping[str, str] | None = None,
    datamodel: Datamodel = "python",
) -> ChartMachine:
    """The machine of an SCXML document. ``files`` are the texts of files that it names.

    Raises InvalidDefinition with every fault and its line, else as ``machine_of_chart``.
    """
    known = files or {}

    def read(path: str) -> str:
        if path not in known:
            raise FileNotFoundError(path)
        return known[path]

    return machine_of_chart(charts.parse(text, file, read, datamodel=datamodel), name=name)


def _record(name: str, /, **fields: Any) -> Any:
    """A type of events or states of one machine, with that schema."""
    optional = {Any: None}
    described = [(field, kind, optional[kind]) if kind in optional else (field, kind) for field, kind in fields.items()]
    made = msgspec.defstruct(name.partition("/")[2].partition("@")[0], described, frozen=True)
    return schema(name)(made)


def _variables(event: Any) -> Any:
    return event.data if not event.name else None
