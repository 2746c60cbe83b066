"""The entries that show who somebody was: the last change of a user before each thing that they did to a run.

Such a change is an entry of the tenant's audit whose subject, in place of a run, is the user. The first user of a
tenant is shown in any case: from then on, whoever answers is a user.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from holdfast.audit import records
from holdfast.people.users import CHANGES, FIRST, user_subject
from holdfast.store.protocol import AuditEntry, ItemKey, Key, Span, Store
from holdfast.tasks.answers import ANSWERS

_PAGE: Final = 1000
DECISIONS: Final = frozenset(answer for answers in ANSWERS.values() for answer in answers)
_OPERATOR: Final = str(records.Operated.__struct_config__.tag)


class UserState(msgspec.Struct, frozen=True, gc=False):
    """A user from one entry on."""

    position: int
    name: str
    level: int
    groups: tuple[str, ...]
    enabled: bool


def state_of(position: int, record: records.Record) -> UserState:
    """A user after the change that a record tells of. Raises ValueError where it tells of none."""
    if not isinstance(record, records.Operated) or record.act not in CHANGES:
        raise ValueError("it is no change of a user")
    details = record.details
    try:
        groups = msgspec.json.decode(details["groups"], type=tuple[str, ...])
        return UserState(position, details["user"], int(details["level"]), groups, details["status"] == "enabled")
    except (KeyError, msgspec.MsgspecError) as error:
        raise ValueError(f"it does not say who the user is: {error}") from error


def named_people(recorded: Iterable[tuple[int, records.Record]]) -> list[tuple[int, str]]:
    """Who did something to a run, and at which entries."""
    found = list[tuple[int, str]]()
    for at, record in recorded:
        decides = isinstance(record, records.Asked) and record.verdict in DECISIONS
        if (decides or isinstance(record, records.Operated)) and (who := getattr(record, "who", None)) is not None:
            found.append((at, who))
    return found


async def user_entries(store: Store, sealed: Mapping[Key, Sequence[AuditEntry]]) -> dict[Key, list[AuditEntry]]:
    """For runs with these entries, the sealed entries that show who their people were, by position.

    Many runs take as many reads as one.
    """
    first = await _first_users(store, {key.tenant for key in sealed})
    people = {key: _people(entries) for key, entries in sealed.items() if key.tenant in first}
    origins = {tenant: Key(tenant, user_subject(name)) for tenant, name in first.items()}
    subjects = {*origins.values(), *(Key(key.tenant, user_subject(name)) for key in people for _, name in people[key])}
    changes: dict[Key, list[AuditEntry]] = {subject: [] for subject in subjects}
    async for entry in _changes(store, [Span(subject, kind=_OPERATOR) for subject in sorted(subjects)]):
        if entry.position is not None:
            changes[Key(entry.tenant, entry.run or "")].append(entry)
    return {key: _chosen(changes, origins[key.tenant], people[key]) if key in people else [] for key in sealed}


def _people(entries: Sequence[AuditEntry]) -> list[tuple[int, str]]:
    return named_people((entry.position or 0, records.decode(entry.body)) for entry in entries)


def _chosen(
    changes: Mapping[Key, Sequence[AuditEntry]], origin: Key, people: Sequence[tuple[int, str]]
) -> list[AuditEntry]:
    """The first user's first entry, and for each person the last one before what they did."""
    chosen = {entry.position or 0: entry for entry in changes[origin][:1]}
    for at, name in people:
        known = changes[Key(origin.tenant, user_subject(name))]
        before = bisect_left(known, at, key=lambda entry: entry.position or 0)
        chosen.update({entry.position or 0: entry for entry in known[max(0, before - 1) : before]})
    return [chosen[position] for position in sorted(chosen)]


async def _first_users(store: Store, tenants: Collection[str]) -> dict[str, str]:
    """The first users of those tenants that have users."""
    kind, id = FIRST
    only = next(iter(tenants)) if len(tenants) == 1 else None
    found: dict[str, str] = {}
    after: ItemKey | None = None
    while page := await store.items(kind, _PAGE, tenant=only, id=id, after=after):
        found.update({row.tenant: row.body.decode() for row in page if row.tenant in tenants})
        if len(page) < _PAGE:
            break
        after = page[-1].key
    return found


async def _changes(store: Store, spans: Sequence[Span]) -> AsyncIterator[AuditEntry]:
    """These entries by sequence, which is the order of their positions."""
    last: AuditEntry | None = None
    while spans and (page := await store.entries_in(spans, _PAGE, last)):
        for entry in page:
            yield entry
        if len(page) < _PAGE:
            return
        last = page[-1]
