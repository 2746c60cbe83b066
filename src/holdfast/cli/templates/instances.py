"""``templates start`` and ``instances``, and ``emit``: what starts instances, and how they stand."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli import exits, options, output, session
from holdfast.cli.pages import note_rest, read_list
from holdfast.client.engine import Holdfast
from holdfast.client.templates.emitter import EmittedInfo
from holdfast.client.views.states import INSTANCE_STATES
from holdfast.client.views.templates import TemplateInstance, template_instance_record
from holdfast.client.views.times import clock


@click.command()
@click.argument("id")
@click.option("--input", "input", metavar="JSON", help="The input; laid over the template's own, member by member.")
@click.option("--id", "run", metavar="ID", help="The instance's id: the same id finds the same one. Random by default.")
@click.option("--workspace", default="", metavar="NAME", help="Where it belongs: policy may judge by it.")
@click.option("--priority", type=int, default=0, show_default=True, help="Higher goes first.")
@options.steered_by
@options.tenant
@options.store
def start(
    id: str,
    input: str | None,
    run: str | None,
    workspace: str,
    priority: int,
    who: str,
    tenant: str,
    store: str | None,
    as_json: bool,
) -> None:
    """Start an instance of an active template. Over a cap it is queued."""
    given = None if input is None else options.value_of(input)

    async def work(app: Holdfast) -> TemplateInstance:
        starting = app.templates.start(id, given, id=run, workspace=workspace, priority=priority, tenant=tenant, by=who)
        handle = await session.patiently(app, starting)
        return await app.templates.instance(handle.id, tenant=tenant)

    found = session.on_store(session.url_of(store), work)
    if as_json:
        output.emit({**template_instance_record(found), "action": "start"})
    else:
        output.say(f"instance {found.id} of {found.template} is {found.status}")


@click.command()
@click.argument("id")
@click.option("--state", type=click.Choice(list(INSTANCE_STATES)), help="Only those in this state.")
@options.limit
@options.after
@options.tenant
@options.store
def instances(
    id: str, state: str | None, limit: int, after: str | None, tenant: str, store: str | None, as_json: bool
) -> None:
    """List what was started of a template, newest first, with the states of steps."""
    page = read_list(
        store,
        lambda app, size, place: app.templates.instances_page(id, state=state, limit=size, after=place, tenant=tenant),
        limit,
        after,
        template_instance_record if as_json else None,
    )
    if as_json:
        return
    if not page.items:
        output.note("no instances match.")
        return
    rows: list[list[output.Part]] = [
        [each.id, each.status, each.started_by or "", clock(each.started_at), _steps(each)] for each in page.items
    ]
    output.table(["instance", "status", "by", "started", "steps"], rows)
    note_rest(page, limit, "the newest")


def _steps(instance: TemplateInstance) -> str:
    return ", ".join(
        f"{step.name} {step.state}" + (f" ({step.retries} failed)" if step.retries else "") for step in instance.steps
    )


@click.command()
@click.argument("event")
@click.argument("data", required=False, metavar="[DATA]")
@click.option("--id", "id", required=True, metavar="ID", help="The event's own id: with it nothing is started twice.")
@click.option("--workspace", default="", metavar="NAME", help="Where the instances belong.")
@options.steered_by
@options.tenant
@options.store
def emit(
    event: str, data: str | None, id: str, workspace: str, who: str, tenant: str, store: str | None, as_json: bool
) -> int:
    """Emit EVENT with DATA (JSON, or plain text): each template whose route hears it starts one instance.

    Exit 1 where no template heard it.
    """
    given = None if data is None else options.value_of(data)

    async def work(app: Holdfast) -> EmittedInfo:
        emitting = app.emit(event, given, id=id, workspace=workspace, tenant=tenant, by=who)
        return await session.patiently(app, emitting)

    found = session.on_store(session.url_of(store), work)
    if as_json:
        output.emit(_emitted(found))
    else:
        for each in found.starts:
            output.say(
                f"{each.template} started {each.run}" if not each.problem else f"{each.template}: {each.problem}"
            )
        if not found.heard:
            output.note(f"no template started an instance for {event}: `holdfast templates list` shows their triggers.")
    return exits.GOOD if found.heard else exits.NO


def _emitted(found: EmittedInfo) -> dict[str, Any]:
    return {
        "event": found.event,
        "id": found.id,
        "tenant": found.tenant,
        "repeated": found.repeated,
        "heard": found.heard,
        "started": [{"template": each.template, "run": each.run} for each in found.starts if not each.problem],
        "problems": found.problems,
    }
