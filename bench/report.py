"""Writes the measurements as tables, as a plot, and into the documents that quote them.

``python bench/report.py`` writes plot and documents again from ``results.json``. In a document the tables are between
``<!-- bench -->`` and ``<!-- /bench -->``, so no figure is typed by hand.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import targets

FOLDER = Path(__file__).parent
PATH = FOLDER / "results.json"
PLOT = FOLDER / "results.svg"
FULL_DOCUMENT = FOLDER.parent / "docs" / "performance.md"
SHORT_DOCUMENT = FOLDER.parent / "README.md"

SHORT_TEXT = """## Speed

Measured side by side in one run on {cores} cores: W1 is 500 runs of ten steps, W2 one step from start to result, W3 one
run that gathers 500 steps, W4 2,000 waiting runs woken, W5 the time from a restart after SIGKILL to all done. Method,
all figures and missed targets: [performance](docs/performance.md).

"""

BUSY = 1.0
"""From this load average on, the machine was busy with other work before the measurement began."""

Measured = dict[str, Any]


class Column(NamedTuple):
    """One column of the table, and one panel of the plot."""

    title: str
    workload: str
    key: str
    show: Callable[[float], str]
    more_is_better: bool = False


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def _milliseconds(value: float) -> str:
    return f"{value:.1f} ms" if value < 100 else f"{value:.0f} ms"


def _bytes(value: float) -> str:
    return f"{value / 1024:.1f} KiB"


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _microseconds(value: float) -> str:
    return f"{value:,.0f} µs"


COLUMNS = (
    Column("W1 steps/s", "W1", "steps_per_second", _whole, more_is_better=True),
    Column("W2 p50", "W2", "p50_ms", _milliseconds),
    Column("W2 p99", "W2", "p99_ms", _milliseconds),
    Column("W3", "W3", "seconds", _seconds),
    Column("W4 start", "W4", "start_seconds", _seconds),
    Column("W4 memory per run", "W4", "bytes_per_run", _bytes),
    Column("W4 wake", "W4", "wake_seconds", _seconds),
    Column("W5 restart to done", "W5", "seconds", _seconds),
    Column("W5 steps run twice", "W5", "steps_run_twice", _whole),
    Column("W6 per step, 1,000", "W6, 1,000 steps", "microseconds_per_step", _microseconds),
    Column("W6 per step, 10,000", "W6, 10,000 steps", "microseconds_per_step", _microseconds),
)
SHORT = ("W1 steps/s", "W2 p50", "W3", "W4 wake", "W5 restart to done")


def text(measured: Measured) -> str:
    """All figures, as Markdown."""
    results = measured["results"]
    columns = _columns(results)
    parts = [_machine(measured), _table(results, columns), _ours(results), _targets(results), *_errors(results)]
    return "\n\n".join(part for part in parts if part)


def short(measured: Measured) -> str:
    """The few figures for the README."""
    table = _table(measured["results"], [column for column in COLUMNS if column.title in SHORT])
    return SHORT_TEXT.format(cores=measured["machine"]["cores"]) + table + _caution(measured)


def _machine(measured: Measured) -> str:
    on, versions = measured["machine"], measured["machine"]["versions"]
    software = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    return (
        f"Measured on {on['date']}: {on['cores']} cores ({on['processor']}), {on['python']}, "
        f"fdatasync {on['fsync_ms']:.2f} ms, load {on['load']:.1f} before it began and {on['load_after']:.1f} at its "
        f"end. {software}. A star marks a figure that was measured once." + _caution(measured)
    )


def _caution(measured: Measured) -> str:
    """A warning if the machine was busy with other work."""
    if measured["machine"]["load"] < BUSY:
        return ""
    return (
        "\n\n**The machine was busy with other work while this was measured.** The load differed between contenders, "
        "so the figures and ratios are provisional, especially those measured once. On an idle machine, other targets "
        "may be met or missed."
    )


def _columns(results: targets.Results) -> list[Column]:
    return [column for column in COLUMNS if column.workload in results]


def _rows(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _table(results: targets.Results, columns: list[Column]) -> str:
    everyone = targets.OURS + targets.PEERS
    rows = [[name, *(_cell(results, column, name) for column in columns)] for name in everyone]
    return _rows(["", *(column.title for column in columns)], rows)


def _cell(results: targets.Results, column: Column, name: str) -> str:
    try:
        cell = column.show(targets.figure(results, column.workload, name, column.key))
        return cell if len(results[column.workload][name]["samples"]) > 1 else f"{cell} *"
    except targets.Missing:
        return "could not be run" if "error" in results.get(column.workload, {}).get(name, {}) else "–"


def _ours(results: targets.Results) -> str:
    """The workloads that were measured for Holdfast only, and W8, for machines and for Restate."""
    rows = []
    for workload in results:
        if not workload.startswith(("raw", "W1, definitions", "W6, empty", "W6, 100,000 fin", "W7", targets.EVENTS)):
            continue
        for name, line in results[workload].items():
            if "median" in line:
                title = "W1 without an engine" if workload == "raw" else workload
                median = line["median"]
                rate = median["events_per_second" if workload == targets.EVENTS else "steps_per_second"]
                rows.append([title, name, _whole(rate)])
    return _rows(["", "", "steps/s, W8 events/s"], rows)


def _targets(results: targets.Results) -> str:
    rows = [str(verdict).split(" | ") for verdict in targets.judge(results) if verdict.ratio is not None]
    return _rows(["target, as a ratio in this run", "limit", "found", ""], rows)


def _errors(results: targets.Results) -> Iterator[str]:
    for workload, lines in results.items():
        for name, line in lines.items():
            if "error" in line:
                yield f"{workload}, {name}: {line['error']}"


# -- the plot ------------------------------------------------------------------------------------------------------

WIDTH, LABEL, BAR, GAP, PANEL_GAP = 760, 170, 16, 6, 34


def write_plot(measured: Measured) -> None:
    """Bars, one panel per figure, scaled to the greatest value of the panel."""
    results = measured["results"]
    panels, y = [], 10
    for column in _columns(results):
        values = [(name, _value(results, column, name)) for name in targets.OURS + targets.PEERS]
        panel, height = _panel(column, values, y)
        panels.append(panel)
        y += height
    style = (
        "text{font:12px system-ui,sans-serif;fill:#333}.title{font-weight:600}.ours{fill:#0b6e4f}.peer{fill:#9aa5b1}"
    )
    body = "\n".join(panels)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" role="img">'
    background = f'<rect width="{WIDTH}" height="{y}" fill="#fff"/>'
    PLOT.write_text(
        f"{head}\n<title>Holdfast and its peers</title><style>{style}</style>{background}\n{body}\n</svg>\n"
    )


def _value(results: targets.Results, column: Column, name: str) -> float | None:
    try:
        return targets.figure(results, column.workload, name, column.key)
    except targets.Missing:
        return None


def _panel(column: Column, values: list[tuple[str, float | None]], top: int) -> tuple[str, int]:
    greatest = max((value for _, value in values if value is not None), default=1) or 1
    hint = "more is better" if column.more_is_better else "less is better"
    lines = [f'<text class="title" x="10" y="{top + 14}">{escape(column.title)} ({hint})</text>']
    y = top + 22
    for name, value in values:
        width = 0 if value is None else max(1, round((WIDTH - LABEL - 110) * max(value, 0) / greatest))
        label = "could not be run" if value is None else column.show(value)
        kind = "ours" if name in targets.OURS else "peer"
        lines += [
            f'<text x="10" y="{y + 12}">{escape(name)}</text>',
            f'<rect class="{kind}" x="{LABEL}" y="{y}" width="{width}" height="{BAR}"/>',
            f'<text x="{LABEL + width + 6}" y="{y + 12}">{escape(label)}</text>',
        ]
        y += BAR + GAP
    return "\n".join(lines), y - top + PANEL_GAP - 22


# -- the documents -------------------------------------------------------------------------------------------------


def write_documents(measured: Measured) -> None:
    """Replace the tables in the documents."""
    for path, tables in ((FULL_DOCUMENT, text(measured)), (SHORT_DOCUMENT, short(measured))):
        if path.exists():
            _replace_tables(path, tables)


def _replace_tables(path: Path, tables: str) -> None:
    place = re.compile(r"<!-- bench -->(.*?<!-- /bench -->)?", re.DOTALL)
    page = place.sub(lambda _: f"<!-- bench -->\n{tables}\n<!-- /bench -->", path.read_text(), count=1)
    path.write_text(page)


if __name__ == "__main__":
    saved = json.loads(PATH.read_text())
    print(text(saved))
    write_plot(saved)
    write_documents(saved)
    sys.exit(0)
