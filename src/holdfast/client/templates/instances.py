"""Instances of templates: runs, read off their journals in the words of templates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.client.views.states import InstanceState, states_of
from holdfast.client.views.templates import InstanceResult, InstanceStep, TemplateInstance
from holdfast.client.views.times import moment
from holdfast.errors import TemplateNotFound
from holdfast.runs.journals import read
from holdfast.store import protocol as p
from holdfast.templates.steps import steps_of
from holdfast.templates.story import standings_of, story_of, until_cancelled
from holdfast.templates.storyteller import calls_of
from holdfast.templates.template import TEMPLATE, TEMPLATE_VERSION

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

_RESULTS: Final[dict[InstanceState, InstanceResult]] = {
    "queued": "in_progress",
    "running": "in_progress",
    "completed": "success",
    "failed": "failure",
    "cancelled": "cancelled",
}


async def instance_view(app: Holdfast, row: p.Run) -> TemplateInstance:
    """An instance as it stands. Raises TemplateNotFound where no template started the run."""
    if TEMPLATE not in row.attributes:
        raise TemplateNotFound(f"run {row.key.run!r} of tenant {row.key.tenant!r} was not started by a template")
    entries = until_cancelled([entry async for entry in read(app.store, row)])
    calls = await calls_of(app.store, app.definitions.tools, row, entries)
    story = story_of(entries, calls, app.clock.now())
    status = await _status(app, row)
    plans = [] if calls.definition is None else steps_of(calls.definition)
    skipped = [name for name, mark in calls.marks.items() if mark.state == "skipped"]
    standings = standings_of(plans, story, skipped, completed=status == "completed")
    needs = {plan.name: plan.needs for plan in plans}
    steps = [
        InstanceStep(name, each.state, each.retries, moment(each.since), needs.get(name, ()))
        for name, each in standings.items()
    ]
    return TemplateInstance(
        id=row.key.run,
        template=row.attributes[TEMPLATE],
        template_version=int(row.attributes.get(TEMPLATE_VERSION, "1")),
        tenant=row.key.tenant,
        status=status,
        started_by=row.actor,
        started_at=moment(row.created_at),
        steps=tuple(steps),
        result=_RESULTS[status],
    )


async def _status(app: Holdfast, row: p.Run) -> InstanceState:
    """The state of an instance. It is cancelled from the request on, even where no worker has read that yet."""
    state: InstanceState = states_of(row)["instance"]  # type: ignore[assignment]  # a word of that table
    if row.standing in p.ENDED or state == "cancelled":
        return state
    inbox = (await app.store.messages([row.key])).get(row.key, [])
    return "cancelled" if any(received.message.kind == "cancel" for received in inbox) else state
