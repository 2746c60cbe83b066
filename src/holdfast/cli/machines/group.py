"""``machines``: the group."""

from __future__ import annotations

import click

from holdfast.cli.machines.manifests import COMMANDS


@click.group()
def machines() -> None:
    """Govern machines: see the manifest in force, propose, shadow, approve and apply another one."""


for command in COMMANDS:
    machines.add_command(command)
