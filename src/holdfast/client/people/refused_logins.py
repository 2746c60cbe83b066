"""Logins that were refused, and that a person of level 6 could allow: the name is another spelling of a user's, or the
account is not linked to the user.

The audit has an entry of each. The last ones of each user are kept in an item of the user's look, too, so that
`holdfast doctor` finds them without reading the audit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.client.items import Change, change_item
from holdfast.client.people.refusals import REFUSE, WINDOW_SECONDS
from holdfast.people.names import person
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.client.engine import Holdfast

REFUSED_LOGINS: Final = "refused_logins"
"""The kind of the items."""
MOST_KEPT: Final = 20


class RefusedLogin(msgspec.Struct, frozen=True, omit_defaults=True):
    """A login that was refused: the name as it was given, and the account, if a provider vouched for it. ``level`` is
    that of the login if only a link that a person makes was missing."""

    login: str
    at: int
    issuer: str = ""
    subject: str = ""
    level: int | None = None

    @property
    def details(self) -> Mapping[str, str]:
        account = {"issuer": self.issuer, "subject": self.subject} if self.issuer else {}
        return {"login": self.login, **account}


_decoder = msgspec.json.Decoder(tuple[RefusedLogin, ...])


def refused_logins_key(tenant: str, login: str) -> p.ItemKey:
    """The item of all spellings of one look."""
    return p.ItemKey(tenant, REFUSED_LOGINS, person(login))


def read_refused_logins(row: p.ItemRow) -> tuple[RefusedLogin, ...]:
    """The logins of an item, oldest first."""
    return _decoder.decode(row.body)


async def note_login(engine: Holdfast, tenant: str, refused: RefusedLogin, by: str, reason: str) -> None:
    """Keep that this login was refused, with its entry in the audit. ``engine`` must be bound to nobody."""

    def change(present: p.ItemRow | None) -> Change:
        before = () if present is None else read_refused_logins(present)
        others = [each for each in before if each.details != refused.details]
        kept = [*others, refused][-MOST_KEPT:]
        return Change(msgspec.json.encode(kept), details=refused.details)

    await change_item(engine, refused_logins_key(tenant, refused.login), REFUSE, change, by=by, reason=reason)


async def note_spelling(engine: Holdfast, tenant: str, login: str, reason: str) -> None:
    """The same for a name that a proxy gives with every request: one entry a minute for all spellings of one look."""
    now = engine.clock.now()
    row = await engine.whole_store.item(refused_logins_key(tenant, login))
    if row is None or not 0 <= now - row.changed_at < WINDOW_SECONDS * 1_000_000:
        await note_login(engine, tenant, RefusedLogin(login, now), login, reason)
