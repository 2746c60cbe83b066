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

    findings = lint_paths(paths)
    for finding in findings:
        if as_json:
            output.emit(msgspec.to_builtins(finding))
        else:
            output.say(str(finding))
    if not as_json:
        output.note(f"{len(findings)} places would not replay" if findings else "all workflows can replay")
    return exits.NO if findings else exits.GOOD
