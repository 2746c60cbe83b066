"""Which secrets log people in: recorded in the store by the servers that use them, for all processes on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.client.items import Change, change_item
from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.store.protocol import ItemKey, ItemRow
from holdfast.transports.secret_keeper import LOGIN_SECRET
from holdfast.transports.secrets import one_spelling

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

BY: Final = "server"
"""Who records it, in the audit: each server with a provider of identities, when it opens."""


async def record_login_secret(app: Holdfast, name: str) -> None:
    """Record that a name logs people in, for good: no tenant may use it any more, in whichever process."""
    key = ItemKey(DEFAULT_TENANT, LOGIN_SECRET, one_spelling(name))
    if await app.store.item(key) is not None:
        return

    def change(_: ItemRow | None) -> Change:
        return Change(b"{}")

    await change_item(app, key, "reserve_secret", change, by=BY)
