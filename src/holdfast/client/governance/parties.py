"""Parties to a run beside the person who started it: they may not approve what it asks at tier high, either.

A run acts in the name of its starter to its end. Who resumes, retries or moves it has decided that it acts again; and
who last changed a template has decided what the instances do that a schedule, a webhook or an event starts. The parties
to a run are parties to its children.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.audit.collector import entries_in
from holdfast.audit.records import UNREADABLE, Operated, decode
from holdfast.errors import TaskForbidden
from holdfast.people.names import person
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

_ACTS: Final = {"resume": "resumed", "retry": "retried", "migrate": "moved"}
_OPERATED: Final = str(Operated.__struct_config__.tag)


async def check_no_party(app: Holdfast, task: p.TaskRow, who: str) -> None:
    """Raises TaskForbidden if the person is a party to the run, and the act that the task is about is of tier high."""
    if task.tier != "high" or task.kind == "form":
        return
    from holdfast.templates.template import TEMPLATE, TEMPLATE_OWNER  # a client that only lists tasks does not load it

    runs = await _run_and_those_above(app, p.Key(task.tenant, task.run))
    for run in runs:
        if (owner := run.attributes.get(TEMPLATE_OWNER)) is not None and person(owner) == person(who):
            raise _forbidden(who, f"last changed template {run.attributes.get(TEMPLATE)}, which this run is of,")
    async for entry in entries_in(app.store, [p.Span(run.key, kind=_OPERATED) for run in runs]):
        try:
            record = decode(entry.body)
        except UNREADABLE:
            continue
        if isinstance(record, Operated) and record.act in _ACTS and person(record.who) == person(who):
            raise _forbidden(who, f"{_ACTS[record.act]} run {record.run}")


def _forbidden(who: str, what: str) -> TaskForbidden:
    return TaskForbidden(f"{who} {what} and may not let it act at tier high: another person must.")


async def _run_and_those_above(app: Holdfast, key: p.Key) -> list[p.Run]:
    """The run of a task and its parents."""
    found: list[p.Run] = []
    while rows := await app.store.get([key]):
        found += rows
        if rows[0].parent is None:
            break
        key = p.Key(key.tenant, rows[0].parent)
    return found
