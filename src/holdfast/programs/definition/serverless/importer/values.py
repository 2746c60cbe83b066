"""Values, expressions and durations of a document, in the words of the format.

``${ … }`` is an expression. Where the document does not say ``evaluate: {mode: strict}``, so is a text that is a path
and nothing else (``.user.name``, ``$error``). In places that are always expressions the braces may be left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from holdfast.expressions.engine import InvalidExpression
from holdfast.expressions.jq.lexer import lex
from holdfast.programs.definition.spans import read_span, write_span

_BRACED: Final = re.compile(r"\s*\$\{(.*)\}\s*", re.DOTALL)
_LOOSE: Final = re.compile(r"[.$][A-Za-z_]\w*(\.[A-Za-z_]\w*|\[\d+\])*", re.ASCII)
_PLACE: Final = re.compile(r"\{([^{}]*)\}")
_MEMBER: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_UNITS: Final = {
    "days": 86_400_000_000,
    "hours": 3_600_000_000,
    "minutes": 60_000_000,
    "seconds": 1_000_000,
    "milliseconds": 1_000,
}

Reads = set[tuple[str, ...]]


def braced(text: Any) -> str | None:
    """The expression of ``${ … }``; None where it is none."""
    found = _BRACED.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else found[1].strip()


def expression(text: str) -> str:
    """The expression of a place that always has one."""
    inner = braced(text)
    return text.strip() if inner is None else inner


def value_of(value: Any, *, loose: bool) -> Any:
    """A value of a document, in the words of the format."""
    if isinstance(value, str):
        inner = braced(value)
        if inner is not None:
            return f"={inner}"
        if loose and _LOOSE.fullmatch(value):
            return f"={value}"
        return f"={value}" if value.startswith("=") else value
    if isinstance(value, Mapping):
        return {str(name): value_of(item, loose=loose) for name, item in value.items()}
    if isinstance(value, list):
        return [value_of(item, loose=loose) for item in value]
    return value


def literal(value: Any) -> Any:
    """A value as it is, whatever its texts look like."""
    if isinstance(value, str):
        return f"={value}" if value.startswith("=") else value
    if isinstance(value, Mapping):
        return {str(name): literal(item) for name, item in value.items()}
    return [literal(item) for item in value] if isinstance(value, list) else value


def reads_in(value: Any) -> Reads:
    """The variables that the expressions of a value read, with the members that they select."""
    found: Reads = set()
    if isinstance(value, str):
        if value.startswith("=") and not value.startswith("=="):
            found |= _reads(value[1:])
    elif isinstance(value, Mapping):
        for item in value.values():
            found |= reads_in(item)
    elif isinstance(value, list):
        for item in value:
            found |= reads_in(item)
    return found


def _reads(text: str) -> Reads:
    try:
        tokens = lex(text)
    except InvalidExpression:  # the compiler says what is wrong with it
        return set()
    found: Reads = set()
    for at, token in enumerate(tokens):
        if token.kind == "variable":
            fields = []
            while at + 1 < len(tokens) and tokens[at + 1].kind == "field":
                at += 1
                fields.append(tokens[at].word)
            found.add((token.word, *fields))
    return found


def jq_of(value: Any) -> str:
    """A value of the format as one expression."""
    if isinstance(value, str):
        if value.startswith("==") or not value.startswith("="):
            return json.dumps(value.removeprefix("="), ensure_ascii=False)
        return f"({value[1:]})"
    if isinstance(value, Mapping):
        members = [f"{json.dumps(name, ensure_ascii=False)}: {jq_of(item)}" for name, item in value.items()]
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(jq_of, value)) + "]"
    return json.dumps(value)


def span_of(value: Any) -> str:
    """A duration: a map of units, ISO 8601, or an expression. Raises ValueError."""
    inner = braced(value)
    if inner is not None:
        return f"={inner}"
    if isinstance(value, Mapping):
        unknown = [name for name in value if name not in _UNITS]
        if unknown or not all(type(each) is int and each >= 0 for each in value.values()):
            raise ValueError(f"a duration has whole numbers of {', '.join(_UNITS)}")
        return write_span(sum(_UNITS[name] * each for name, each in value.items()))
    if isinstance(value, str):
        return write_span(read_span(value))
    raise ValueError(f"a duration is a map of {', '.join(_UNITS)}, or a text such as PT30S")


def seconds_of(value: Any) -> float:
    """A duration that is no expression, in seconds. Raises ValueError."""
    span = span_of(value)
    if span.startswith("="):
        raise ValueError("here a duration must be written out, and is no expression")
    seconds = read_span(span) / 1e6
    return int(seconds) if seconds.is_integer() else seconds


def address_of(template: str) -> str:
    """A URI template (``https://…/{petId}``) in the words of the format. Raises ValueError."""
    inner = braced(template)
    if inner is not None:
        return f"={inner}"
    if "{" not in template:
        return template
    parts, at = [], 0
    for place in _PLACE.finditer(template):
        if _MEMBER.fullmatch(place[1]) is None:
            raise ValueError(f"of URI templates only {{name}} is known, not {place[0]}")
        parts.append(json.dumps(template[at : place.start()], ensure_ascii=False)[1:-1])
        parts.append(f"\\(.{place[1]})")
        at = place.end()
    parts.append(json.dumps(template[at:], ensure_ascii=False)[1:-1])
    return f'=@uri "{"".join(parts)}"'
