"""Changes of items by people: judged on what is there, and committed with the audit's note, or tried again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from holdfast.client.operators import operator_note
from holdfast.client.pages import Find
from holdfast.errors import EngineError, HoldfastError
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

PAGE = 500


class Change(msgspec.Struct, frozen=True):
    """The next version of an item, and what is committed with it."""

    body: bytes
    status: str = ""
    due_at: int | None = None
    details: Mapping[str, str] = {}
    beside: Sequence[p.Act] = ()


Changer = Callable[[p.ItemRow | None], Change | Awaitable[Change]]
"""Makes the next version from the present one; None where there is none. It raises where it may not be changed."""


async def change_item(
    app: Holdfast, key: p.ItemKey, act: str, changer: Changer, *, by: str | None, reason: str = ""
) -> p.ItemRow:
    """Give an item its next version. Where someone else changed it first, look at it again and try again.

    Raises what ``changer`` raises. ``act`` is the word of the audit's note.
    """
    while True:
        present = await app.store.item(key)
        made = changer(present)
        change = made if isinstance(made, Change) else await made
        now = app.clock.now()
        version = 1 if present is None else present.version + 1
        row = p.ItemRow(*key, version, change.body, change.status, change.due_at, now)
        note = operator_note(app, key.tenant, act, by, None, reason, {key.kind: key.id, **change.details})
        answer = await app.committer.commit(p.Operate(note, (*app.conditions(), p.PutItem(row), *change.beside)))
        if isinstance(answer, p.OperatedOn | p.Repeated):
            app.wake_sealer()
            app.hint()
            return row
        if not isinstance(answer, p.Fenced):
            raise EngineError(f"{act} of {key.kind} {key.id} was answered {answer!r}")


async def derived_item(app: Holdfast, key: p.ItemKey, body: bytes, status: str, *, is_set: bool) -> list[p.PutItem]:
    """The change of an item that follows from another one: none where it says so already, or is not set and missing."""
    present = await app.store.item(key)
    if (present is None and not is_set) or (present is not None and (present.body, present.status) == (body, status)):
        return []
    version = 1 if present is None else present.version + 1
    return [p.PutItem(p.ItemRow(*key, version, body, status, None, app.clock.now()))]


async def cap_change(app: Holdfast, key: p.ItemKey, cap: p.SetCap) -> list[p.PutItem]:
    """The change of a cap's item, to be committed with what sets the cap."""
    return await _set(app, key, msgspec.json.encode(cap), is_set=cap != p.SetCap())


async def write_cap_change(app: Holdfast, key: p.ItemKey, cap: p.SetWriteCap) -> list[p.PutItem]:
    """The change of the item that caps writes, beside the cap of that key."""
    return await _set(app, p.write_cap_key(key), msgspec.json.encode(cap), is_set=cap != p.SetWriteCap())


async def _set(app: Holdfast, key: p.ItemKey, body: bytes, *, is_set: bool) -> list[p.PutItem]:
    return await derived_item(app, key, body, p.CAP_SET if is_set else p.CAP_UNSET, is_set=is_set)


async def all_items(
    app: Holdfast, kind: str, *, tenant: str | None = None, status: str | None = None
) -> AsyncIterator[p.ItemRow]:
    """The items of a kind, by tenant and id, read in pages."""
    after: p.ItemKey | None = None
    while page := await app.store.items(kind, PAGE, tenant=tenant, status=status, after=after):
        for row in page:
            yield row
        after = page[-1].key


def item_finder(
    app: Holdfast,
    kind: str,
    *,
    tenant: str | None = None,
    status: str | None = None,
    wanted: Callable[[p.ItemRow], bool] = lambda _: True,
) -> Find[p.ItemRow]:
    """Reads pages of the items of a kind, by tenant and id: only those that are wanted."""

    async def find(size: int, place: p.Cursor | None) -> Sequence[p.ItemRow]:
        rows: list[p.ItemRow] = []
        after = None if place is None else p.ItemKey(place.tenant, kind, place.id)
        while len(rows) < size:
            page = await app.store.items(kind, size, tenant=tenant, status=status, after=after)
            rows += [row for row in page if wanted(row)]
            if len(page) < size:
                break
            after = page[-1].key
        return rows[:size]

    return find


def found(row: p.ItemRow | None, error: HoldfastError) -> p.ItemRow:
    """The item; raises the error where there is none."""
    if row is None:
        raise error
    return row
