"""The places of values: where a member of the model stands in a document, and which types its value can have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.expressions.shapes import ValueShape, could_be
from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.faults import Trail
from holdfast.programs.definition.compiler.words import TRANSPORT_WORDS

_WORDS: Final[dict[tuple[type, str], Trail]] = {
    (m.TaskDeclaration, "audience"): ("for",),
    (m.TaskDeclaration, "deadlines"): ("due",),
    (m.Deadlines, "due"): ("in",),
    (m.Timeout, "attempt"): ("try",),
    (m.Timeout, "whole"): ("all",),
    (m.CallVerb, "arguments"): ("with",),
    (m.RunVerb, "arguments"): ("with",),
    (m.TaskVerb, "arguments"): ("with",),
    (m.ContinueVerb, "arguments"): ("with",),
    (m.SwitchVerb, "cases"): ("switch",),
    (m.SleepVerb, "span"): ("sleep",),
    (m.SleepVerb, "at"): ("sleep", "until"),
    (m.EndVerb, "result"): ("end",),
    (m.RepeatVerb, "while_"): ("repeat", "while"),
    (m.RepeatVerb, "gives"): ("gives",),
}
_INSIDE: Final = {m.RepeatVerb: "repeat", m.SendVerb: "send", m.RaiseVerb: "raise"}
"""The verbs whose members stand in a map under the verb."""

_SPAN: Final = frozenset({"string", "duration", "int", "double"})
_TIME: Final = frozenset({"string", "timestamp"})
_TEXT: Final = frozenset({"string"})
_PEOPLE: Final = frozenset({"string", "list"})

WANTED: Final[dict[tuple[type, str], frozenset[str]]] = {
    (m.RepeatVerb, "over"): frozenset({"list", "map"}),
    (m.RepeatVerb, "times"): frozenset({"int"}),
    (m.SleepVerb, "span"): _SPAN,
    (m.SleepVerb, "at"): _TIME,
    (m.Timeout, "attempt"): _SPAN,
    (m.Timeout, "whole"): _SPAN,
    (m.Timeout, "at"): _TIME,
    (m.Deadlines, "due"): _SPAN,
    (m.Deadlines, "expire"): _SPAN,
    (m.Audience, "groups"): _PEOPLE,
    (m.Audience, "users"): _PEOPLE,
    (m.Audience, "exclude"): _PEOPLE,
    (m.SendVerb, "to"): _TEXT,
    (m.ContinueVerb, "id"): _TEXT,
    (m.RaiseVerb, "code"): _TEXT,
    (m.RaiseVerb, "message"): _TEXT,
}
"""The types of values that a run can use at these places."""

REFERENCE: Final = frozenset({"string", "int", "null"})
"""The types of a business reference."""

_NAMES: Final = {"double": "number", "int": "integer", "map": "object", "list": "array", "bool": "boolean"}


def place_of(part: m.Part, member: str) -> Trail:
    """The way from a part to a member of it, in the words of the format."""
    if isinstance(part, m.TransportVerb):
        return (part.verb,) if part.verb in TRANSPORT_WORDS else ("transport", part.verb)
    found = _WORDS.get((type(part), member))
    if found is not None:
        return found
    inside = _INSIDE.get(type(part))
    return (member,) if inside is None else (inside, member)


def type_name(shape: ValueShape) -> str:
    """A shape in the words of JSON Schema."""
    return _NAMES.get(shape.kind, shape.kind)


class TypeMisfit(NamedTuple):
    """A place at which a value of one shape stands, and one of another is declared."""

    place: str
    given: ValueShape
    wanted: ValueShape


def misfits(given: ValueShape, wanted: ValueShape, place: str) -> Iterator[TypeMisfit]:
    """Where a value cannot be kept as it is declared. Doubles may be integers, and times are kept as texts."""
    if given.kind == "optional" or (given.kind, wanted.kind) == ("double", "int"):
        return
    if given.kind in ("timestamp", "duration") and wanted.kind == "string":
        return
    if given.kind == wanted.kind == "list":
        yield from misfits(given.contained, wanted.contained, f"{place}[]")
    elif given.kind == wanted.kind == "map":
        for name in sorted(given.members.keys() & wanted.members.keys()):
            yield from misfits(given.members[name], wanted.members[name], f"{place}.{name}")
    elif not could_be(given, wanted):
        yield TypeMisfit(place, given, wanted)
