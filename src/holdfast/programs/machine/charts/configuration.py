"""Where a chart stands, and what a step of it gives: plain data that is the same after it was stored and read."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.journal import cbor
from holdfast.programs.machine.charts.chart import decoded

SCXML_PROCESSOR: Final = "http://www.w3.org/TR/scxml/#SCXMLEventProcessor"


class _Record(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    pass


class ChartEvent(_Record, frozen=True, kw_only=True, omit_defaults=False):
    """An event. ``session`` is whom it is for: nobody named is the chart itself, another is a chart that it invoked."""

    name: str
    data: Any = None
    type: str = "external"
    sendid: str = ""
    origin: str = ""
    origintype: str = ""
    invokeid: str = ""
    session: str = ""


class ChartSend(_Record, frozen=True, kw_only=True):
    """An event to deliver now. Without a ``type`` it is for this chart: hand it to ``step``, in the order given.

    With one, it is for ``target``, as the caller who declared that type understands it.
    """

    event: ChartEvent
    target: str = ""
    type: str = ""


class ChartTimer(_Record, frozen=True, kw_only=True):
    """A delayed event was begun: call ``fire`` with this id after the delay."""

    id: str
    delay_milliseconds: int


class DelayedSend(_Record, frozen=True, kw_only=True):
    """A delayed event that has not been sent. ``session`` is who sends it, and may cancel it by ``sendid``."""

    session: str
    sendid: str
    send: ChartSend


class ChartSession(_Record, frozen=True, kw_only=True):
    """One chart of a configuration. ``active`` are all active states in document order, ancestors too.

    ``bound`` are the states whose data was initialised, which late binding does when they are first entered. ``path``
    leads from the outermost chart to this one: position of a state and of an ``<invoke>`` in it, and so on.
    """

    id: str
    active: tuple[str, ...] = ()
    history: dict[str, tuple[str, ...]] = {}
    data: dict[str, Any] = {}
    bound: tuple[str, ...] = ()
    finished: bool = False
    parent: str = ""
    invokeid: str = ""
    path: tuple[int, ...] = ()


class ChartConfiguration(_Record, frozen=True, kw_only=True):
    """A chart at rest: its session, those of the charts that it invoked, and the delayed events.

    ``issued`` counts the ids that were given out. ``done_data`` is what a finished chart ended with.
    """

    root: str
    sessions: dict[str, ChartSession]
    timers: dict[str, DelayedSend] = {}
    issued: int = 0
    done_data: Any = None

    @property
    def active(self) -> tuple[str, ...]:
        """The chart's active states."""
        return self.sessions[self.root].active

    @property
    def data(self) -> dict[str, Any]:
        """The chart's variables."""
        return self.sessions[self.root].data

    @property
    def is_finished(self) -> bool:
        """Whether the chart has reached a final state of its own; events change nothing any more."""
        return self.sessions[self.root].finished


class ChartLog(_Record, frozen=True, kw_only=True):
    """A line that a ``<log>`` wrote."""

    session: str
    label: str
    value: Any
    line: int


class ChartError(_Record, frozen=True, kw_only=True):
    """An error event that was raised within the chart: its name, what was wrong, and the line.

    The message is for people: it may differ between versions of Python, so nothing should depend on it.
    """

    session: str
    name: str
    message: str
    line: int


class ChartResult(_Record, frozen=True, kw_only=True):
    """What a step gives. ``is_heard`` is False where nobody was there for the event or the timer was cancelled."""

    configuration: ChartConfiguration
    sends: tuple[ChartSend, ...] = ()
    timers: tuple[ChartTimer, ...] = ()
    cancelled: tuple[str, ...] = ()
    logs: tuple[ChartLog, ...] = ()
    errors: tuple[ChartError, ...] = ()
    is_heard: bool = True


class ChartLimits(_Record, frozen=True, kw_only=True):
    """What one event may cost: transitions taken one after the other, operations, and charts invoked at a time."""

    microsteps: int = 1_000
    cost: int = 200_000
    sessions: int = 64


def encode_configuration(configuration: ChartConfiguration) -> bytes:
    """A configuration's canonical form."""
    return cbor.canonical(msgspec.to_builtins(configuration))


def decode_configuration(data: bytes) -> ChartConfiguration:
    """Read a configuration. Raises ValueError where ``encode_configuration`` would not have written the bytes."""
    return decoded(data, ChartConfiguration)
