"""``show``, ``tail``, ``explain``: looking at one run."""

from __future__ import annotations

from collections.abc import Iterator

import click

from holdfast.cli import options, output, session
from holdfast.cli.output import TableCell
from holdfast.cli.timeline import item_rows
from holdfast.client.engine import Holdfast
from holdfast.client.runs.progress import RunDetails
from holdfast.client.views.instances import InstanceInfo, PlaceInfo
from holdfast.client.views.journal import JournalEntry, entry_record
from holdfast.client.views.overview import RunOverview, advice_record, overview_record
from holdfast.client.views.runs import RunInfo
from holdfast.client.views.times import clock, iso, present, span
from holdfast.client.views.values import plain, quoted
from holdfast.errors import RunEnded
from holdfast.store.protocol import ENDED


@click.command()
@options.one_run
def show(run: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Show a run: what it did, what it waits for, how it ended."""

    async def work(app: Holdfast) -> RunOverview:
        return await app.run(run, tenant=tenant).overview()

    overview = session.on_store(session.url_of(store), work)
    if as_json:
        output.emit(overview_record(overview))
    else:
        _write(overview)


def _write(overview: RunOverview) -> None:
    rows: list[list[output.Part]] = [[TableCell(name, "bold"), text] for name, text in _header(overview)]
    output.table([], rows)
    if overview.instance is not None:
        _write_instance(overview.instance)
    output.say("")
    output.table([], item_rows(overview.items), indent=2)
    if overview.signals:
        output.say("")
        output.say(TableCell("signals not received", "bold"))
        rows = [[each.name, clock(each.at), quoted(plain(each.value))] for each in overview.signals]
        output.table([], rows, indent=2)
    if overview.children:
        output.say("")
        output.say(TableCell("children", "bold"))
        rows = [[child.id, child.workflow, output.status_cell(child.status)] for child in overview.children]
        output.table([], rows, indent=2)


def _write_instance(instance: InstanceInfo) -> None:
    """The business state of a definition's run, and apart from it where the run stands."""
    output.say("")
    output.say(TableCell("state", "bold"))
    state = plain(instance.state)
    rows: list[list[output.Part]] = [[name, quoted(value)] for name, value in sorted(state.items())]
    output.table([], rows or [["nothing is set", ""]], indent=2)
    if instance.engine.places:
        output.say("")
        output.say(TableCell("stands at", "bold"))
        rows = [[place.path, _awaited(place), _since(place), place.token[-12:]] for place in instance.engine.places]
        output.table(["node", "waits for", "", "token"], rows, indent=2)


def _awaited(place: PlaceInfo) -> str:
    what = f"{place.kind} {place.name}".strip()
    who = place.task or place.run
    return f"{what} ({who})" if who is not None else what


def _since(place: PlaceInfo) -> str:
    if place.due is not None:
        return f"due {clock(place.due)}"
    return "" if place.since is None else f"since {clock(place.since)}"


def _definition(overview: RunOverview) -> Iterator[tuple[str, str]]:
    instance = overview.instance
    if overview.problem:
        yield "state", f"cannot be read here: {overview.problem}"
    if instance is None:
        return
    yield "version", f"{instance.version}, digest {instance.digest[:12]}"
    for each in instance.revisions:
        yield "revision", f"{each.before} → {each.after}, " + ("moved" if each.moved else "; ".join(each.reasons))
    if instance.engine.last_signal is not None:
        last = instance.engine.last_signal
        yield "signal", f"{last.name} was received last, {clock(last.at)}"


def _header(overview: RunOverview) -> list[tuple[str, output.Part]]:
    run = overview.run
    duration = span((run.ended_at or present()) - run.created_at)
    rows: list[tuple[str, output.Part]] = [
        ("run", run.id),
        ("tenant", run.tenant),
        ("workflow", run.workflow),
        *([("reference", run.reference)] if run.reference is not None else []),
        ("status", output.status_cell(run.status)),
        ("created", clock(run.created_at)),
        ("duration", duration + ("" if run.status in ENDED else " so far")),
        ("events", str(run.events)),
    ]
    if run.generation:
        rows.append(("generation", str(run.generation)))
    if run.priority:
        rows.append(("priority", str(run.priority)))
    if run.attributes:
        rows.append(("attributes", ", ".join(f"{name}={text}" for name, text in sorted(run.attributes.items()))))
    if run.parent is not None:
        rows.append(("parent", run.parent))
    return [*rows, *_definition(overview), *_origin(run), ("why", overview.explanation)]


def _origin(run: RunInfo) -> Iterator[tuple[str, str]]:
    """Who started the run and why, and what the gate knows of it."""
    if run.workspace:
        yield "workspace", run.workspace
    if run.actor is not None:
        yield "actor", run.actor
    if run.trigger is not None:
        yield "trigger", f"{run.trigger.type}:{run.trigger.ref}"
    if run.governed:
        yield "governed", f"yes, {run.writes} write{'s' * (run.writes != 1)} so far"
    if run.evidence_sha256 is not None:
        yield "evidence", f"sha256:{run.evidence_sha256}"


@click.command()
@click.option("--from", "first", type=click.IntRange(min=0), default=0, metavar="SEQ", help="Begin at this sequence.")
@options.one_run
def tail(run: str, tenant: str, store: str | None, as_json: bool, first: int) -> None:
    """Follow a run's journal until the run has ended."""

    async def work(app: Holdfast) -> None:
        async for entry in app.run(run, tenant=tenant).tail(first):
            write_entry(entry, as_json)

    session.on_store(session.url_of(store), work)


def write_entry(entry: JournalEntry, as_json: bool) -> None:
    """One line of a journal."""
    if as_json:
        output.emit(entry_record(entry))
    else:
        output.say(TableCell(f"{entry.sequence:>5}  {iso(entry.time)}  ", "dim"), entry.text)


@click.command()
@options.one_run
def explain(run: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Say what a run waits for, since when, and what would move it. With --json each reason has a code."""

    async def work(app: Holdfast) -> RunDetails:
        return await app.run(run, tenant=tenant).details()

    found = session.on_store(session.url_of(store), work)
    if as_json:
        head = {"id": run, "tenant": tenant, "status": found.run.status}
        output.emit({**head, "explanation": found.explanation, "advice": advice_record(found.advice)})
    else:
        output.say(found.explanation)


def refuse_ended(run: RunInfo, change: str) -> None:
    """For a dry run: raise what the real one would."""
    if run.status in ENDED:
        raise RunEnded(f"run {run.id} has ended ({run.status}) and cannot be {change}.")
