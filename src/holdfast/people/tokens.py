"""Tokens: a user's name and a secret in one text, ``hf_<id>_<secret>``.

The secret has 256 bits and is shown once. The store keeps only its SHA-256, and it is compared in constant time. A
token has a level of its own, which is never above its user's when it is used, a scope, and a time when it expires.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, NamedTuple

import msgspec

from holdfast.errors import InvalidToken
from holdfast.people.permissions import RULE
from holdfast.people.users import TOKEN_MARK
from holdfast.store.items import ItemKey, ItemRow

TOKEN: Final = "token"  # noqa: S105  # the kind of an item
MINT: Final = "mint_token"
REVOKE: Final = "revoke_token"
"""The audit's words for changes of tokens."""
ACTIVE: Final = "active"
REVOKED: Final = "revoked"
ID_LENGTH: Final = 12
SECRET_LENGTH: Final = 64
DEFAULT_DAYS: Final = 90
LONGEST_DAYS: Final = 3650
KEPT_SECONDS: Final = 30 * 86_400
"""So long a token is shown after it is over. Then it is deleted; the audit keeps what was done with it."""
HIGHEST: Final = RULE
UNUSABLE: Final = "this token is not valid here: look whether it is whole, or have another one made."


class Presented(NamedTuple):
    """A token as somebody shows it: its id, and the SHA-256 of its secret."""

    id: str
    digest: bytes


class Token(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a token's item says. ``user`` is the id of the user's item; ``maker`` that of the bound caller who made it,
    and ``minted_with`` the id of the token by which they acted. Both are empty if the operator made it, or an older
    version did."""

    user: str
    sha256: str
    level: int
    made_at: int
    made_by: str
    expires_at: int | None = None
    scope: tuple[str, ...] = ()
    purpose: str = ""
    revoked: bool = False
    maker: str = ""
    minted_with: str = ""

    @property
    def status(self) -> str:
        return REVOKED if self.revoked else ACTIVE

    @property
    def deleted_at(self) -> int | None:
        """When it may be deleted, as far as it is known now."""
        return None if self.expires_at is None else self.expires_at + KEPT_SECONDS * 1_000_000


_decoder = msgspec.json.Decoder(Token)


def token_key(tenant: str, id: str) -> ItemKey:
    return ItemKey(tenant, TOKEN, id)


def read_token(row: ItemRow) -> Token:
    return _decoder.decode(row.body)


def write_token(token: Token) -> bytes:
    return msgspec.json.encode(token)


def token_details(token: Token) -> dict[str, str]:
    """A token as the audit's note of its minting says. The hash is of 256 random bits, and gives nothing away."""
    minted_with = {"minted_with": token.minted_with} if token.minted_with else {}
    return {
        "user": token.user,
        "level": str(token.level),
        "scope": ",".join(token.scope),
        "expires_at": "never" if token.expires_at is None else str(token.expires_at),
        "maker": token.maker,
        "sha256": token.sha256,
        **minted_with,
    }


def make_text(id: str, secret: bytes) -> str:
    """The token as its user gets it."""
    return f"{TOKEN_MARK}{id}_{secret.hex()}"


def is_token(text: str) -> bool:
    """Whether it looks like a token and not like a name."""
    return text.startswith(TOKEN_MARK)


def digest_of(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()


def read_text(text: str) -> Presented:
    """A token's parts. Raises InvalidToken."""
    id, _, secret = text.removeprefix(TOKEN_MARK).partition("_")
    if not is_token(text) or len(id) != ID_LENGTH or not id.isalnum() or len(secret) != SECRET_LENGTH:
        raise InvalidToken(UNUSABLE)
    try:
        return Presented(id, digest_of(bytes.fromhex(secret)))
    except ValueError:
        raise InvalidToken(UNUSABLE) from None


def fits(presented: Presented, token: Token | None) -> bool:
    """Whether the secret is the token's. An unknown token takes as long as a wrong secret."""
    kept = bytes(32) if token is None else bytes.fromhex(token.sha256)
    return hmac.compare_digest(presented.digest, kept) and token is not None


def problem_of(token: Token, now: int) -> str | None:
    """Why a token cannot be used any more; None where it can."""
    if token.revoked:
        return "it was revoked"
    if token.expires_at is not None and token.expires_at <= now:
        return "it has expired"
    return None
