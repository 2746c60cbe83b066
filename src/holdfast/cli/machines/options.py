"""What the commands about machines share: their code, and one cell by its machine and key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click

from holdfast.cli import options, session
from holdfast.cli.apps import load_app
from holdfast.client.engine import Holdfast
from holdfast.client.machines.cell_handle import CellHandle

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

app = click.option(
    "--app", required=True, metavar="APP", help="The code of the machines: module:attribute or file.py:attribute."
)


def of_machines(function: F) -> F:
    """The code, the tenant and the store."""
    return app(options.tenant(options.store(function)))


def one_cell(function: F) -> F:
    """A cell, by its machine and key."""
    return click.argument("machine")(click.argument("key", required=False)(of_machines(function)))


def on_machines(spec: str, store: str | None, work: Callable[[Holdfast], Awaitable[T]]) -> T:
    """Load the code, open the store, do the work."""
    loaded = load_app(spec)
    return session.on_store(session.url_of(store, loaded), work, app=loaded)


def cell_of(app: Holdfast, machine: str, key: str | None, tenant: str) -> CellHandle[Any]:
    """A cell. Its key is a text, or JSON where the machine's keys are no texts."""
    return app.machines.cell(machine, app.machines.read_key(machine, key), tenant=tenant)
