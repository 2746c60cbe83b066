"""The definitions that a tenant has published, as the store lists them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from holdfast.store.protocol import DefinitionRow, Store

PAGE: Final = 200


async def published(store: Store, tenant: str, name: str | None = None) -> AsyncIterator[DefinitionRow]:
    """All of them, or those of one name, by name and version."""
    after: DefinitionRow | None = None
    while True:
        page = await store.definitions(tenant, PAGE, after, name=name)
        for row in page:
            yield row
        if len(page) < PAGE:
            return
        after = page[-1]
