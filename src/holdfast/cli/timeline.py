"""A run's timeline as rows of a table."""

from __future__ import annotations

from typing import Final

from holdfast.cli.output import Part, TableCell
from holdfast.client.views.timeline import Item
from holdfast.client.views.times import clock, span

SYMBOLS: Final = {
    "done": ("✓", "green"),
    "failed": ("✗", "red"),
    "retrying": ("↻", "yellow"),
    "open": ("…", "cyan"),
    "dropped": ("-", "dim"),
    "note": ("•", "blue"),
}

LOST: Final = "the worker that had it before was lost, and may have begun it"


def item_rows(items: list[Item]) -> list[list[Part]]:
    """The items as rows: offset, symbol, name, attempts, duration, detail; failed attempts and marks on more rows."""
    rows: list[list[Part]] = []
    for item in items:
        symbol, style = SYMBOLS[item.state]
        duration = "" if item.duration is None else span(item.duration)
        offset = TableCell(f"+{span(item.at - items[0].at)}", "dim")
        rows.append([offset, TableCell(symbol, style), item.label or item.name, _tries(item), duration, item.detail])
        rows += [
            ["", "", TableCell(f"  attempt {number}", "dim"), "", "", TableCell(f"✗ {why}", "red")]
            for number, why in item.troubles
        ]
        rows += [
            ["", "", TableCell(f"  attempt {number}", "dim"), "", "", f"begun again at {clock(at)}: {LOST}"]
            for number, at in item.repeats
        ]
        rows += [["", "", TableCell(f"  {mark.kind} {mark.id}", "dim"), "", "", mark.state] for mark in item.marks]
    return rows


def _tries(item: Item) -> str:
    return f"{item.attempts} attempts" if item.attempts > 1 else ""
