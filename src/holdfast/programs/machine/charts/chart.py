"""A chart as data: the states of an SCXML document in document order, and what they do.

A chart is frozen and has one canonical form, so that it can be kept by its digest. Line numbers are part of it: a fault
in a running chart names the line. States refer to each other by position, transitions to their targets by id.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal, TypeVar

import cbor2
import msgspec

from holdfast.journal import cbor
from holdfast.programs.machine.charts.expressions.dialect import Datamodel

T = TypeVar("T", bound=msgspec.Struct)

StateKind = Literal["root", "state", "parallel", "final", "shallow", "deep"]
"""``shallow`` and ``deep`` are histories; ``root`` is the document itself."""


class _Part(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """Only empty texts and lists, 0, False and None are defaults: msgspec leaves out no others reliably, since it tells
    a default by identity."""

    line: int = 0


class ChartValue(_Part, frozen=True, kw_only=True):
    """A value: an expression that gives it, or the data itself."""

    expression: str | None = None
    data: Any = None


class ChartParam(_Part, frozen=True, kw_only=True):
    """A named value, given by an expression or taken from a location."""

    name: str
    expression: str | None = None
    location: str | None = None


class RaiseContent(_Part, frozen=True, kw_only=True, tag_field="do", tag="raise"):
    """Puts an event into the internal queue."""

    event: str


class IfBranch(_Part, frozen=True, kw_only=True):
    """A branch of an ``<if>``; the one without a condition is the ``<else>``."""

    condition: str | None
    content: tuple[Content, ...]


class IfContent(_Part, frozen=True, kw_only=True, tag_field="do", tag="if"):
    """The first branch whose condition holds."""

    branches: tuple[IfBranch, ...]


class ForeachContent(_Part, frozen=True, kw_only=True, tag_field="do", tag="foreach"):
    """Its content for each item of a list."""

    array: str
    item: str
    index: str | None
    content: tuple[Content, ...]


class LogContent(_Part, frozen=True, kw_only=True, tag_field="do", tag="log"):
    """A line for the log."""

    label: str = ""
    expression: str | None = None


class AssignContent(_Part, frozen=True, kw_only=True, tag_field="do", tag="assign"):
    """A value for a location."""

    location: str
    value: ChartValue


class ScriptContent(_Part, frozen=True, kw_only=True, tag_field="do", tag="script"):
    """Statements."""

    text: str


class SendContent(_Part, frozen=True, kw_only=True, tag_field="do", tag="send"):
    """An event for this session, another one, or somebody outside. Each of the four is a text or an expression."""

    event: str = ""
    event_expression: str | None = None
    target: str = ""
    target_expression: str | None = None
    type: str = ""
    type_expression: str | None = None
    delay: str = ""
    delay_expression: str | None = None
    id: str = ""
    id_location: str | None = None
    names: tuple[str, ...] = ()
    params: tuple[ChartParam, ...] = ()
    content: ChartValue | None = None


class CancelContent(_Part, frozen=True, kw_only=True, tag_field="do", tag="cancel"):
    """Withdraws a delayed event."""

    id: str = ""
    id_expression: str | None = None


Content = (
    RaiseContent | IfContent | ForeachContent | LogContent | AssignContent | ScriptContent | SendContent | CancelContent
)
"""What a chart does: executable content."""

Block = tuple[Content, ...]
"""Content that runs until one of it fails."""


class ChartData(_Part, frozen=True, kw_only=True):
    """A declared variable and its first value."""

    id: str
    value: ChartValue


class ChartTransition(_Part, frozen=True, kw_only=True):
    """A transition. Without events it is taken at once, without targets it leaves no state."""

    events: tuple[str, ...] = ()
    condition: str | None = None
    targets: tuple[str, ...] = ()
    internal: bool = False
    content: Block = ()


class DoneData(_Part, frozen=True, kw_only=True):
    """What a final state tells those who wait for its parent."""

    params: tuple[ChartParam, ...] = ()
    content: ChartValue | None = None


class ChartInvoke(_Part, frozen=True, kw_only=True):
    """Another chart that runs while a state is active. ``chart`` is None where none could be found in the document."""

    id: str = ""
    id_location: str | None = None
    type: str = ""
    type_expression: str | None = None
    source: str = ""
    chart: Chart | None = None
    names: tuple[str, ...] = ()
    params: tuple[ChartParam, ...] = ()
    autoforward: bool = False
    finalize: Block | None = None


class ChartState(_Part, frozen=True, kw_only=True):
    """A state, a history, or the document itself. ``parent`` is a position; the document's own is -1."""

    id: str
    kind: StateKind
    parent: int
    initial: ChartTransition | None = None
    transitions: tuple[ChartTransition, ...] = ()
    on_entry: tuple[Block, ...] = ()
    on_exit: tuple[Block, ...] = ()
    data: tuple[ChartData, ...] = ()
    invokes: tuple[ChartInvoke, ...] = ()
    done_data: DoneData | None = None


class ChartNote(_Part, frozen=True, kw_only=True):
    """Something that does not do what its author may expect: it is not supported here, or it looks like a mistake."""

    message: str
    unsupported: bool = False


class Chart(_Part, frozen=True, kw_only=True):
    """A whole chart. The first of its states is the document; parents stand before their children.

    ``notes`` are what the reader passed over, such as a misspelt attribute.
    """

    name: str = ""
    datamodel: Datamodel
    late_binding: bool = False
    states: tuple[ChartState, ...]
    script: ScriptContent | None = None
    notes: tuple[ChartNote, ...] = ()

    @property
    def digest(self) -> bytes:
        """The SHA-256 of its canonical form."""
        return hashlib.sha256(encode(self)).digest()


def encode(chart: Chart) -> bytes:
    """The chart's canonical form."""
    return cbor.canonical(msgspec.to_builtins(chart))


def decode(data: bytes) -> Chart:
    """Read a chart from its canonical form. Raises ValueError where ``encode`` would not have written it."""
    return decoded(data, Chart)


def decoded(data: bytes, kind: type[T]) -> T:
    """Read a struct from its canonical form. Raises ValueError where the bytes are not that."""
    try:
        found = msgspec.convert(cbor2.loads(data), kind)
        written = cbor.canonical(msgspec.to_builtins(found))
    except (cbor2.CBORError, msgspec.ValidationError, cbor.TooDeep, TypeError) as error:
        raise ValueError(str(error)) from error
    if written != data:
        raise ValueError("the bytes are not in canonical form")
    return found
