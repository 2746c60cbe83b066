"""The link between a user and an account of a provider of identities: issuer and subject, which never change.

A link's item has the id of the user's. One that was taken off stays, as ``unlinked``: the next login links anew.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.people.names import person
from holdfast.store.items import ItemKey, ItemRow

IDENTITY: Final = "identity"
LINKED: Final = "linked"
UNLINKED: Final = "unlinked"


class Identity(msgspec.Struct, frozen=True):
    """An account: who vouches for it, and what it is called there."""

    issuer: str
    subject: str


_decoder = msgspec.json.Decoder(Identity)


def identity_key(tenant: str, user: str) -> ItemKey:
    """The item of a user's link, by any spelling of the name."""
    return ItemKey(tenant, IDENTITY, person(user))


def read_identity(row: ItemRow) -> Identity:
    return _decoder.decode(row.body)


def write_identity(identity: Identity) -> bytes:
    return msgspec.json.encode(identity)
