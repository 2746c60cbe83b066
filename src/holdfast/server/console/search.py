"""The search box of the list of runs: words with a qualifier, such as ``status:failed``, as filters and back.

The filters live in the address. So what is typed becomes a query, and a query is shown as what could have been typed.
A word without a qualifier is looked for: as a run's id, as a reference, and as a workflow's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.errors import RunNotFound
from holdfast.server.call import RouteCall
from holdfast.server.run_filters import RunFilter

QUALIFIERS: Final[Mapping[str, str]] = {
    "status": "status",
    "state": "state",
    "workflow": "workflow",
    "reference": "reference",
    "actor": "actor",
    "workspace": "workspace",
    "parent": "parent",
    "parked": "parked",
    "after": "created_after",
    "before": "created_before",
    "ended-after": "ended_after",
    "ended-before": "ended_before",
}
"""The words before a colon, and the filters that they mean."""

_WORDS: Final = re.compile(r'(?:[^\s"]|"[^"]*")+')
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d$")
_NAMES: Final = {filter: word for word, filter in QUALIFIERS.items()}


class TypedSearch(msgspec.Struct, frozen=True):
    """What was typed: filters as a query has them, and words without a qualifier."""

    filters: dict[str, Any]
    words: tuple[str, ...]


def read_search(text: str) -> TypedSearch:
    """What was typed into the box. A qualifier that is not known is an ordinary word."""
    filters: dict[str, Any] = {}
    words = []
    for found in _WORDS.findall(text):
        word = found.replace('"', "")
        name, colon, value = word.partition(":")
        key, equals, _ = word.partition("=")
        if colon and name in QUALIFIERS and value:
            filters[QUALIFIERS[name]] = _filter_value(QUALIFIERS[name], value)
        elif equals and key:
            filters.setdefault("attribute", []).append(word)
        else:
            words.append(word)
    return TypedSearch(filters, tuple(words))


def _filter_value(filter: str, value: str) -> str:
    if filter == "parked":
        return "true" if value in ("yes", "true") else "false"
    if filter.endswith(("_after", "_before")) and _DAY.fullmatch(value):
        return f"{value}T00:00:00Z"
    return value


def write_search(query: RunFilter) -> str:
    """The filters as they could have been typed."""
    given: dict[str, Any] = msgspec.to_builtins(query)
    parts = []
    for name, word in _NAMES.items():
        value = given.get(name)
        if value is not None:
            shown = {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
            parts.append(f"{word}:{_quoted(shown)}")
    parts += [_quoted(pair) for pair in query.attribute]
    return " ".join(parts)


def _quoted(text: str) -> str:
    return f'"{text}"' if re.search(r"\s", text) else text


async def place_of(call: RouteCall[Any, None], search: TypedSearch) -> tuple[str | None, dict[str, Any]]:
    """Where a search leads: the id of one run, or the filters of a list."""
    filters = dict(search.filters)
    if not search.words:
        return None, filters
    word = " ".join(search.words)
    if not filters:
        try:
            return (await call.client.run(word, tenant=call.tenant).info()).id, {}
        except RunNotFound:
            pass
    found = await call.client.page(tenant=call.tenant, workflow=word, limit=1)
    return None, {**filters, ("workflow" if found.items else "reference"): word}
