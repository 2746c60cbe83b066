"""Members that an expression reads and a schema does not declare, although it declares one of nearly that name.

A schema that says nothing of other members allows them. But a name that differs from a declared one by a letter is
most likely a slip, which would show only when a run comes to it.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

_NEAR: Final = 0.8
_OTHERWISE_KNOWN: Final = ("$ref", "oneOf", "anyOf", "allOf", "not", "if")
_OPEN: Final = ("additionalProperties", "patternProperties")


class NearMiss(NamedTuple):
    """A member that is not declared, what it is read of, and the declared one that is nearly called so."""

    inside: tuple[str, ...]
    name: str
    declared: str


def near_miss(schema: Any, names: Sequence[str]) -> NearMiss | None:
    """The slip in these members, each of the one before. None where the schema says that there may be others."""
    for at, name in enumerate(names):
        if not isinstance(schema, Mapping) or any(word in schema for word in _OTHERWISE_KNOWN):
            return None
        declared = schema.get("properties")
        if not isinstance(declared, Mapping):
            return None
        if name not in declared:
            near = difflib.get_close_matches(name, map(str, declared), n=1, cutoff=_NEAR)
            is_open = any(word in schema for word in _OPEN)
            return NearMiss(tuple(names[:at]), name, near[0]) if near and not is_open else None
        schema = declared[name]
    return None
