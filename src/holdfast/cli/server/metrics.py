"""``--metrics [HOST:]PORT``: metrics and health of a worker that serves nothing else."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import click

from holdfast.cli.server.extra import check_extra
from holdfast.client.engine import Holdfast
from holdfast.errors import InvalidRequest

if TYPE_CHECKING:
    from holdfast.server.listener import Listener

TOKEN: Final = "HOLDFAST_METRICS_TOKEN"  # noqa: S105  # the variable's name
LOOPBACK: Final = "127.0.0.1"


class Address(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """``9464`` or ``HOST:9464``; an IPv6 address stands in brackets."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        host, _, port = str(value).rpartition(":")
        if not port.isdecimal() or int(port) > 65535:
            self.fail(f"{value!r} is no address: write PORT or HOST:PORT.", param, ctx)
        return host.strip("[]") or LOOPBACK, int(port)


metrics = click.option(
    "--metrics",
    type=Address(),
    metavar="[HOST:]PORT",
    help="Serve /metrics, /healthz and /readyz there.",
)


def exporter(engine: Holdfast, address: tuple[str, int]) -> Listener:
    """A listener for the metrics of an engine. Raises ExtraMissing, AddressTaken, InvalidRequest."""
    check_extra("--metrics")
    from holdfast.server.exporter import Exporter
    from holdfast.server.listener import Listener
    from holdfast.server.protection.origins import is_loopback

    token = os.environ.get(TOKEN)
    if token is None and not is_loopback(address[0]):
        raise InvalidRequest(f"metrics on {address[0]} are open to all who reach it: set {TOKEN}, or use {LOOPBACK}.")
    return Listener(Exporter(engine, token), *address)
