"""``start``: a new run, and optionally its result."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import click

from holdfast.cli import exits, options, output, session
from holdfast.client.engine import Holdfast
from holdfast.client.handle import RunHandle
from holdfast.client.views import records
from holdfast.errors import HoldfastError, InvalidArguments, RunCancelled, RunFailed, RunParked
from holdfast.runs.birth import Trigger
from holdfast.store.protocol import FUNCTION, Key

_OWN: Final = {"id", "tenant", "priority", "attributes", "workspace", "actor", "trigger"}


@click.command()
@click.argument("workflow")
@click.argument("args", nargs=-1)
@click.option("--kwargs", metavar="JSON", help="Named arguments as a JSON object.")
@click.option("--id", "id", metavar="ID", help="The run's id: the same id finds the same run. Random by default.")
@click.option("--priority", type=int, default=0, show_default=True, help="Higher goes first.")
@click.option("--attribute", "attributes", type=options.Pair(), multiple=True, metavar="K=V", help="To find it by.")
@click.option("--actor", metavar="NAME", help="Who asks for it: policy may judge by it, and the audit keeps it.")
@click.option("--workspace", default="", metavar="NAME", help="Where it belongs: policy may judge by it.")
@click.option(
    "--trigger", type=options.TypedReference(), metavar="TYPE:REF", help="What made you start it; without --id, the id."
)
@click.option("--wait", is_flag=True, help="Wait for the end; exit 1 if the run fails, is cancelled or is parked.")
@click.option(
    "--timeout", type=options.Duration(), metavar="TIME", help="With --wait: give up waiting after, e.g., 30s."
)
@options.app
@options.tenant
@options.store
def start(
    workflow: str,
    args: tuple[str, ...],
    kwargs: str | None,
    id: str | None,
    priority: int,
    attributes: tuple[tuple[str, str], ...],
    actor: str | None,
    workspace: str,
    trigger: tuple[str, str] | None,
    wait: bool,
    timeout: float | None,
    app: str | None,
    tenant: str,
    store: str | None,
    as_json: bool,
) -> int:
    """Start a run of WORKFLOW with ARGS (each JSON, or plain text).

    With --app the workflow's own signature checks the arguments; without, any are taken, and a worker checks them.
    """
    positional = [options.value_of(text) for text in args]
    named = {} if kwargs is None else options.object_of(kwargs, "--kwargs")
    if taken := sorted(_OWN & named.keys()):
        raise click.UsageError(f"{taken[0]!r} is an option of start itself: give that argument by position.")
    url = _url_of(workflow, app, store)

    cause = None if trigger is None else Trigger(*trigger)
    chosen = id if id is not None or cause is None else cause.run_id(workflow)

    async def work(engine: Holdfast) -> int:
        before = [] if chosen is None else await engine.store.get([Key(tenant, chosen)])
        begun = engine.start(
            workflow,
            *positional,
            id=id,
            tenant=tenant,
            priority=priority,
            attributes=dict(attributes),
            workspace=workspace,
            actor=actor,
            trigger=cause,
            **named,
        )
        with _hint(args, positional):
            handle: RunHandle[Any] = await session.patiently(engine, begun)
        await _remark(engine, workflow)
        if wait:
            return await _await(handle, timeout, as_json)
        await _tell(handle, not before, as_json)
        return exits.GOOD

    return session.on_store(url, work, create=True)


@contextmanager
def _hint(texts: tuple[str, ...], values: list[Any]) -> Iterator[None]:
    """Where an argument does not fit, say what became of those that look like texts and are JSON."""
    try:
        yield
    except InvalidArguments as error:
        read = next(
            (t for t, value in zip(texts, values, strict=True) if not isinstance(value, (str, dict, list))), None
        )
        if read is None or "does not fit str" not in str(error):
            raise
        quoted = shlex.quote(json.dumps(read))
        raise InvalidArguments(
            f"{error}. Arguments are JSON where they can be: {quoted} is the text {read}."
        ) from error


def _url_of(workflow: str, app: str | None, store: str | None) -> str:
    if app is None:
        return session.url_of(store)
    from holdfast.cli.apps import check_workflow, load_app

    engine = load_app(app)
    check_workflow(workflow)
    return session.url_of(store, engine)


async def _remark(engine: Holdfast, workflow: str) -> None:
    """Tell at once what would only show as a run that never moves."""
    workers = await engine.store.workers()
    if not workers:
        output.note("no worker is running: `holdfast worker APP` starts one.")
    elif not any(worker.serves.takes(FUNCTION, workflow) for worker in workers):
        output.note(f"none of the {len(workers)} running workers knows a workflow {workflow!r}.")


async def _tell(handle: RunHandle[Any], new: bool, as_json: bool) -> None:
    row = await handle.info()
    if as_json:
        output.emit({**records.run_record(row), "action": "start", "new": new})
    else:
        output.say(f"run {row.key.run} started" if new else f"run {row.key.run} was there already: {row.status}")


async def _await(handle: RunHandle[Any], timeout: float | None, as_json: bool) -> int:
    trouble: HoldfastError | None = None
    result = None
    try:
        result = records.plain(await handle.result(timeout))
    except (RunFailed, RunCancelled, RunParked) as error:
        trouble = error
    except TimeoutError:
        output.note(f"run {handle.id} has not ended yet: {await handle.explain()}")
    row = await handle.info()
    if as_json:
        output.emit({**records.run_record(row), "action": "start", "result": result})
    elif trouble is not None:
        output.note(f"error: {trouble}")
    elif row.status == "completed":
        output.say(records.compact(result))
    return exits.GOOD if row.status == "completed" else exits.NO
