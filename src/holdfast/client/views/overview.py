"""All about one run: the run itself, its timeline, the signals it has not received, its children and why it waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.client.filters import run_rows
from holdfast.client.pages import rows_of
from holdfast.client.runs.explanation import explain
from holdfast.client.views.instances import InstanceInfo, instance_record
from holdfast.client.views.runs import RunInfo, run_info, run_record
from holdfast.client.views.signals import WaitingSignal, signal_record, unreceived
from holdfast.client.views.timeline import Item, Mark, fold, item_record
from holdfast.client.views.values import payload_value, plain
from holdfast.journal import events as e
from holdfast.runs.advice import Advice
from holdfast.runs.journals import read, row_of
from holdfast.store import protocol as p
from holdfast.tasks.answers import standing_of


class RunOverview(msgspec.Struct, frozen=True):
    """All that ``holdfast show`` shows. ``result`` is None until the run has completed."""

    run: RunInfo
    items: list[Item]
    children: list[RunInfo]
    explanation: str
    advice: tuple[Advice, ...]
    result: Any
    signals: list[WaitingSignal]
    instance: InstanceInfo | None = None  # of a definition's run, where it can be read here
    problem: str = ""  # why that cannot be read


async def overview_of(store: p.Store, key: p.Key, now: int) -> RunOverview:
    """All about a run. Raises RunNotFound."""
    row = await row_of(store, key)
    entries = [entry async for entry in read(store, row)]
    last = entries[-1].event if entries else None
    result = payload_value(last.result) if isinstance(last, e.ExecutionCompleted) else None
    children = [child async for child in run_rows(store, tenant=key.tenant, parent=key.run)]
    items = await timeline_of(store, row, entries)
    signals = [] if row.standing in p.ENDED else await unreceived(store, row, entries)
    explained = await explain(store, row, now)
    in_order = [run_info(child) for child in sorted(children, key=_birth)]
    return RunOverview(run_info(row), items, in_order, explained.text, explained.advice, result, signals)


async def timeline_of(store: p.Store, row: p.Run, entries: list[e.Entry]) -> list[Item]:
    """A run's timeline, with the tasks and receipts of its actions."""
    return fold(entries, await marks_of(store, row) if row.governed else {})


def _birth(run: p.Run) -> tuple[int, int]:
    return run.created_at, run.parent_position or 0


async def marks_of(store: p.Store, run: p.Run) -> dict[int, list[Mark]]:
    """The tasks and receipts of a run's present journal, by the position of their action."""
    tasks, receipts = p.TaskQuery(run.key.tenant, None, run.key.run), p.ReceiptQuery(run.key.tenant, run.key.run)
    marks: dict[int, list[Mark]] = {}
    async for task in rows_of(lambda size, place: store.tasks(tasks, size, place)):
        if task.root == run.root:
            marks.setdefault(task.position, []).append(Mark("task", task.id, standing_of(task)))
    async for receipt in rows_of(lambda size, place: store.receipts(receipts, size, place)):
        if receipt.root == run.root:
            marks.setdefault(receipt.position, []).append(Mark("receipt", receipt.id, receipt.state))
    return marks


def advice_record(advice: Sequence[Advice]) -> list[dict[str, Any]]:
    """Advice as ``--json`` writes it."""
    return [msgspec.to_builtins(each) for each in advice]


def _instance_record(overview: RunOverview) -> dict[str, Any] | None:
    if overview.instance is not None:
        return instance_record(overview.instance)
    return {"problem": overview.problem} if overview.problem else None


def overview_record(overview: RunOverview) -> dict[str, Any]:
    """All about a run as ``--json`` writes it."""
    return {
        **run_record(overview.run),
        "explanation": overview.explanation,
        "advice": advice_record(overview.advice),
        "result": plain(overview.result),
        "signals": [signal_record(signal) for signal in overview.signals],
        "timeline": [item_record(item) for item in overview.items],
        "instance": _instance_record(overview),
        "children": [
            {"id": child.id, "workflow": child.workflow, "status": child.status} for child in overview.children
        ],
    }
