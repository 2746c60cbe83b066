"""``lint``: finds places in workflow code that would not replay, without running it."""

from __future__ import annotations

import click
import msgspec

from holdfast.cli import exits, options, output


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATHS...")
@options.as_json
def lint(paths: tuple[str, ...], as_json: bool) -> int:
    """Judge the workflows in PATHS (files, or folders with all below them); exit 1 where something would not replay."""
    from holdfast.programs.function.lint import lint_paths

    report = lint_paths(paths)
    for finding in report.findings:
        if as_json:
            output.emit(msgspec.to_builtins(finding))
        else:
            output.say(str(finding))
    seen = _seen(report.workflows, report.machines)
    if report.findings:
        output.note(f"{_count(len(report.findings), 'place')} in {seen} would not replay")
    elif report.workflows or report.machines:
        output.note(f"{seen}: nothing found that would not replay")
    else:
        output.note(
            "no workflow or machine was found in these files: lint judges functions that are decorated with "
            "@workflow or @machine, imported from holdfast"
        )
    return exits.NO if report.findings else exits.GOOD


def _seen(workflows: int, machines: int) -> str:
    counts = [_count(workflows, "workflow")] if workflows or not machines else []
    return " and ".join([*counts, *([_count(machines, "machine")] if machines else [])])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
