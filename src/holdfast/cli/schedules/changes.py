"""``schedules create`` and ``change``."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli import options, output, session
from holdfast.cli.apps import load_app
from holdfast.cli.schedules.options import given, settings
from holdfast.client.engine import Holdfast
from holdfast.client.views.schedules import ScheduleInfo, schedule_json
from holdfast.client.views.times import clock


@click.command()
@click.argument("id")
@click.argument("workflow", required=False)
@settings
@click.option("--paused", is_flag=True, help="Make it paused.")
@options.steered_by
@options.why
@options.tenant
@options.store
def create(
    id: str,
    workflow: str | None,
    app: str | None,
    paused: bool,
    who: str,
    reason: str,
    tenant: str,
    store: str | None,
    as_json: bool,
    **others: Any,
) -> None:
    """Make the schedule ID, which starts WORKFLOW, a definition's NAME@VERSION, or the --template."""

    async def work(engine: Holdfast) -> ScheduleInfo:
        if loaded is not None:
            engine.adopt(loaded)
        making = engine.schedules.create(
            id, workflow, paused=paused, tenant=tenant, by=who, reason=reason, **given(**others)
        )
        return await session.patiently(engine, making)

    loaded = None if app is None else load_app(app)
    _report(session.on_store(session.url_of(store, loaded), work, create=True), "create", as_json)


@click.command()
@click.argument("id")
@click.argument("workflow", required=False)
@settings
@options.steered_by
@options.why
@options.tenant
@options.store
def change(
    id: str,
    workflow: str | None,
    app: str | None,
    who: str,
    reason: str,
    tenant: str,
    store: str | None,
    as_json: bool,
    **others: Any,
) -> None:
    """Change what is given of the schedule ID; the rest stays, and no tick is lost."""

    async def work(engine: Holdfast) -> ScheduleInfo:
        if loaded is not None:
            engine.adopt(loaded)
        changing = engine.schedules.change(id, workflow, tenant=tenant, by=who, reason=reason, **given(**others))
        return await session.patiently(engine, changing)

    loaded = None if app is None else load_app(app)
    _report(session.on_store(session.url_of(store, loaded), work), "change", as_json)


def _report(info: ScheduleInfo, action: str, as_json: bool) -> None:
    if as_json:
        output.emit({**schedule_json(info), "action": action})
        return
    word = {"create": "made", "change": "changed"}[action]
    due = "nothing is due" if info.due_at is None else f"the next tick is {clock(info.due_at)}"
    output.say(f"schedule {info.id} is {word}: {info.timing}; {due}")
