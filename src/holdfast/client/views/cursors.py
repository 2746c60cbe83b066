"""Cursors: where a list was left off, as a text that means nothing to whoever keeps it."""

from __future__ import annotations

import base64
from typing import Generic, TypeVar

import msgspec

from holdfast.errors import InvalidRequest
from holdfast.store.protocol import Cursor

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some of a list. ``next`` is what ``after=`` takes for the rest; None where there is no more."""

    items: list[T]
    next: str | None


def write_cursor(kind: str, cursor: Cursor) -> str:
    """A cursor as text. ``kind`` is what is listed: a cursor of another list is refused."""
    return base64.urlsafe_b64encode(msgspec.json.encode((kind, *cursor))).decode().rstrip("=")


def read_cursor(kind: str, text: str | None) -> Cursor | None:
    """A cursor from its text. Raises InvalidRequest where it is none of this list."""
    if text is None:
        return None
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        found, at, tenant, id = msgspec.json.decode(data, type=tuple[str, int, str, str])
    except (ValueError, TypeError) as error:
        raise InvalidRequest("after= takes the `next` of an earlier page, as it was given.") from error
    if found != kind:
        raise InvalidRequest(f"this cursor is of a list of {found}, and not of {kind}.")
    return Cursor(at, tenant, id)
