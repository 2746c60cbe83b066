"""What a failover has lost of what was acknowledged, as people look for it. See ``store.losses``."""

from __future__ import annotations

from typing import Final

from holdfast.runs.times import moment
from holdfast.store.losses import LOST, Loss, loss_id, loss_of
from holdfast.store.protocol import ItemKey, Key, Store

LISTED_MICROSECONDS: Final = 30 * 86400 * 1_000_000
"""A loss is listed for so long after it was noticed."""

_PAGE: Final = 500


async def losses_in(store: Store, now: int, tenant: str | None = None) -> list[Loss]:
    """The lost changes that nobody has done again, by tenant and run. A start whose run is there was done again."""
    found: list[Loss] = []
    after: ItemKey | None = None
    while rows := await store.items(LOST, _PAGE, tenant=tenant, status=LOST, after=after):
        found += [loss_of(row) for row in rows]
        after = rows[-1].key
    found = [loss for loss in found if loss.noticed_at > now - LISTED_MICROSECONDS]
    there = {run.key for run in await store.get([loss.key for loss in found if loss.kind == "start"])}
    return [loss for loss in found if loss.kind != "start" or loss.key not in there]


async def lost_start_words(store: Store, key: Key) -> str:
    """What is to be said of a missing run, after a full stop, if a failover has lost it."""
    for row in await store.items(LOST, 1, tenant=key.tenant, id=loss_id("start", key.run)):
        return f" {words_of(loss_of(row))}: start it again with the same id."
    return ""


async def lost_message_words(store: Store, key: Key, now: int) -> str:
    """What is to be said of a run whose messages or answers a failover has lost."""
    if not await store.items(LOST, 1, tenant=key.tenant, status=LOST):
        return ""
    lost = [loss for loss in await losses_in(store, now, key.tenant) if loss.key == key]
    return "".join(f" The {loss.kind} {loss.id or ''} {words_of(loss)[3:]}: repeat it." for loss in lost)


def words_of(loss: Loss) -> str:
    """Who knew of it, and since when it is missing."""
    acknowledged, noticed = moment(loss.acknowledged_at), moment(loss.noticed_at)
    return f"It was acknowledged by {loss.by} at {acknowledged}, before the failover of {noticed}, and is not here"
