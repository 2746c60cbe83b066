"""The caller of an operation: a user of one tenant, with the level and groups that count for this call."""

from __future__ import annotations

import msgspec

from holdfast.store.items import ExpectItem


class Caller(msgspec.Struct, frozen=True, gc=False):
    """A user at one moment. ``level`` is the lowest of the user's, the token's and those of the token's makers;
    ``version`` is that of the user's item, by which a commit sees that nothing of this has changed meanwhile;
    ``token_version`` that of the token's, and ``makers`` are those of its makers."""

    tenant: str
    user: str
    level: int
    groups: tuple[str, ...] = ()
    token: str | None = None
    version: int = 0
    scope: tuple[str, ...] = ()
    token_version: int = 0
    makers: tuple[ExpectItem, ...] = ()
