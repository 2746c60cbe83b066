"""How answers are written: rich on a terminal, plain aligned text elsewhere, one JSON object per line on request.

Answers go to stdout, remarks and progress to stderr. Text from runs may hold anything, so control characters are made
visible: a terminal must not obey them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, NamedTuple

import click

STYLES: Final = {
    "completed": "green",
    "running": "cyan",
    "queued": "cyan",
    "waiting": "blue",
    "paused": "yellow",
    "cancelling": "yellow",
    "cancelled": "magenta",
    "failed": "red",
}


class TableCell(NamedTuple):
    """A text and its style on a terminal."""

    text: str
    style: str = ""


Part = str | TableCell


def status_cell(status: str) -> TableCell:
    return TableCell(status, STYLES.get(status, ""))


def emit(record: Mapping[str, Any]) -> None:
    """Write one JSON object on one line."""
    click.echo(json.dumps(record, ensure_ascii=False, allow_nan=False))


def say(*parts: Part) -> None:
    """Write one line."""
    cells = [part if isinstance(part, TableCell) else TableCell(part) for part in parts]
    if _terminal():
        from rich.text import Text

        _console().print(Text.assemble(*((visible(cell.text), cell.style) for cell in cells)), soft_wrap=True)
    else:
        click.echo("".join(visible(cell.text) for cell in cells))


def note(text: str) -> None:
    """A remark beside the answer."""
    click.echo(visible(text), err=True)


def table(headers: Sequence[str], rows: Iterable[Sequence[Part]], *, indent: int = 0) -> None:
    """Columns. Without headers they are aligned and nothing else; the last column takes what is left."""
    cells = [[part if isinstance(part, TableCell) else TableCell(part) for part in row] for row in rows]
    headers = [header.upper() for header in headers]
    if _terminal():
        _rich_table(headers, cells, indent)
        return
    lines = [[visible(cell.text) for cell in row] for row in cells]
    if headers:
        lines.insert(0, headers)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True))
        click.echo(" " * indent + padded.rstrip())


def _rich_table(headers: Sequence[str], rows: list[list[TableCell]], indent: int) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    if not rows:
        return
    grid = Table(box=None, show_header=bool(headers), header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for index in range(len(rows[0])):
        last = index == len(rows[0]) - 1
        grid.add_column(headers[index] if headers else "", no_wrap=not last, overflow="fold")
    for row in rows:
        grid.add_row(*(Text(visible(cell.text), style=cell.style) for cell in row))
    _console().print(Padding(grid, (0, 0, 0, indent)))


@contextmanager
def progress(what: str, *, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """A count on stderr during long work; only on a terminal. Gives a function that adds to the count."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description} {task.completed:.0f}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda count: bar.advance(task, count)


def _terminal() -> bool:
    return sys.stdout.isatty()


@cache
def _console() -> Any:
    from rich.console import Console

    return Console(highlight=False, emoji=False, markup=False)


def visible(text: str) -> str:
    """The text with control characters shown instead of obeyed; line breaks stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def one_line(text: str | None) -> str:
    """The first line of a text, marked where there is more."""
    first, _, rest = (text or "").partition("\n")
    return f"{first} …" if rest.strip() else first
