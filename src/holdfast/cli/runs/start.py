"""``start``: a new run, and optionally its result."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from holdfast.cli import exits, options, output, session
from holdfast.cli.apps import check_startable, load_app
from holdfast.cli.progress import write_progress
from holdfast.client.engine import Holdfast
from holdfast.client.people.permission import operating
from holdfast.client.runs.handle import RunHandle
from holdfast.client.runs.progress import progress_record
from holdfast.client.views.runs import RunInfo, run_record
from holdfast.client.views.values import compact, plain
from holdfast.errors import HoldfastError, InvalidArguments, RunCancelled, RunFailed, RunParked
from holdfast.runs.birth import Trigger
from holdfast.store.protocol import FUNCTION

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
    "--trigger",
    type=options.TypedReference(),
    metavar="TYPE:REF",
    help="Why you start it; the same finds the same run.",
)
@click.option("--wait", is_flag=True, help="Wait for the end; exit 1 if the run fails, is cancelled or is parked.")
@click.option(
    "--timeout", type=options.Duration(), metavar="TIME", help="With --wait: give up waiting after, e.g., 30s."
)
@options.settle
@options.app
@options.definitions
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
    settle: float | None,
    app: str | None,
    definitions: tuple[Path, ...],
    tenant: str,
    store: str | None,
    as_json: bool,
) -> int:
    """Start a run of WORKFLOW with ARGS (each JSON, or plain text).

    WORKFLOW is the name of a function, or of a definition that is published or given: NAME or NAME@VERSION.
    With --app the workflow's own signature checks the arguments; without, any are taken, and a worker checks them.
    """
    if wait and settle is not None:
        raise click.UsageError("--wait is for the end of the run, --settle for its next rest: give one of them.")
    positional, named = _arguments(args, kwargs)
    given, url = _load(app, definitions, store)
    cause = None if trigger is None else Trigger(*trigger)

    async def work(engine: Holdfast) -> int:
        if given is not None:
            engine.adopt(given)
        if app is not None or definitions:
            async with operating(engine, "runs.start", tenant):
                await check_startable(engine, workflow, tenant)
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
        await _remark(engine, await handle.info())
        if settle is not None:
            return await _settled(handle, settle, as_json)
        if wait:
            return await _await(handle, timeout, as_json)
        await _write(handle, as_json)
        return exits.GOOD

    return session.on_store(url, work, create=True, app=given, waits=True)


def _arguments(args: tuple[str, ...], kwargs: str | None) -> tuple[list[Any], dict[str, Any]]:
    positional = [options.value_of(text) for text in args]
    named = {} if kwargs is None else options.object_of(kwargs, "--kwargs")
    if taken := sorted(_OWN & named.keys()):
        raise click.UsageError(f"{taken[0]!r} is an option of start itself: give that argument by position.")
    return positional, named


@contextmanager
def _hint(texts: tuple[str, ...], values: list[Any]) -> Iterator[None]:
    """Where an argument does not fit, explain that an argument which looks like a text was read as JSON."""
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


def _load(app: str | None, definitions: tuple[Path, ...], store: str | None) -> tuple[Holdfast | None, str]:
    """The engine with the code and the definitions that are given, if any are, and the URL of the store."""
    engine = None if app is None else load_app(app)
    url = session.url_of(store, engine)
    if engine is None and definitions:
        engine = Holdfast(url)
    if engine is not None:
        engine.definitions.give(definitions, "strict")
        engine.definitions.accept_sources()
    return engine, url


async def _remark(engine: Holdfast, run: RunInfo) -> None:
    """Say at once that no worker would take the run: else it would only show as a run that never moves."""
    async with operating(engine, "runs.see"):
        workers = await engine.store.workers()
    if not workers:
        output.note("no worker is running: `holdfast worker APP` starts one.")
    elif not any(worker.serves.takes(run.program_kind, run.workflow) for worker in workers):
        hint = " A definition is found once it is published, or with --definitions or --app."
        output.note(
            f"none of the {len(workers)} running workers knows a workflow {run.workflow!r}."
            f"{hint if run.program_kind == FUNCTION else ''}"
        )


async def _write(handle: RunHandle[Any], as_json: bool) -> None:
    info, new = await handle.info(), handle.is_new
    if as_json:
        output.emit({**run_record(info), "action": "start", "new": new})
    else:
        output.say(f"run {info.id} started" if new else f"run {info.id} was there already: {info.status}")


async def _settled(handle: RunHandle[Any], seconds: float, as_json: bool) -> int:
    progress = await handle.settled(seconds)
    if as_json:
        output.emit({**progress_record(progress), "action": "start"})
    else:
        write_progress(progress)
    return exits.NO if progress.status in ("failed", "cancelled") else exits.GOOD


async def _await(handle: RunHandle[Any], timeout: float | None, as_json: bool) -> int:
    trouble: HoldfastError | None = None
    result = None
    try:
        result = plain(await handle.result(timeout))
    except (RunFailed, RunCancelled, RunParked) as error:
        trouble = error
    except TimeoutError:
        output.note(f"run {handle.id} has not ended yet: {await handle.explain()}")
    info = await handle.info()
    if as_json:
        output.emit({**run_record(info), "action": "start", "result": result})
    elif trouble is not None:
        output.note(f"error: {trouble}")
    elif info.status == "completed":
        output.say(compact(result))
    return exits.GOOD if info.status == "completed" else exits.NO
