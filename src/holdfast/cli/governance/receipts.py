"""``receipts`` lists what actions did; ``receipts show`` shows one receipt."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import get_args

import click

from holdfast.cli import options, output, session
from holdfast.cli.governance.tasks import safe, value_lines
from holdfast.cli.groups import ListingGroup
from holdfast.cli.output import Part, TableCell
from holdfast.cli.pages import note_rest, read_pages
from holdfast.client.engine import Holdfast
from holdfast.client.views.cursors import Page
from holdfast.client.views.receipts import ReceiptInfo, receipt_record
from holdfast.client.views.times import clock, iso
from holdfast.client.views.values import plain, quoted
from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.runs.hints import command
from holdfast.store.protocol import ReceiptState

STYLES = {"succeeded": "green", "failed": "red", "pending": "cyan", "unknown": "yellow"}


@click.group(cls=ListingGroup)
def receipts() -> None:
    """List what actions did (`receipts`), or show one receipt (`receipts show ID`).

    `receipts` is short for `receipts list`, whose help has its options.
    """


@receipts.command("list")
@click.option("--run", metavar="RUN", help="Only what this run did.")
@click.option("--state", type=click.Choice(get_args(ReceiptState)), help="Only receipts in this state.")
@click.option("--connector", metavar="NAME", help="Only what was done through this connector.")
@options.limit
@options.after
@options.any_tenant
@options.store
def list_receipts(
    run: str | None,
    state: ReceiptState | None,
    connector: str | None,
    limit: int,
    after: str | None,
    tenant: str | None,
    store: str | None,
    as_json: bool,
) -> None:
    """List receipts, oldest first, of all tenants unless one is named."""

    async def work(app: Holdfast) -> Page[ReceiptInfo]:
        def read(size: int, place: str | None) -> Awaitable[Page[ReceiptInfo]]:
            return app.receipts.page(
                tenant=tenant, run=run, state=state, connector=connector, limit=size, after=place, results=False
            )

        return await read_pages(read, limit, after)

    page = session.on_store(session.url_of(store), work)
    if as_json:
        for receipt in page.items:
            output.emit(receipt_record(receipt))
    elif not page.items:
        output.note("no receipts match.")
    else:
        show_tenant = tenant is None and any(receipt.tenant != DEFAULT_TENANT for receipt in page.items)
        _write(page.items, show_tenant=show_tenant)
        note_rest(page, limit, "the oldest")


def _write(found: list[ReceiptInfo], *, show_tenant: bool) -> None:
    headers = ["id", "begun", "run", "action", "target", "state", "note"]
    rows = [[*([receipt.tenant] if show_tenant else []), *_row(receipt)] for receipt in found]
    output.table([*(["tenant"] if show_tenant else []), *headers], rows)


def _row(receipt: ReceiptInfo) -> list[Part]:
    return [
        receipt.id,
        clock(receipt.opened_at),
        receipt.run,
        receipt.action,
        output.one_line(receipt.target),
        state_cell(receipt.state),
        _note(receipt),
    ]


def _note(receipt: ReceiptInfo) -> str:
    if receipt.reversed_by is not None:
        return f"reversed by {receipt.reversed_by}"
    if receipt.reverses is not None:
        return f"reverses {receipt.reverses}"
    return output.one_line(receipt.error)


def state_cell(state: str) -> TableCell:
    """A receipt's state."""
    return TableCell(state, STYLES.get(state, ""))


@receipts.command()
@click.argument("id")
@options.tenant
@options.store
def show(id: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Show receipt ID: what was attempted, its outcome, and whether it can be taken back."""

    async def work(app: Holdfast) -> ReceiptInfo:
        return await app.receipts.get(id, tenant=tenant)

    receipt = session.on_store(session.url_of(store), work)
    if as_json:
        output.emit(receipt_record(receipt))
    else:
        output.table([], [[TableCell(name, "bold"), safe(text)] for name, text in _lines(receipt)])


def _lines(receipt: ReceiptInfo) -> list[tuple[str, Part]]:
    does = f"{receipt.connector} {receipt.operation} ({'writes' if receipt.writes else 'reads'})"
    rows: list[tuple[str, Part]] = [
        ("receipt", receipt.id),
        ("state", state_cell(receipt.state)),
        ("tenant", receipt.tenant),
        ("run", receipt.run),
        ("action", receipt.action),
        ("does", does),
        ("target", receipt.target or "none"),
        *value_lines(receipt.arguments),
        ("key", receipt.key),
        ("attempt", str(receipt.attempt)),
        ("begun", iso(receipt.opened_at) or ""),
        ("ended", iso(receipt.closed_at) or "not yet"),
    ]
    optional = (("actor", receipt.actor), ("task", receipt.task), ("error", receipt.error))
    rows += [(name, text) for name, text in optional if text is not None]
    if receipt.state == "succeeded":
        rows.append(("result", quoted(plain(receipt.result))))
    if receipt.cost is not None:
        rows.append(("cost", quoted(receipt.cost)))
    if receipt.holders:
        held = ", ".join(f"{run} ({state})" for run, state in receipt.holders.items())
        rows.append(("holders", held))
    return [*rows, ("reverse", _reversal(receipt))]


def _reversal(receipt: ReceiptInfo) -> str:
    """Whether and how the act can be taken back."""
    if receipt.reversed_by is not None:
        return f"taken back by {receipt.reversed_by}"
    if receipt.reverses is not None:
        return f"this took back {receipt.reverses}"
    if receipt.reverse is None:
        return "the action declares none"
    if receipt.state != "succeeded":
        return f"{receipt.reverse}, for what has succeeded"
    return f"{receipt.reverse}: `{command('reverse', receipt.id, '--as', 'YOU', tenant=receipt.tenant)}`"
