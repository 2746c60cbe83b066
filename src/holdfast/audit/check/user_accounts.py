"""The rules by which the items of a tenant's people and the audit's entries must agree.

Who may do what is read from items: users, tokens, links to accounts of a provider or of Slack, and sessions. Each
change of one is an entry in the same commit. So a level that no entry gave was given behind the engine's back.

Compared is only what an entry says: earlier versions said less, and what they did not say is not judged. An item that
no entry made is a problem in any case: every version recorded that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from holdfast.audit import records as r
from holdfast.people import identities, sessions, slack, tokens, users
from holdfast.people.names import person
from holdfast.store.items import ItemRow

_USER: Final = ("user", "level", "groups", "status", "logins")


class _Act(NamedTuple):
    """What an act of the audit says of an item: these details, and its status if the details do not have it.

    An act that says nothing but a status leaves the rest as it was.
    """

    kind: str
    details: tuple[str, ...] = ()
    status: str | None = None


_ACTS: Final = {
    users.CREATE_USER: _Act(users.USER, _USER),
    users.CHANGE_USER: _Act(users.USER, _USER),
    tokens.MINT: _Act(
        tokens.TOKEN, ("user", "level", "scope", "expires_at", "maker", "sha256", "minted_with"), tokens.ACTIVE
    ),
    tokens.REVOKE: _Act(tokens.TOKEN, (), tokens.REVOKED),
    identities.LINK: _Act(identities.IDENTITY, ("issuer", "subject", "made_by"), identities.LINKED),
    identities.UNLINK: _Act(identities.IDENTITY, (), identities.UNLINKED),
    slack.MAP_ACCOUNT: _Act(slack.ACCOUNT, ("user",), slack.MAPPED),
    slack.UNMAP_ACCOUNT: _Act(slack.ACCOUNT, (), slack.UNMAPPED),
    sessions.LOG_IN: _Act(sessions.SESSION, ("user", "token", "issuer", "expires_at", "proved_at"), sessions.OPEN),
    sessions.LOG_OUT: _Act(sessions.SESSION, (), sessions.ENDED),
}
_UNSAID: Final = {users.USER: {"logins": "[]"}, tokens.TOKEN: {"minted_with": ""}}
"""Details that an entry leaves out if they are empty; versions that did not know of them wrote no others."""

WORDS: Final = {
    users.USER: "user {}",
    tokens.TOKEN: "token {}",
    identities.IDENTITY: "the provider's account of user {}",
    slack.ACCOUNT: "Slack account {}",
    sessions.SESSION: "session {}",
}
"""The kinds of items that are compared, each with its name in a problem."""
LASTING: Final = frozenset({users.USER, identities.IDENTITY, slack.ACCOUNT})
"""The kinds that are never deleted. Tokens and sessions are, some time after they are over."""


class _Said(NamedTuple):
    value: str
    entry: r.Operated
    position: int | None


class ItemAccount:
    """What the entries of one item say of it."""

    def __init__(self) -> None:
        self._said: dict[str, _Said] = {}
        self._exists = False

    def take(self, record: r.Operated, position: int | None) -> None:
        """Take the next entry of this item."""
        act = _ACTS[record.act]
        self._exists = True
        said = {**_UNSAID.get(act.kind, {}), **record.details} if act.details else {}
        if act.kind == sessions.SESSION:
            said["user"] = record.who
        if act.details:
            self._said.clear()
        found = {name: said[name] for name in act.details if name in said}
        if act.status is not None:
            found["status"] = act.status
        self._said.update({name: _Said(value, record, position) for name, value in found.items()})

    def problem(self, row: ItemRow) -> str | None:
        """What the entries do not confirm of the item, in a sentence; None if they confirm all that they say."""
        name = WORDS[row.kind].format(row.id)
        if not self._exists:
            return f"{name}: the store has it, and no entry of the audit made it."
        try:
            stored = _READ[row.kind](row)
        except (*r.UNREADABLE, TypeError):
            return f"{name}: it was altered, and cannot be read."
        differing = list(self._differing(stored))
        return f"{name}: {'; '.join(differing)}." if differing else None

    def _differing(self, stored: Mapping[str, str]) -> Iterator[str]:
        for name, (value, _, position) in self._said.items():
            if (present := stored.get(name, "")) != value:
                entry = "an entry that is not sealed yet" if position is None else f"entry {position}"
                yield f"by {entry} its {name} is {value!a:.200}, and the store has {present!a:.200}"


def subject_of(record: r.Record) -> tuple[str, str] | None:
    """The kind and id of the item that an entry is about; None if it is about none of these."""
    if not isinstance(record, r.Operated) or (act := _ACTS.get(record.act)) is None:
        return None
    id = record.details.get("user" if act.kind == users.USER else act.kind)
    if id is None:
        return None
    return act.kind, person(id) if act.kind == users.USER else id


def missing(kind: str, id: str) -> str:
    """The problem of an item that has entries, is never deleted, and is not stored."""
    return f"{WORDS[kind].format(id)}: the audit has entries of it, and it is gone."


def _user(row: ItemRow) -> dict[str, str]:
    user = users.read_user(row)
    return {"logins": "[]", **users.user_details(user), "status": _agreed(row, user.status)}


def _token(row: ItemRow) -> dict[str, str]:
    token = tokens.read_token(row)
    return {**tokens.token_details(token), "status": _agreed(row, token.status)}


def _identity(row: ItemRow) -> dict[str, str]:
    return {**identities.identity_details(identities.read_identity(row)), "status": row.status}


def _slack(row: ItemRow) -> dict[str, str]:
    return {"user": msgspec.json.decode(row.body, type=slack.SlackAccount).user, "status": row.status}


def _session(row: ItemRow) -> dict[str, str]:
    session = sessions.read_session(row)
    return {**sessions.session_details(session), "user": session.user, "status": row.status}


def _agreed(row: ItemRow, status: str) -> str:
    """The status, which an item of this kind has twice: operations go by its content, lists by its column."""
    return status if row.status == status else f"{status} in its content, {row.status} in lists"


_READ: Final[Mapping[str, Callable[[ItemRow], dict[str, str]]]] = {
    users.USER: _user,
    tokens.TOKEN: _token,
    identities.IDENTITY: _identity,
    slack.ACCOUNT: _slack,
    sessions.SESSION: _session,
}
