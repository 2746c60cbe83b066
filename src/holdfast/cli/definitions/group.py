"""``holdfast def``: which of its commands lives in which module."""

from __future__ import annotations

import importlib
from typing import Final

import click

COMMANDS: Final = {
    "check": "files:check",
    "diff": "versions:diff",
    "draw": "pictures:draw",
    "export": "conversion:export",
    "import": "conversion:import_",
    "list": "kept:list_definitions",
    "migrate": "versions:migrate",
    "publish": "kept:publish",
    "schema": "files:schema",
    "show": "kept:show",
    "test": "files:test",
}


class DefinitionCommands(click.Group):
    """Imports a command when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        found: click.Command = getattr(importlib.import_module(f"holdfast.cli.definitions.{module}"), attribute)
        return found


@click.group(cls=DefinitionCommands, name="def")
def definitions() -> None:
    """Check, show, test, draw, publish and list definitions: workflows as data."""
