"""``holdfast machines``: govern and check machines, prove their cells, and import charts."""

from __future__ import annotations

import click

from holdfast.cli.machines.charts import import_chart
from holdfast.cli.machines.manifests import COMMANDS
from holdfast.cli.machines.replay import export, replay
from holdfast.cli.machines.verification import prove, verify


@click.group()
def machines() -> None:
    """Govern machines: the manifest in force, and proposals for another. Check them, prove cells, import charts."""


for command in (import_chart, verify, prove, export, replay, *COMMANDS):
    machines.add_command(command)
