"""Who may answer a task.

- Candidates are names or patterns, groups are names. A task with neither may be answered by everybody. After an
  escalation the people named for it may answer, too.
- Membership of groups is not known here: the caller gives a person's groups. Where the tenant has users, these are the
  user's own; else whoever calls is responsible for them.
- An excluded person may neither answer the task nor be given it.
- Where the tier is high, the person who started the run can neither approve it nor give its outcome. Where nobody knows
  who started it, nobody can.
- A task may have one holder, who claimed it, was assigned it, or had it delegated. Then only the holder may answer.
"""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Final

from holdfast.people.names import person
from holdfast.store.governance import TaskRow

APPROVED: Final = "approved"

_PATTERN: Final = "*?["
"""The characters of a pattern. A task must not go to a person whose name has one."""


def is_pattern(name: str) -> bool:
    """Whether it stands for several people."""
    return any(sign in name for sign in _PATTERN)


def candidates_of(task: TaskRow) -> tuple[str, ...]:
    """The candidates, with those that an escalation added."""
    if task.escalation is None or task.escalated_at is None:
        return task.candidates
    return (*task.candidates, *(name for name in task.escalation.candidates if name not in task.candidates))


def groups_of(task: TaskRow) -> tuple[str, ...]:
    """The groups, with those that an escalation added."""
    if task.escalation is None or task.escalated_at is None:
        return task.groups
    return (*task.groups, *(name for name in task.escalation.groups if name not in task.groups))


def is_candidate(task: TaskRow, who: str, groups: Collection[str] = ()) -> bool:
    """Whether this person, who is in these groups, is a candidate. The holder does not matter."""
    if is_excluded(task, who):
        return False
    if not task.candidates and not task.groups:
        return True
    if any(map(groups_of(task).__contains__, groups)):
        return True
    candidates = candidates_of(task)
    return bool(candidates) and any(fnmatchcase(who, each) for each in candidates)


def is_excluded(task: TaskRow, who: str) -> bool:
    """Whether the person is excluded from the task, in whatever spelling of the name."""
    return bool(task.excluded) and person(who) in map(person, task.excluded)


def holder_of(task: TaskRow) -> str | None:
    """The holder of the task, who alone may answer it; None where it has none."""
    holder = task.delegated_to or task.owner
    if holder is None or is_excluded(task, holder):
        return None
    # Older versions let an approval go to somebody who was no candidate: that holder does not count. Where the task
    # has groups, this cannot be checked, because the holder's groups are not known here.
    return holder if groups_of(task) or is_candidate(task, holder) else None


def approvers(task: TaskRow) -> list[str]:
    """The people who have approved it so far, in order."""
    return [answer.who for answer in task.answers if answer.verdict == APPROVED]


def is_barred(task: TaskRow, who: str) -> bool:
    """Whether this person may not let the act be done, because they started the run and the tier is high.

    Where nobody knows who started the run, it may have been anyone, so everybody is barred.
    """
    return task.tier == "high" and (task.starter is None or person(who) == person(task.starter))


def is_unanswerable(task: TaskRow) -> bool:
    """Whether all candidates are known by name, and none of them may answer. An escalation may change that."""
    if task.status != "requested" or groups_of(task):
        return False
    if task.tier == "high" and task.starter is None:
        return True
    named = candidates_of(task)
    if not named or any(map(is_pattern, named)):
        return False
    approved = {person(who) for who in approvers(task)}
    return all(is_excluded(task, who) or is_barred(task, who) or person(who) in approved for who in named)


def describe_people(task: TaskRow) -> str:
    """The candidates and groups, in words; empty where everybody may answer."""
    named = [*candidates_of(task), *(f"group {group}" for group in groups_of(task))]
    return ", ".join(named)
