"""The link between a user and an account of a provider of identities: issuer and subject, which never change.

A link's item has the id of the user's. One that was taken off stays, as ``unlinked``: below ``LINKED_BY_PEOPLE`` the
next login links anew. From that level on a link is made by a person: a user of level 6, or the operator.
"""

from __future__ import annotations

import shlex
from typing import Final

import msgspec

from holdfast.errors import InvalidRequest
from holdfast.people.names import person
from holdfast.people.permissions import AUTHOR
from holdfast.people.users import User
from holdfast.store.items import ItemKey, ItemRow

IDENTITY: Final = "identity"
LINK: Final = "link_identity"
UNLINK: Final = "unlink_identity"
"""The audit's words for changes of links."""
LINKED: Final = "linked"
UNLINKED: Final = "unlinked"
LOGIN: Final = "login"
PERSON: Final = "person"
LINKED_BY_PEOPLE: Final = AUTHOR
"""From this level on no login links a user."""
LONGEST: Final = 500
"""Characters of an issuer, and of a subject."""


class Identity(msgspec.Struct, frozen=True, omit_defaults=True):
    """An account: who vouches for it, and what it is called there. ``made_by`` is what linked it: ``login``,
    ``person``, or nothing if it was an older version, which did not record that."""

    issuer: str
    subject: str
    made_by: str = ""

    @property
    def account(self) -> tuple[str, str]:
        return self.issuer, self.subject


_decoder = msgspec.json.Decoder(Identity)


def identity_key(tenant: str, user: str) -> ItemKey:
    """The item of a user's link, by any spelling of the name."""
    return ItemKey(tenant, IDENTITY, person(user))


def read_identity(row: ItemRow) -> Identity:
    return _decoder.decode(row.body)


def write_identity(identity: Identity) -> bytes:
    return msgspec.json.encode(identity)


def identity_details(identity: Identity) -> dict[str, str]:
    """A link as the audit's note of it says."""
    return {"issuer": identity.issuer, "subject": identity.subject, "made_by": identity.made_by}


def check_account(issuer: object, subject: object) -> Identity:
    """An account that a person links. Raises InvalidRequest."""
    for name, text in (("issuer", issuer), ("subject", subject)):
        if not isinstance(text, str) or not text.strip() or len(text) > LONGEST or not text.isprintable():
            raise InvalidRequest(
                f"an account is its issuer and its subject, each a text of 1 to {LONGEST} visible characters, as the "
                f"provider's tokens have them; the {name} is {text!a:.60}."
            )
    return Identity(str(issuer), str(subject), PERSON)


def link_command(tenant: str, user: str, *ways: str) -> str:
    """The command that links an account, or another spelling, to a user, to be given at a shell."""
    return shlex.join(["holdfast", "users", "link", user, "--tenant", tenant, *ways])


def may_log_in(user: User | None, level: int | None, link: Identity | None) -> bool:
    """Whether an account that is linked so may log in as the user, with the level that the claims give; None where
    levels are kept here.

    Levels 5 and 6 need a link that a person made. One of an older version counts for the level that its user has.
    """
    present = 0 if user is None else user.level
    wanted = present if level is None else level
    if max(present, wanted) < LINKED_BY_PEOPLE or (link is not None and link.made_by == PERSON):
        return True
    return link is not None and not link.made_by and wanted <= present
