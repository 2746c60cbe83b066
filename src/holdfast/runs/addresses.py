"""How an id is written as one part of an address's path, so that no browser and no proxy reads another path.

Browsers and proxies resolve the segments ``.`` and ``..`` of a path, also if they are quoted (``%2e``). Some proxies
unquote ``%2F`` before that, join empty segments, or refuse ``%00``. So an id is quoted, and an id with one of these has
a form in which nothing is left to resolve: ``~``, then the quoted id with ``.`` in the place of ``%``.

    id                 part of a path
    -----------------+--------------------------
    order-17          order-17
    a/b               a%2Fb
    ..                ~.2E.2E
    ../users/ann      ~.2E.2E.2Fusers.2Fann

Every text has one part, and two texts never have the same one: a text that looks like the second form is written in
it, too.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote

MARK: Final = "~"

_DOTS: Final = re.compile(r"(?:\A|[/\\])\.\.?(?:[/\\]|\Z)")
_RESOLVED: Final = re.compile(r"(?:\A|[/\\])(?:\.\.?)?(?:[/\\]|\Z)|\0")
_MARKED: Final = re.compile(r"~+|~[A-Za-z0-9_~-]*\.[0-9A-F]{2}(?:[A-Za-z0-9_~-]|\.[0-9A-F]{2})*")
"""All that can be the marked form of a text: one that had something to quote, or is empty."""


def has_dots(text: str) -> bool:
    """Whether a segment is ``.`` or ``..``. Backslashes count as slashes, as they do for browsers."""
    return _DOTS.search(text) is not None


def path_part(text: str) -> str:
    """A text as one part of a path."""
    return MARK + _dotted(text) if _needs_mark(text) else quote(text, safe="")


def part_text(part: str) -> str:
    """The text that a part of a path stands for."""
    text = unquote(part, errors="replace")
    if not _MARKED.fullmatch(text):
        return text
    found = unquote(text[1:].replace(".", "%"), errors="replace")
    return found if _needs_mark(found) and _dotted(found) == text[1:] else text


def _needs_mark(text: str) -> bool:
    return _RESOLVED.search(text) is not None or _MARKED.fullmatch(text) is not None


def _dotted(text: str) -> str:
    return quote(text, safe="").replace(".", "%2E").replace("%", ".")
