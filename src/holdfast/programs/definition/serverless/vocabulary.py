"""The words that importer and exporter share: how a document's names, versions and errors are written here."""

from __future__ import annotations

import re
from typing import Any, Final

DSL: Final = "1.0.3"
SPEC_ERRORS: Final = "https://serverlessworkflow.io/spec/1.0.0/errors/"
VALIDATION: Final = SPEC_ERRORS + "validation"

RESPONSE: Final = (
    "={request: {method: .request.method, uri: .request.url, headers: .request.headers}, "
    "headers, statusCode: .status, content}"
)
"""The answer of ``http`` as Serverless Workflow wants a response."""

STARTED: Final = {
    "iso8601": "=now | todate",
    "epoch": {"seconds": "=now | floor", "milliseconds": "=now * 1000 | floor"},
}
"""A moment, as ``$task.startedAt`` and ``$workflow.startedAt`` have it."""

_VERSION: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})")
_PART: Final = 1_000


def definition_name(namespace: str, name: str) -> str:
    """What a definition is called. A namespace has no dot, so it can be found again."""
    return f"{namespace}.{name}"


def definition_version(version: str) -> int | None:
    """``1.2.3`` as a whole number, 1002003; None where it is no such version, or 0.0.0."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return None
    major, minor, patch = (int(part) for part in found.groups())
    return (major * _PART + minor) * _PART + patch or None


def document_version(version: int) -> str:
    """The inverse of ``definition_version``."""
    rest, patch = divmod(version, _PART)
    return ".".join(map(str, (*divmod(rest, _PART), patch)))


def without_none(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def lists_in(task: Any) -> list[tuple[tuple[str, ...], list[Any]]]:
    """The lists of tasks inside a task, each with the members that lead to it."""
    ways: tuple[tuple[str, ...], ...] = (("do",), ("try",), ("catch", "do"), ("fork", "branches"), ("foreach", "do"))
    found = []
    for way in ways:
        place = task
        for name in way:
            place = place.get(name) if isinstance(place, dict) else None
        if isinstance(place, list):
            found.append((way, place))
    return found


def pointer(trail: tuple[str | int, ...]) -> str:
    """The JSON pointer of a place in a document."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in trail)
