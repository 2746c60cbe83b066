"""``--limit`` and ``--after``: so many of a list, read page by page, and the cursor for the rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from holdfast.cli import output, session
from holdfast.client.engine import Holdfast
from holdfast.client.pages import PAGE
from holdfast.client.views.cursors import Page

T = TypeVar("T")

Read = Callable[[int, str | None], Awaitable[Page[T]]]
"""Reads a page of so many, behind a cursor."""


async def read_pages(
    read: Read[T], limit: int, after: str | None, each: Callable[[T], None] = lambda _: None
) -> Page[T]:
    """At most ``limit`` items, all where it is 0. ``each`` is called with every item as soon as it is read."""
    items: list[T] = []
    while True:
        size = PAGE if limit == 0 else min(PAGE, limit - len(items))
        page = await read(size, after)
        for item in page.items:
            each(item)
        items += page.items
        after = page.next
        if after is None or (limit and len(items) >= limit):
            return Page(items, after)


def read_list(
    store: str | None,
    read: Callable[[Holdfast, int, str | None], Awaitable[Page[T]]],
    limit: int,
    after: str | None,
    record: Callable[[T], dict[str, Any]] | None,
) -> Page[T]:
    """The list of a command; with ``record``, which is for ``--json``, each of its items is written as it is read."""

    def each(item: T) -> None:
        if record is not None:
            output.emit(record(item))

    async def work(app: Holdfast) -> Page[T]:
        return await read_pages(lambda size, place: read(app, size, place), limit, after, each)

    return session.on_store(session.url_of(store), work)


def note_rest(page: Page[T], limit: int, which: str) -> None:
    """Say how to see the rest of a list, where there may be more; ``which`` is what was shown: "the newest"."""
    if limit and page.next is not None:
        output.note(f"these are {which} {limit}; --limit 0 shows all, --after {page.next} the next.")
