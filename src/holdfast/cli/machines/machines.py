"""``holdfast machines``: import charts, check machines, prove their cells."""

from __future__ import annotations

import click

from holdfast.cli.machines.charts import import_chart
from holdfast.cli.machines.verification import prove, verify


@click.group()
def machines() -> None:
    """Make machines from other ways of writing them, check machines, and prove their cells."""


machines.add_command(import_chart)
machines.add_command(verify)
machines.add_command(prove)
