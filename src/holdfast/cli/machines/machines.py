"""``holdfast machines``: import charts."""

from __future__ import annotations

import click

from holdfast.cli.machines.charts import import_chart


@click.group()
def machines() -> None:
    """Make machines from other ways of writing them."""


machines.add_command(import_chart)
