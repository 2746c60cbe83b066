"""Checks that whoever answered was an enabled user at that time, with a level and a group that allowed it.

A tenant without users has no entries of them, and gets no claim. From the first user on, an answer by anybody who is
not shown to be a user is a problem. Other acts may be the operator's own, who is no user of a tenant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from holdfast.audit import records
from holdfast.audit.check.claims import Findings
from holdfast.audit.facts import RunLine
from holdfast.audit.users import DECISIONS, UserState, named_people, state_of
from holdfast.people.names import person
from holdfast.people.permissions import ANSWER
from holdfast.people.users import user_subject
from holdfast.store.governance import AuditEntry

Recorded = Sequence[tuple[int, records.Record]]


def check_users(
    facts: RunLine, people: Sequence[tuple[AuditEntry, records.Record]], recorded: Recorded, findings: Findings
) -> None:
    """Check the entries of users, and everybody who answered by them."""
    if not people:
        return
    states: dict[str, list[UserState]] = {}
    problems = []
    for entry, record in people:
        try:
            state = state_of(entry.position or 0, record)
        except ValueError as error:
            problems.append(f"entry {entry.position} shows no user: {error}.")
            continue
        if (entry.tenant, entry.run, record.run) != (facts.tenant, user_subject(state.name), entry.run):
            problems.append(f"entry {entry.position} is about another user or tenant than it says.")
        states.setdefault(person(state.name), []).append(state)
    since = min((each.position for history in states.values() for each in history), default=0)
    problems += _answer_problems(states, [(at, record) for at, record in recorded if at > since])
    for problem in dict.fromkeys(problems):
        findings.broken("users", problem)
    if not problems:
        shown = {person(name) for at, name in named_people(recorded) if _known(states, name, at) is not None}
        text = f"everybody who answered was an enabled user who might, and {len(shown)} people are shown as users."
        findings.proved("users", text)


def _known(states: dict[str, list[UserState]], name: str, at: int) -> UserState | None:
    """A user as of an entry; None where nothing shows that they were one."""
    return next((each for each in reversed(states.get(person(name), [])) if each.position < at), None)


def _answer_problems(states: dict[str, list[UserState]], recorded: Recorded) -> Iterator[str]:
    asked: dict[str, list[records.Asked]] = {}
    for at, record in recorded:
        if not isinstance(record, records.Asked):
            continue
        asked.setdefault(record.task, []).append(record)
        if record.who is None or record.verdict not in DECISIONS:
            continue
        what = f"entry {at}: {record.who} answered task {record.task}, and"
        user = _known(states, record.who, at)
        if user is None:
            yield f"{what} nothing shows that they were a user of the tenant."
        elif not user.enabled:
            yield f"{what} entry {user.position} had disabled them."
        elif user.level < ANSWER:
            yield f"{what} by entry {user.position} they had level {user.level}, and needed {ANSWER}."
        elif not _may(user, asked[record.task]):
            yield f"{what} by entry {user.position} they were in no group that was asked, nor asked by name."


def _may(user: UserState, asked: Sequence[records.Asked]) -> bool:
    """Whether the task was for this user. Tasks of earlier versions do not say whom they are for."""
    names = [name for each in asked for name in each.candidates]
    groups = {group for each in asked for group in each.groups}
    if not names and not groups:
        return True
    return any(fnmatchcase(user.name, name) for name in names) or not groups.isdisjoint(user.groups)
