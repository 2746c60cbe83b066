"""The secrets of webhooks as they are kept: in items of their own, which no view reads.

A signature can only be made or checked with the secret itself, so a hash is not enough. Where a process has the
passphrase of the audit's keys, what it keeps is encrypted with it, and can be read only where it is set.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal

import msgspec

from holdfast.audit.keychain import passphrase_of_environment
from holdfast.audit.keys import PASSPHRASE_VARIABLE
from holdfast.errors import KeyLocked, StoreCorrupt
from holdfast.store.items import ItemKey, ItemRow

SECRET: Final = "webhook_secret"  # noqa: S105  # the kind of an item

Direction = Literal["in", "out"]


class KeptSecrets(msgspec.Struct, frozen=True, omit_defaults=True):
    """The present secret, and the one before it, which counts until a time."""

    present: str
    before: str = ""
    until: int = 0

    def at(self, now: int) -> Sequence[str]:
        """The secrets that count, the present one first."""
        return (self.present, self.before) if self.before and now < self.until else (self.present,)

    def __repr__(self) -> str:
        """A secret is in no log."""
        return "KeptSecrets(…)"


class _Box(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an item has of it: as it is, or encrypted."""

    plain: KeptSecrets | None = None
    salt: str = ""
    nonce: str = ""
    sealed: str = ""


def secret_key(tenant: str, direction: Direction, id: str) -> ItemKey:
    return ItemKey(tenant, SECRET, f"{direction}:{id}")


def sealed(kept: KeptSecrets, key: ItemKey) -> bytes:
    """The body of the item. It can be opened at this key only."""
    passphrase = passphrase_of_environment()
    if passphrase is None:
        return msgspec.json.encode(_Box(kept))
    salt, nonce = os.urandom(16), os.urandom(12)
    data = _cipher(passphrase, salt).encrypt(nonce, msgspec.json.encode(kept), _place(key))
    return msgspec.json.encode(_Box(None, *(base64.b64encode(part).decode() for part in (salt, nonce, data))))


def opened(row: ItemRow) -> KeptSecrets:
    """The secrets of an item. Raises KeyLocked, or StoreCorrupt."""
    try:
        box = msgspec.json.decode(row.body, type=_Box)
    except msgspec.MsgspecError:
        raise StoreCorrupt(f"the secret of webhook {row.id} of tenant {row.tenant!r} cannot be read") from None
    if box.plain is not None:
        return box.plain
    passphrase = passphrase_of_environment()
    if passphrase is None:
        raise KeyLocked(f"the secret of webhook {row.id} is encrypted: set {PASSPHRASE_VARIABLE} to its passphrase.")
    found = _unsealed(box, row.key, passphrase)
    if found is None:
        raise KeyLocked(
            f"the secret of webhook {row.id} cannot be opened: set {PASSPHRASE_VARIABLE} to the one it was kept with."
        )
    return found


@lru_cache(maxsize=1024)
def _unsealed(box: _Box, key: ItemKey, passphrase: str) -> KeptSecrets | None:
    """None if this passphrase does not open it, which is remembered, too: each try takes 50 ms."""
    from cryptography.exceptions import InvalidTag

    salt, nonce, data = (base64.b64decode(part) for part in (box.salt, box.nonce, box.sealed))
    try:
        found = _cipher(passphrase, salt).decrypt(nonce, data, _place(key))
        return msgspec.json.decode(found, type=KeptSecrets)
    except (InvalidTag, ValueError):
        return None


def _cipher(passphrase: str, salt: bytes):  # type: ignore[no-untyped-def]  # its type is the library's
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    return AESGCM(Scrypt(salt=salt, length=32, n=2**14, r=8, p=1).derive(passphrase.encode()))


def _place(key: ItemKey) -> bytes:
    return "\0".join(key).encode()
