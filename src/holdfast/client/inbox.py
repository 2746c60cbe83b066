"""A person's inbox: the open tasks that they may answer now."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from holdfast.client.governance.parties import check_no_party
from holdfast.client.governance.staff import answerer
from holdfast.client.pages import check_limit
from holdfast.client.views.cursors import Page, read_cursor, write_cursor
from holdfast.client.views.tasks import TaskInfo, task_info
from holdfast.errors import InvalidRequest, NotPermitted, TaskClosed, TaskForbidden
from holdfast.people.names import person
from holdfast.people.users import read_user, user_key
from holdfast.store import protocol as p
from holdfast.tasks import answers
from holdfast.tasks.eligibility import approvers, holder_of, is_barred, is_candidate

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

_KIND: Final = "tasks"
_FIRST_READ: Final = 200
_READ: Final = 1000
"""How many open tasks are read at once: few at first, for most pages are full soon."""


async def inbox_of(
    app: Holdfast,
    tenant: str,
    by: str | None,
    groups: Sequence[str],
    limit: int,
    after: str | None,
    most_read: int | None,
) -> Page[TaskInfo]:
    """See ``Tasks.inbox``. All open tasks are looked through, until the page is full: about 10 µs for each that is
    somebody else's. Raises InvalidRequest where nobody is named."""
    who = app.person_of(by)
    if who is None:
        raise InvalidRequest("say whose tasks: by='their name'")
    row = await app.store.item(user_key(tenant, who))
    known = tuple(groups) if row is None else read_user(row).groups
    place, query = read_cursor(_KIND, after), p.TaskQuery(tenant, "requested")
    wanted, size, read, found = check_limit(limit), _FIRST_READ, 0, list[p.TaskRow]()
    while True:
        rows = await app.store.tasks(query, size, place)
        for task in rows:
            if may_answer(task, who, known):
                found.append(task)
                if len(found) == wanted:
                    return Page([task_info(each) for each in found], write_cursor(_KIND, task.cursor))
        if len(rows) < size:
            return Page([task_info(each) for each in found], None)
        place, size, read = rows[-1].cursor, _READ, read + len(rows)
        if most_read is not None and read >= most_read:
            return Page([task_info(each) for each in found], write_cursor(_KIND, place))
        await asyncio.sleep(0)  # others' requests go on meanwhile


def may_answer(task: p.TaskRow, who: str, groups: Collection[str]) -> bool:
    """Whether this person can answer the task now, as far as that can be known before they try."""
    holder = holder_of(task)
    if holder is not None:
        return person(holder) == person(who)
    if not is_candidate(task, who, groups):  # most tasks are other people's: nothing else is looked at
        return False
    said = person(who) in map(person, approvers(task))
    return not said and not (task.kind != "form" and is_barred(task, who))


async def refusal_of(app: Holdfast, task: p.TaskRow, by: str | None, groups: Sequence[str]) -> str | None:
    """See ``Tasks.refusal``: the answer is made and thrown away, so this says what answering would say."""
    try:
        who = await answerer(app, task.tenant, by, groups)
        answers.answer(task, who.name, answers.ANSWERS[task.kind][0], "", app.clock.now(), None, who.groups)
        await check_no_party(app, task, who.name)
    except (NotPermitted, TaskClosed, TaskForbidden) as error:
        return str(error)
    return None
