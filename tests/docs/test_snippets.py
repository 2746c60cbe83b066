"""The code and the commands in the documentation work."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click
import pytest

from holdfast.cli.main import COMMANDS, main
from tests.docs.pages import PAGES, ROOT, all_blocks, blocks, commands, mentions
from tests.docs.test_first_steps import FIRST_PAGES
from tests.fork_server import fork_server
from tests.tables import table

WITH_PYTHON = [page for page in PAGES if page not in FIRST_PAGES and blocks(page, "python")]
WITH_COMMANDS = [page for page in PAGES if any(commands(page))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run(script: Path, folder: Path) -> str:
    """Run a file as a reader would, but with warnings as errors; returns what it printed."""
    process = fork_server().start([], folder, dict(os.environ), program=script)
    out, err = process.communicate(60)
    assert process.returncode == 0, err
    return out


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.name)
def test_the_python_of_a_page_runs_in_order(page: Path, tmp_path: Path) -> None:
    """All blocks of a page are one program; an error names the line of the page. See also ``test_first_steps``."""
    lines: list[str] = []
    for block in blocks(page, "python"):
        lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
    script = tmp_path / f"{page.stem.replace('-', '_')}.py"
    script.write_text("\n".join(lines) + "\n", encoding="utf-8")
    run(script, tmp_path)


def test_few_blocks_are_not_run() -> None:
    """A block that is not run may be wrong. These need what a test of a page has not; the page says what."""
    not_run = [(page.name, block.kind) for page in PAGES for block in all_blocks(page) if block.why_not]
    assert not_run == [("README.md", "console"), *[("server.md", "console")] * 2, ("slack.md", "console")]


@table("page", WITH_COMMANDS, ids=lambda page: page.name)
def test_every_command_shown_can_be_parsed(page: Path) -> None:
    """Its name, options and arguments exist."""
    for line in commands(page):
        _, name, *arguments = shlex.split(line, comments=True)
        command = main.get_command(click.Context(main), name)
        assert command is not None, line
        try:
            command.make_context(name, arguments)
        except click.ClickException as error:
            pytest.fail(f"{page.name}: {line}: {error.format_message()}")


@table("page", PAGES, ids=lambda page: page.name)
def test_every_command_in_the_prose_exists(page: Path) -> None:
    """The text names no command that does not exist."""
    assert set(mentions(page)) <= set(COMMANDS)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs(example: Path, tmp_path: Path) -> None:
    """Each example is a complete program that succeeds."""
    assert run(example, tmp_path) != ""
