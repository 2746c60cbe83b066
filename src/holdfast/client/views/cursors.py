"""Cursors: the place where a page of a list ended, as a text that has no meaning outside."""

from __future__ import annotations

import base64
from typing import Annotated, Generic, TypeVar

import msgspec

from holdfast.errors import InvalidRequest
from holdfast.store.protocol import Cursor

T = TypeVar("T")

_Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""What every store can hold: a cursor comes from outside, and may be forged."""


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A part of a list. ``next`` is the cursor that ``after=`` takes for the rest; None at the end of the list."""

    items: list[T]
    next: str | None


def write_cursor(kind: str, cursor: Cursor) -> str:
    """A cursor as text. ``kind`` names the list: a cursor of another list is refused."""
    return base64.urlsafe_b64encode(msgspec.json.encode((kind, *cursor))).decode().rstrip("=")


def read_cursor(kind: str, text: str | None) -> Cursor | None:
    """A cursor from its text. Raises InvalidRequest where it is not a cursor of this list."""
    if text is None:
        return None
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        list_kind, at, tenant, id = msgspec.json.decode(data, type=tuple[str, _Number, str, str])
    except (ValueError, TypeError) as error:
        raise InvalidRequest("after= takes the `next` of an earlier page, as it was given.") from error
    if list_kind != kind:
        raise InvalidRequest(f"this cursor is of a list of {list_kind}, and not of {kind}.")
    return Cursor(at, tenant, id)
