"""``machines import``: machines from other ways of writing them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from holdfast.cli import exits, options, output
from holdfast.cli.definitions.files import read_text, write_file
from holdfast.programs.machine.chart_machine import SEND_TYPE, machine_of_chart
from holdfast.programs.machine.charts import describe, parse

_TYPES = frozenset({SEND_TYPE})


@click.command("import")
@click.argument("file")
@click.option("--from", type=click.Choice(["scxml"]), required=True, expose_value=False, help="What FILE is.")
@click.option("--name", metavar="NAME", help="The machine's name. [that of the chart, or of FILE]")
@click.option("--check", is_flag=True, help="Write nothing; say what is not supported.")
@click.option("-o", "--output", "target", metavar="PATH", help="Write it there instead of printing it.")
@options.as_json
def import_chart(file: str, name: str | None, check: bool, target: str | None, as_json: bool) -> None:
    """Read FILE (`-` for stdin) and write it as a Python module with a machine, or say all that is not supported.

    `scxml` is a State Chart XML document. The module holds the document, and the files that it names.
    """
    shown = "stdin" if file == "-" else file
    text, files = sys.stdin.read() if file == "-" else read_text(file), dict[str, str]()

    def read(path: str) -> str:
        files[path] = (Path() if file == "-" else Path(file).parent).joinpath(path).read_text(encoding="utf-8")
        return files[path]

    chart = parse(text, shown, read)
    notes = describe(chart, _TYPES)
    is_supported = not any(note.unsupported for note in notes)
    chosen = name or chart.name or ("chart" if file == "-" else Path(file).stem)
    module = ""
    if is_supported:
        machine_of_chart(chart, name=chosen, register=False)
        module = _module(text, chosen, Path(shown).name, files)
    if module and target is not None and not check:
        write_file(target, module.encode())
    if as_json:
        shown_notes = [{"line": note.line, "message": note.message, "unsupported": note.unsupported} for note in notes]
        found = {"machine": chosen, "states": len(chart.states) - 1, "supported": is_supported, "notes": shown_notes}
        output.emit(found if check or target is not None or not module else {**found, "module": module})
    else:
        for note in notes:
            output.note(f"{shown}:{note.line}: {'' if note.unsupported else 'warning: '}{note.message}")
        if check and is_supported:
            output.say(f"{shown}: {len(chart.states) - 1} states, all supported: machine {chosen}")
        elif module and target is None:
            output.say(module.rstrip())
    if not is_supported:
        sys.exit(exits.NO)


def _module(text: str, name: str, file: str, files: dict[str, str]) -> str:
    variable = re.sub(r"\W", "_", name)
    lines = [f'"""The machine {name}, made from {file} by `holdfast machines import`."""', ""]
    lines += ["from holdfast import machine_of_scxml", ""]
    lines += [f"SCXML = {_literal(text)}", ""]
    given = ""
    if files:
        lines += ["FILES = {", *(f"    {path!r}: {_literal(files[path])}," for path in sorted(files)), "}", ""]
        given = ", files=FILES"
    lines.append(f"{variable} = machine_of_scxml(SCXML, name={name!r}, file={file!r}{given})")
    return "\n".join(lines) + "\n"


def _literal(text: str) -> str:
    """A text as Python has it, line by line where nothing in it stands against that."""
    is_plain = '"""' not in text and "\\" not in text and text.isprintable() is False and not text.endswith('"')
    return f'"""\\\n{text}"""' if is_plain and "\r" not in text else repr(text)
