"""The page ``docs/cli.md`` and ``holdfast --help`` are complete."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner

from holdfast.cli import exits
from holdfast.cli.main import COMMANDS, main
from tests.tables import table
from tests.unit.cli.conftest import Invoke, lines

PAGE = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")
SHARED = PAGE.partition("## Running")[0]


def _section(name: str) -> str:
    found = re.search(rf"^### holdfast {name}\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/cli.md has no section `### holdfast {name}`"
    return found[1]


def _command(name: str) -> click.Command:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return command


def _flags(command: click.Command) -> Iterator[str]:
    parts = command.commands.values() if isinstance(command, click.Group) else [command]
    for part in parts:
        for parameter in part.params:
            if isinstance(parameter, click.Option):
                yield from (flag for flag in parameter.opts if flag.startswith("--"))


@table("name", COMMANDS)
def test_every_command_has_a_section_with_an_example(name: str) -> None:
    """A command that is not documented does not exist."""
    assert re.search(rf"^\$ holdfast {name}\b", _section(name), re.MULTILINE)


@table("name", COMMANDS)
def test_every_option_is_documented_with_its_command_or_as_shared(name: str) -> None:
    """Each option stands in its command's section, or among those that all commands share."""
    missing = [flag for flag in _flags(_command(name)) if f"`{flag}" not in _section(name) + SHARED]
    assert missing == []


@table("name", COMMANDS)
def test_every_command_takes_json(name: str) -> None:
    """Every command writes for people and for programs."""
    command = _command(name)
    parts = command.commands.values() if isinstance(command, click.Group) else [command]
    assert all("--json" in _flags(part) for part in parts)


def test_the_page_documents_no_command_that_is_gone() -> None:
    """The page never promises what is not there."""
    assert re.findall(r"^### holdfast (\S+)", PAGE, re.MULTILINE) != []
    assert set(re.findall(r"^### holdfast (\S+)", PAGE, re.MULTILINE)) == set(COMMANDS)


def test_exit_codes_are_the_same_in_help_page_and_code() -> None:
    """One table, three places."""
    help_text = CliRunner().invoke(main, ["--help"]).stdout
    for code, meaning in exits.TABLE:
        assert f"| {code} | {meaning} |" in PAGE
        assert re.search(rf"^\s+{code}  {re.escape(meaning)}$", help_text, re.MULTILINE)


def test_help_lists_each_command_with_the_line_of_its_own_help() -> None:
    """`holdfast --help` is quick because it imports no command; its lines must not drift from them."""
    help_text = CliRunner().invoke(main, ["--help"]).stdout
    for name, (_, line) in COMMANDS.items():
        assert f"{name} " in help_text
        assert line in help_text
        assert (_command(name).help or "").strip(), name


def test_help_imports_neither_commands_nor_drivers() -> None:
    """What is not needed is not imported: help comes at once."""
    script = (
        "import sys\n"
        "from holdfast.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('rich', 'asyncpg')"
        " or name.startswith('holdfast.cli.') and name not in ('holdfast.cli.main', 'holdfast.cli.exits')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_key_of_a_shown_run_is_documented(holdfast: Invoke) -> None:
    """A program that reads it needs no guess, and every documented key is there."""
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (.*) \|$", _section("show"), re.MULTILINE)
    documented = {key for keys, _ in rows for key in re.findall(r"`(\w+)`", keys)}
    (shown,) = lines(holdfast("show", "done", "--json"))
    assert documented == set(shown)
    meanings = " ".join(meaning for _, meaning in rows)
    (waiting,) = lines(holdfast("show", "waiting", "--tenant", "acme", "--json"))
    parts = [*shown["timeline"], *waiting["waits"], *shown["children"]]
    assert {key for part in parts for key in part if f"`{key}`" not in meanings} == set()
