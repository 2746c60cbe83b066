"""The elements of SCXML that are read: where each may stand, its attributes, and which of those it must have."""

from __future__ import annotations

from typing import Final

import msgspec

EXECUTABLE: Final = frozenset({"raise", "if", "foreach", "log", "assign", "script", "send", "cancel"})
_STATES: Final = frozenset({"state", "parallel", "final"})
_HANDLERS: Final = frozenset({"onentry", "onexit"})


class Word(msgspec.Struct, frozen=True):
    """An element: what it may hold, and its attributes. ``free`` content is data or text of any form."""

    children: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    required: tuple[str, ...] = ()
    exclusive: tuple[tuple[str, ...], ...] = ()
    free: bool = False


def _word(
    children: frozenset[str] | set[str] = frozenset(),
    attributes: str = "",
    required: str = "",
    exclusive: str = "",
    *,
    free: bool = False,
) -> Word:
    groups = tuple(tuple(group.split("|")) for group in exclusive.split())
    names = {*attributes.split(), *required.split(), *(name for group in groups for name in group)}
    return Word(frozenset(children), frozenset(names), tuple(required.split()), groups, free)


WORDS: Final[dict[str, Word]] = {
    "scxml": _word(_STATES | {"datamodel", "script"}, "initial name version datamodel binding"),
    "state": _word(_STATES | _HANDLERS | {"transition", "initial", "history", "datamodel", "invoke"}, "id initial src"),
    "parallel": _word({"state", "parallel", "history", "transition", "datamodel", "invoke"} | _HANDLERS, "id src"),
    "final": _word(_HANDLERS | {"donedata"}, "id"),
    "history": _word({"transition"}, "id type"),
    "initial": _word({"transition"}, "id"),
    "transition": _word(EXECUTABLE, "event cond target type anchor"),
    "onentry": _word(EXECUTABLE),
    "onexit": _word(EXECUTABLE),
    "finalize": _word(EXECUTABLE),
    "datamodel": _word({"data"}),
    "data": _word(required="id", exclusive="src|expr", free=True),
    "donedata": _word({"param", "content"}),
    "param": _word(required="name", exclusive="expr|location"),
    "content": _word(attributes="expr", free=True),
    "raise": _word(required="event"),
    "if": _word(EXECUTABLE | {"elseif", "else"}, required="cond"),
    "elseif": _word(required="cond"),
    "else": _word(),
    "foreach": _word(EXECUTABLE, "index", "array item"),
    "log": _word(attributes="label expr"),
    "assign": _word(attributes="expr attr type", required="location", free=True),
    "script": _word(attributes="src", free=True),
    "send": _word(
        {"param", "content"},
        "namelist",
        exclusive="event|eventexpr target|targetexpr type|typeexpr id|idlocation delay|delayexpr",
    ),
    "cancel": _word(exclusive="sendid|sendidexpr"),
    "invoke": _word(
        {"param", "content", "finalize"},
        "namelist autoforward",
        exclusive="type|typeexpr src|srcexpr id|idlocation",
    ),
}
"""By the element's name. Attributes of ``exclusive`` groups exclude each other."""
