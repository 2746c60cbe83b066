"""GraphQL documents, read as far as the gate must know: which operations there are, and whether one writes."""

from __future__ import annotations

import re
from typing import Final

from holdfast.errors import InvalidRequest

LONGEST: Final = 100_000

_IGNORED: Final = re.compile(
    r'"""(?:\\"""|[^"]|"(?!""))*+(?:"""|(?P<open_block>))'
    r'|"(?:\\.|[^"\\\n\r])*+(?:"|(?P<open>))|#[^\n\r]*'
)
_TOKEN: Final = re.compile(r"[{}()]|[A-Za-z_][A-Za-z0-9_]*")
_KINDS: Final = frozenset({"query", "mutation", "subscription"})


def kind_of(document: object, name: str | None, what: str) -> str:
    """Whether the operation of this name, or the only one, is a ``query`` or a ``mutation``. Raises InvalidRequest."""
    if not isinstance(document, str) or len(document) > LONGEST:
        raise InvalidRequest(f"{what} is a GraphQL document of at most {LONGEST} characters")
    found = _operations(document)
    if name is None and len(found) != 1:
        known = ", ".join(sorted(each or "one without a name" for each, _ in found)) or "none"
        raise InvalidRequest(f"{what} has {len(found)} operations ({known}): name the one to run by `operation`")
    kinds = {kind for each, kind in found if name in (None, each)}
    if len(kinds) != 1:
        raise InvalidRequest(f"{what} has no operation {name!r}")
    (kind,) = kinds
    if kind == "subscription":
        raise InvalidRequest(f"{what} is a subscription, which has no end: wait for a signal instead")
    return kind


def _operations(document: str) -> list[tuple[str, str]]:
    """The operations of a document, each with its name, which may be empty, and its kind."""
    found: list[tuple[str, str]] = []
    depth = 0
    head: list[str] = []
    for word in _TOKEN.findall(_IGNORED.sub(_blank, document)):
        if word in "{(":
            if depth == 0 and word == "{":
                found += _operation(head)
                head = []
            elif depth == 0:
                head.append(word)
            depth += 1
        elif word in "})":
            depth = max(0, depth - 1)
        elif depth == 0:
            head.append(word)
    return found


def _blank(ignored: re.Match[str]) -> str:
    """A text or a comment, blanked out. Raises InvalidRequest for a text without an end: what it hides is not known."""
    if ignored.lastgroup is not None:
        line = ignored.string.count("\n", 0, ignored.start()) + 1
        raise InvalidRequest(f"the text in line {line} of a GraphQL document has no end: close its quotes")
    return " "


def _operation(head: list[str]) -> list[tuple[str, str]]:
    """The operation that begins with these words before its selection; none where it is a fragment."""
    if not head:
        return [("", "query")]
    kind, *rest = head
    if kind not in _KINDS:
        return []
    return [(rest[0] if rest and rest[0].isidentifier() else "", kind)]
