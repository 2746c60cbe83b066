"""Lists that are read from the store page by page: all rows of one, or one page with a cursor for the rest."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar

from holdfast.client.views.cursors import Page, read_cursor, write_cursor
from holdfast.errors import InvalidRequest
from holdfast.store.protocol import Cursor

PAGE: Final = 100


class Placed(Protocol):
    """A row that knows its place in a list."""

    @property
    def cursor(self) -> Cursor: ...


RowT = TypeVar("RowT", bound=Placed)
ViewT = TypeVar("ViewT")

Find = Callable[[int, Cursor | None], Awaitable[Sequence[RowT]]]
"""Reads so many rows behind a place."""


async def rows_of(find: Find[RowT], limit: int | None = None, place: Cursor | None = None) -> AsyncIterator[RowT]:
    """The rows behind the place, in order: at most ``limit``, all without one."""
    left = limit
    while left is None or left > 0:
        size = PAGE if left is None else min(PAGE, left)
        rows = await find(size, place)
        for row in rows:
            yield row
        if len(rows) < size:
            return
        place, left = rows[-1].cursor, None if left is None else left - len(rows)


def check_limit(limit: int) -> int:
    """The size of a page. Raises InvalidRequest below 1: an empty page would look like the end of the list."""
    if limit < 1:
        raise InvalidRequest(f"a page has one item at least, not {limit}")
    return limit


async def page_of(
    kind: str, find: Find[RowT], limit: int, after: str | None, view: Callable[[RowT], ViewT]
) -> Page[ViewT]:
    """A page of a list of this kind. Raises InvalidRequest where ``after`` is no cursor of such a list."""
    rows = await find(check_limit(limit), read_cursor(kind, after))
    next = write_cursor(kind, rows[-1].cursor) if len(rows) == limit else None
    return Page([view(row) for row in rows], next)
