"""The caller of an operation: a user of one tenant, with the level and groups that count for this call."""

from __future__ import annotations

import msgspec


class Caller(msgspec.Struct, frozen=True, gc=False):
    """A user at one moment. ``level`` is the lower one of the user's and the token's; ``version`` is that of the user's
    item, by which a commit sees that nothing of this has changed meanwhile; ``token_version`` that of the token's."""

    tenant: str
    user: str
    level: int
    groups: tuple[str, ...] = ()
    token: str | None = None
    version: int = 0
    scope: tuple[str, ...] = ()
    token_version: int = 0
