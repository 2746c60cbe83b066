"""``holdfast machines``: govern machines, and import charts."""

from __future__ import annotations

import click

from holdfast.cli.machines.charts import import_chart
from holdfast.cli.machines.manifests import COMMANDS


@click.group()
def machines() -> None:
    """Govern machines: the manifest in force, and proposals for another. Make machines from charts."""


for command in (import_chart, *COMMANDS):
    machines.add_command(command)
