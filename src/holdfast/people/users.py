"""Users: people and services of one tenant, each with a level and groups.

A user's item has the form of the name by which people are compared as its id, so two spellings of one name are one
user. A login is more strict than that: it finds a user by the spelling that is stored, or by one that was linked to the
user. No user is deleted: a user who is gone is disabled, and the name keeps its history. The tenant's item counts the
changes of its users of level 6, so that of two changes at once one sees the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from holdfast.errors import InvalidRequest, LastRuler
from holdfast.people.names import NAME, is_name, person
from holdfast.people.permissions import RULE, SEE
from holdfast.store.items import ItemKey, ItemRow

USER: Final = "user"
FIRST: Final = ("users", "first")
"""The kind and id of the item that names a tenant's first user."""
CREATE_USER: Final = "create_user"
CHANGE_USER: Final = "change_user"
CHANGES: Final = frozenset({CREATE_USER, CHANGE_USER})
"""The audit's words for changes of users."""
ENABLED: Final = "enabled"
DISABLED: Final = "disabled"
TOKEN_MARK: Final = "hf_"  # noqa: S105  # tokens begin with it
MOST_GROUPS: Final = 100
MOST_LOGINS: Final = 20
LONGEST_NAME: Final = 200


class User(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a user's item says. ``name`` is the id as it was first written; ``logins`` are other spellings of it, with
    which the user logs in as well."""

    name: str
    level: int
    groups: tuple[str, ...] = ()
    disabled: bool = False
    logins: tuple[str, ...] = ()

    @property
    def rules(self) -> bool:
        """Whether this user keeps the tenant's users."""
        return self.level >= RULE and not self.disabled

    @property
    def status(self) -> str:
        return DISABLED if self.disabled else ENABLED

    def logs_in_as(self, login: str) -> bool:
        """Whether a proxy or a provider that names ``login`` means this user. Names that look alike may be of other
        people there."""
        return login == self.name or login in self.logins


_decoder = msgspec.json.Decoder(User)


def user_key(tenant: str, name: str) -> ItemKey:
    """The item of a user, by any spelling of the name."""
    return ItemKey(tenant, USER, person(name))


def user_subject(name: str) -> str:
    """What the audit's entries of a user have in place of a run. No run has such an id."""
    return f"~user:{person(name)}"


def first_user_key(tenant: str) -> ItemKey:
    """The item that names the first user of a tenant: from then on, whoever answers a task is a user."""
    return ItemKey(tenant, *FIRST)


def read_user(row: ItemRow) -> User:
    return _decoder.decode(row.body)


def write_user(user: User) -> bytes:
    return msgspec.json.encode(user)


def user_details(user: User) -> dict[str, str]:
    """A user as the audit's note of a change says: all that counts from then on."""
    groups = msgspec.json.encode(user.groups).decode()
    logins = {"logins": msgspec.json.encode(user.logins).decode()} if user.logins else {}
    return {"user": user.name, "level": str(user.level), "groups": groups, "status": user.status, **logins}


def check_user_name(name: object) -> str:
    """A name for a new user. Raises InvalidRequest."""
    if not is_name(name) or not isinstance(name, str):
        raise InvalidRequest(f"a user is {NAME}, not {name!a:.60}")
    if len(name) > LONGEST_NAME or name.startswith(TOKEN_MARK) or any(sign in name for sign in "*?[~"):
        raise InvalidRequest(
            f"a user's name has at most {LONGEST_NAME} characters, no *, ?, [ or ~, and does not begin with "
            f"{TOKEN_MARK!r}, unlike {name!a:.60}"
        )
    return name


def check_login(user: User, login: object) -> str:
    """Another spelling of a user's name. Raises InvalidRequest."""
    login = check_user_name(login)
    if person(login) != person(user.name):
        raise InvalidRequest(
            f"{login!r:.100} is another name than {user.name!r}, not another spelling of it: "
            "make a user of that name instead."
        )
    if not user.logs_in_as(login) and len(user.logins) >= MOST_LOGINS:
        raise InvalidRequest(f"user {user.name!r} has {MOST_LOGINS} other spellings already: unlink one first.")
    return login


def unknown_login(tenant: str, login: str) -> str:
    """Why a login is refused. It is the same if there is a user of another spelling: names are not given away."""
    return (
        f"tenant {tenant!r} has no user {login!r:.100}, in this very spelling: "
        "for a login, capitals and other forms of a letter make a difference."
    )


def check_level(level: object) -> int:
    """A level from 1 to 6. Raises InvalidRequest."""
    if not isinstance(level, int) or isinstance(level, bool) or not SEE <= level <= RULE:
        raise InvalidRequest(f"a level is a whole number from {SEE} to {RULE}, not {level!r:.60}")
    return level


def check_groups(groups: Iterable[str]) -> tuple[str, ...]:
    """Names of groups, each once, in order. Raises InvalidRequest."""
    if isinstance(groups, str):
        raise InvalidRequest(f"groups are a list of names, not the text {groups!r:.60}")
    found = tuple(dict.fromkeys(groups))
    for name in found:
        if not is_name(name) or len(name) > LONGEST_NAME:
            raise InvalidRequest(f"a group is {NAME}, not {name!a:.60}")
    if len(found) > MOST_GROUPS:
        raise InvalidRequest(f"a user is in at most {MOST_GROUPS} groups, not in {len(found)}")
    return found


def check_rulers(tenant: str, before: User | None, after: User, others: Sequence[User]) -> None:
    """Raises LastRuler where nobody would be left who keeps the tenant's users. ``others`` are its other users."""
    if before is not None and before.rules and not after.rules and not any(each.rules for each in others):
        raise LastRuler(
            f"{before.name} is the last enabled user of level {RULE} in tenant {tenant!r}: "
            f"raise or enable another one first."
        )
