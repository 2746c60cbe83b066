"""Who may answer a task.

- Candidates are names or patterns, groups are names. Without any of either everybody may. A task that was escalated may
  be answered by those named for that as well.
- Nobody knows here who is in which group: whoever calls says it, and answers for it.
- Whoever is excluded may neither answer nor be given the task, by whatever way.
- Where the tier is high, whoever started the run can neither approve it nor say what became of it; so where nobody
  knows who that was, nobody can.
- One person may have a task: they claimed it, were assigned it, or it was delegated to them. They alone
  may answer it then.
"""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Final

from holdfast.people.names import person
from holdfast.store.governance import TaskRow

APPROVED: Final = "approved"

_PATTERN: Final = "*?["
"""What makes a pattern of a name; as a person it would be whoever calls themselves that."""


def is_pattern(name: str) -> bool:
    """Whether it stands for several people."""
    return any(sign in name for sign in _PATTERN)


def candidates_of(task: TaskRow) -> tuple[str, ...]:
    """The candidates, with those that an escalation added."""
    added = task.escalation.candidates if task.escalation is not None and task.escalated_at is not None else ()
    return (*task.candidates, *(name for name in added if name not in task.candidates))


def groups_of(task: TaskRow) -> tuple[str, ...]:
    """The groups, with those that an escalation added."""
    added = task.escalation.groups if task.escalation is not None and task.escalated_at is not None else ()
    return (*task.groups, *(name for name in added if name not in task.groups))


def is_candidate(task: TaskRow, who: str, groups: Collection[str] = ()) -> bool:
    """Whether this person, who is in these groups, was asked, whoever has the task by now."""
    if is_excluded(task, who):
        return False
    if not task.candidates and not task.groups:
        return True
    return any(fnmatchcase(who, each) for each in candidates_of(task)) or any(map(groups_of(task).__contains__, groups))


def is_excluded(task: TaskRow, who: str) -> bool:
    """Whether the task is not for this person, however the name is written."""
    return bool(task.excluded) and person(who) in map(person, task.excluded)


def holder_of(task: TaskRow) -> str | None:
    """The one person who may answer, where the task is somebody's."""
    holder = task.delegated_to or task.owner
    if holder is None or is_excluded(task, holder):
        return None
    # Older versions let an approval go to somebody whom policy did not name. Of groups only who gave it away knew.
    return holder if groups_of(task) or is_candidate(task, holder) else None


def approvers(task: TaskRow) -> list[str]:
    """Who has approved it so far, in order."""
    return [said.who for said in task.answers if said.verdict == APPROVED]


def is_barred(task: TaskRow, who: str) -> bool:
    """Whether it is another person's to let the act be done, because this one started the run and the tier is high.

    Where nobody knows who started it, it may have been anyone.
    """
    return task.tier == "high" and (task.starter is None or person(who) == person(task.starter))


def is_unanswerable(task: TaskRow) -> bool:
    """Whether all that could answer it are known by name, and none of them may. An escalation may change that."""
    if task.status != "requested" or groups_of(task):
        return False
    if task.tier == "high" and task.starter is None:
        return True
    named = candidates_of(task)
    if not named or any(map(is_pattern, named)):
        return False
    said = {person(who) for who in approvers(task)}
    return all(is_excluded(task, who) or is_barred(task, who) or person(who) in said for who in named)


def describe_people(task: TaskRow) -> str:
    """Who may answer, in words; empty where everybody may."""
    named = [*candidates_of(task), *(f"group {group}" for group in groups_of(task))]
    return ", ".join(named)
