"""``show``, ``tail``, ``explain``: looking at one run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import click

from holdfast.cli import options, output, session
from holdfast.cli.governance.receipts import rows_of
from holdfast.cli.output import Cell
from holdfast.cli.timeline import item_rows
from holdfast.client.engine import Holdfast
from holdfast.client.handle import RunHandle
from holdfast.client.views import records
from holdfast.client.views.signals import WaitingSignal, signal_record, unreceived
from holdfast.client.views.timeline import Item, Mark, fold, item_record
from holdfast.client.views.times import clock, iso, span
from holdfast.errors import RunEnded
from holdfast.journal import events as e
from holdfast.journal.render import line
from holdfast.runs.journals import read
from holdfast.store.protocol import ENDED, ReceiptQuery, Run
from holdfast.tasks.answers import standing_of


class View:
    """All that ``show`` shows."""

    def __init__(
        self, run: Run, items: list[Item], children: list[Run], why: str, result: Any, signals: list[WaitingSignal]
    ) -> None:
        self.run = run
        self.items = items
        self.children = children
        self.why = why
        self.result = result
        self.signals = signals

    @classmethod
    async def of(cls, app: Holdfast, handle: RunHandle[Any]) -> View:
        run = await handle.info()
        entries = [entry async for entry in read(app.store, run)]
        last = entries[-1].event if entries else None
        result = records.payload_value(last.result) if isinstance(last, e.ExecutionCompleted) else None
        children = [await child.info() async for child in handle.children()]
        marks = await _marks(app, run) if run.governed else {}
        items = fold(entries, marks)
        signals = [] if run.standing in ENDED else await unreceived(app.store, run, entries)
        return cls(run, items, sorted(children, key=_birth), await handle.explain(), result, signals)

    def record(self) -> dict[str, Any]:
        return {
            **records.run_record(self.run),
            "explanation": self.why,
            "result": self.result,
            "signals": [signal_record(signal) for signal in self.signals],
            "timeline": [item_record(item) for item in self.items],
            "children": [
                {"id": child.key.run, "workflow": child.workflow, "status": child.status} for child in self.children
            ],
        }

    def write(self) -> None:
        rows: list[list[output.Part]] = [[Cell(name, "bold"), text] for name, text in self._header()]
        output.table([], rows)
        output.say("")
        output.table([], item_rows(self.items), indent=2)
        if self.signals:
            output.say("")
            output.say(Cell("signals not received", "bold"))
            output.table(
                [], [[each.name, clock(each.at), records.shown(each.value)] for each in self.signals], indent=2
            )
        if self.children:
            output.say("")
            output.say(Cell("children", "bold"))
            rows = [[child.key.run, child.workflow, output.status_cell(child.status)] for child in self.children]
            output.table([], rows, indent=2)

    def _header(self) -> list[tuple[str, output.Part]]:
        run = self.run
        end = run.ended_at or time.time_ns() // 1000
        rows: list[tuple[str, output.Part]] = [
            ("run", run.key.run),
            ("tenant", run.key.tenant),
            ("workflow", run.workflow),
            ("status", output.status_cell(run.status)),
            ("created", clock(run.created_at)),
            ("duration", span(end - run.created_at) + ("" if run.standing in ENDED else " so far")),
            ("events", str(run.version)),
        ]
        if run.generation:
            rows.append(("generation", str(run.generation)))
        if run.priority:
            rows.append(("priority", str(run.priority)))
        if run.attributes:
            rows.append(("attributes", ", ".join(f"{name}={text}" for name, text in sorted(run.attributes.items()))))
        if run.parent is not None:
            rows.append(("parent", run.parent))
        return [*rows, *_origin(run), ("why", self.why)]


def _origin(run: Run) -> Iterator[tuple[str, str]]:
    """Who asked for it, and what the gate has on it."""
    if run.workspace:
        yield "workspace", run.workspace
    if run.actor is not None:
        yield "actor", run.actor
    if run.trigger_type is not None:
        yield "trigger", f"{run.trigger_type}:{run.trigger_ref}"
    if run.governed:
        yield "governed", f"yes, {run.writes} write{'s' * (run.writes != 1)} so far"
    if run.evidence is not None:
        yield "evidence", f"sha256:{run.evidence.hex()}"


async def _marks(app: Holdfast, run: Run) -> dict[int, list[Mark]]:
    """The tasks and receipts of a run's present journal, by the position of their action."""
    found: dict[int, list[Mark]] = {}
    async for task in app.tasks.list(tenant=run.key.tenant, status=None, run=run.key.run):
        if task.root == run.root:
            found.setdefault(task.position, []).append(Mark("task", task.id, standing_of(task)))
    async for receipt in rows_of(app.store, ReceiptQuery(run.key.tenant, run.key.run)):
        if receipt.root == run.root:
            found.setdefault(receipt.position, []).append(Mark("receipt", receipt.id, receipt.state))
    return found


def _birth(run: Run) -> tuple[int, int]:
    return run.created_at, run.parent_position or 0


@click.command()
@options.one_run
def show(run: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Show a run: what it did, what it waits for, how it ended."""

    async def work(app: Holdfast) -> View:
        return await View.of(app, app.run(run, tenant=tenant))

    view = session.on_store(session.url_of(store), work)
    if as_json:
        output.emit(view.record())
    else:
        view.write()


@click.command()
@click.option("--from", "first", type=click.IntRange(min=0), default=0, metavar="SEQ", help="Begin at this sequence.")
@options.one_run
def tail(run: str, tenant: str, store: str | None, as_json: bool, first: int) -> None:
    """Follow a run's journal until the run has ended."""

    async def work(app: Holdfast) -> None:
        async for entry in app.run(run, tenant=tenant).tail(first):
            write_entry(entry, as_json)

    session.on_store(session.url_of(store), work)


def write_entry(entry: e.Entry, as_json: bool) -> None:
    """One line of a journal."""
    if as_json:
        output.emit(records.entry_record(entry))
    else:
        output.say(Cell(f"{entry.sequence:>5}  {iso(entry.timestamp)}  ", "dim"), line(entry.event))


@click.command()
@options.one_run
def explain(run: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Say in one sentence what a run waits for, since when, and what would move it."""

    async def work(app: Holdfast) -> tuple[Run, str]:
        handle = app.run(run, tenant=tenant)
        return await handle.info(), await handle.explain()

    row, sentence = session.on_store(session.url_of(store), work)
    if as_json:
        output.emit({"id": run, "tenant": tenant, "status": row.status, "explanation": sentence})
    else:
        output.say(sentence)


def refuse_ended(row: Run, what: str) -> None:
    """For a dry run: raise what the real one would."""
    if row.standing in ENDED:
        raise RunEnded(f"run {row.key.run} has ended ({row.status}) and cannot be {what}.")
