"""The group of commands about machines."""

from __future__ import annotations

import click

from holdfast.cli.machines.verification import prove, verify


@click.group()
def machines() -> None:
    """Check machines and prove their cells."""


machines.add_command(verify)
machines.add_command(prove)
