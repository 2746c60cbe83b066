"""The makers of a token: a token is never worth more than what it was made with, as that is now.

A token that a bound caller mints records the caller, and the token by which the caller acted. It is good only as long
as these are: their levels bound its own, and if one of them is revoked, has expired or is disabled, it is over. The
same holds for the makers of its makers. A token that the operator made, or an older version, has no maker.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.people import tokens
from holdfast.people.users import USER, read_user
from holdfast.store import protocol as p
from holdfast.store.items import ExpectItem, ItemKey

MOST_MAKERS: Final = 8
"""So many tokens may be minted one with the other: all of them are read whenever the last one is used."""


class TokenMakers(NamedTuple):
    """The makers of a token at one moment: the lowest of their levels, why the token is over because of them, and the
    versions of their items."""

    level: int = tokens.HIGHEST
    problem: str | None = None
    is_revoked: bool = False
    versions: tuple[ExpectItem, ...] = ()


async def makers_of(store: p.Store, tenant: str, token: tokens.Token, now: int) -> TokenMakers:
    """The makers of a token, as they are now."""
    level, versions = tokens.HIGHEST, list[ExpectItem]()
    while token.maker:
        key = ItemKey(tenant, USER, token.maker)
        row = await store.item(key)
        if row is None or (user := read_user(row)).disabled:
            return TokenMakers(level, f"{token.maker}, who made it, is disabled")
        level, versions = min(level, user.level), [*versions, ExpectItem(key, row.version)]
        if not token.minted_with:
            break
        key = tokens.token_key(tenant, token.minted_with)
        row = await store.item(key)
        if row is None:
            return TokenMakers(level, f"token {key.id}, with which it was made, is gone", True)
        token = tokens.read_token(row)
        if (problem := tokens.problem_of(token, now)) is not None:
            return TokenMakers(level, f"of token {key.id}, with which it was made: {problem}", token.revoked)
        level, versions = min(level, token.level), [*versions, ExpectItem(key, row.version)]
    return TokenMakers(level, versions=tuple(versions))
