"""``receipts`` lists what actions did; ``receipts show`` tells all about one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, get_args

import click

from holdfast.cli import options, output, session
from holdfast.cli.governance.tasks import safe
from holdfast.cli.groups import ListingGroup
from holdfast.cli.output import Cell, Part
from holdfast.client.engine import Holdfast
from holdfast.client.views import records
from holdfast.client.views.times import clock, iso
from holdfast.journal.payload import Payload
from holdfast.journal.promise import PromiseId
from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.runs.hints import command
from holdfast.store.protocol import ReceiptQuery, ReceiptRow, ReceiptState, Store

STYLES = {"succeeded": "green", "failed": "red", "pending": "cyan", "unknown": "yellow"}

_PAGE = 100


@click.group(cls=ListingGroup)
def receipts() -> None:
    """List what actions did (`receipts`), or show one receipt (`receipts show ID`).

    `receipts` is short for `receipts list`, which says more about its options.
    """


@receipts.command("list")
@click.option("--run", metavar="RUN", help="Only what this run did.")
@click.option("--state", type=click.Choice(get_args(ReceiptState)), help="Only receipts in this state.")
@click.option("--connector", metavar="NAME", help="Only what was done through this connector.")
@options.limit
@options.any_tenant
@options.store
def list_receipts(
    run: str | None,
    state: ReceiptState | None,
    connector: str | None,
    limit: int,
    tenant: str | None,
    store: str | None,
    as_json: bool,
) -> None:
    """List receipts, oldest first, of all tenants unless one is named."""
    query = ReceiptQuery(tenant, run, state, connector)

    async def work(app: Holdfast) -> list[ReceiptRow]:
        return [row async for row in rows_of(app.store, query, limit or None)]

    found = session.on_store(session.url_of(store), work)
    if as_json:
        for row in found:
            output.emit(receipt_record(row))
    elif not found:
        output.note("no receipts match.")
    else:
        _write(found, show_tenant=tenant is None and any(row.tenant != DEFAULT_TENANT for row in found))
        if limit and len(found) == limit:
            output.note(f"these are the oldest {limit}; --limit 0 shows all.")


async def rows_of(store: Store, query: ReceiptQuery, limit: int | None = None) -> AsyncIterator[ReceiptRow]:
    """The rows that match, oldest first. A row tells its tenant; a large result stays where it is."""
    after, left = None, limit
    while left is None or left > 0:
        size = _PAGE if left is None else min(_PAGE, left)
        page = await store.receipts(query, size, after)
        for row in page:
            yield row
        if len(page) < size:
            return
        after, left = page[-1], None if left is None else left - len(page)


def _write(found: list[ReceiptRow], *, show_tenant: bool) -> None:
    headers = ["id", "begun", "run", "action", "target", "state", "note"]
    rows = [[*([row.tenant] if show_tenant else []), *_row(row)] for row in found]
    output.table([*(["tenant"] if show_tenant else []), *headers], rows)


def _row(row: ReceiptRow) -> list[Part]:
    return [
        row.id,
        clock(row.opened_at),
        row.run,
        row.action,
        output.one_line(row.target),
        state_cell(row.state),
        _note(row),
    ]


def _note(row: ReceiptRow) -> str:
    if row.reversed_by is not None:
        return f"reversed by {row.reversed_by}"
    if row.reverses is not None:
        return f"reverses {row.reverses}"
    return output.one_line(row.error)


def state_cell(state: str) -> Cell:
    """A receipt's state."""
    return Cell(state, STYLES.get(state, ""))


def receipt_record(row: ReceiptRow) -> dict[str, Any]:
    """A receipt as ``--json`` writes it; a large result is named by its hash."""
    return {
        "id": row.id,
        "tenant": row.tenant,
        "run": row.run,
        "state": row.state,
        "action": row.action,
        "connector": row.connector,
        "operation": row.operation,
        "target": row.target,
        "writes": row.writes,
        "risk": row.risk,
        "arguments": records.payload_value(Payload(row.request)),
        "result": _result(row),
        "error": row.error,
        "cost": row.cost,
        "key": row.key,
        "attempt": row.attempt,
        "actor": row.actor,
        "task": row.task,
        "reverse": row.reverse,
        "reverses": row.reverses,
        "reversed_by": row.reversed_by,
        "proposal": row.proposal.hex(),
        "promise_id": str(PromiseId(row.root).child(row.position)),
        "opened_at": iso(row.opened_at),
        "closed_at": iso(row.closed_at),
    }


def _result(row: ReceiptRow) -> Any:
    if row.result_blob is not None:
        return {"$blob": row.result_blob.hex()}
    return None if row.result is None else records.payload_value(Payload(row.result))


@receipts.command()
@click.argument("id")
@options.tenant
@options.store
def show(id: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Show receipt ID: what was attempted, what came of it, and whether it can be taken back."""

    async def work(app: Holdfast) -> dict[str, Any]:
        view = await app.receipts.get(id, tenant=tenant)  # it raises where there is none, and reads a large result
        row = await app.store.receipt(tenant, id)
        assert row is not None, "receipts are never deleted"
        return {**receipt_record(row), "result": records.plain(view.result)}

    record = session.on_store(session.url_of(store), work)
    if as_json:
        output.emit(record)
    else:
        output.table([], [[Cell(name, "bold"), safe(text)] for name, text in _told(record)])


def _told(record: dict[str, Any]) -> list[tuple[str, Part]]:
    does = f"{record['connector']} {record['operation']} ({'writes' if record['writes'] else 'reads'})"
    rows: list[tuple[str, Part]] = [
        ("receipt", record["id"]),
        ("state", state_cell(record["state"])),
        ("tenant", record["tenant"]),
        ("run", record["run"]),
        ("action", record["action"]),
        ("does", does),
        ("target", record["target"] or "none"),
    ]
    arguments = record["arguments"]
    for name, value in arguments.items() if isinstance(arguments, dict) else ():
        rows.append((f"  {records.shown(name)}", records.shown(value)))
    rows += [
        ("key", record["key"]),
        ("attempt", str(record["attempt"])),
        ("begun", record["opened_at"]),
        ("ended", record["closed_at"] or "not yet"),
    ]
    rows += [(name, record[name]) for name in ("actor", "task", "error") if record[name] is not None]
    if record["state"] == "succeeded":
        rows.append(("result", records.shown(record["result"])))
    if record["cost"] is not None:
        rows.append(("cost", records.shown(record["cost"])))
    return [*rows, ("reverse", _reversal(record))]


def _reversal(record: dict[str, Any]) -> str:
    """Whether and how the act can be taken back."""
    if record["reversed_by"] is not None:
        return f"taken back by {record['reversed_by']}"
    if record["reverses"] is not None:
        return f"this took back {record['reverses']}"
    if record["reverse"] is None:
        return "the action declares none"
    if record["state"] != "succeeded":
        return f"{record['reverse']}, for what has succeeded"
    return f"{record['reverse']}: `{command('reverse', record['id'], '--as', 'YOU', tenant=record['tenant'])}`"
