"""The hosts that a URL names."""

from __future__ import annotations

import os
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit


class Host(NamedTuple):
    """The address of a server. Empty parts are left to the driver."""

    name: str | None = None
    port: int | None = None

    def __str__(self) -> str:
        if self.name is None:
            return "the server"
        return f"{self.name}:{self.port}" if self.port is not None else self.name


def hosts_of(url: str) -> list[Host]:
    """The hosts that a URL names, in its order; one without a name where the URL leaves it to the driver."""
    names, ports = _named(url)
    if len(names) < 2:
        return [Host()]
    return [_host(name, port) for name, port in zip(names, ports, strict=False)]


def place_of(url: str) -> str:
    """One spelling for the servers of a URL, whatever their order, the user, the password and the database."""
    names, ports = _named(url)
    hosts = [_host(name, port) for name, port in zip(names, ports, strict=False)]
    default_name, default_port = os.environ.get("PGHOST", ""), os.environ.get("PGPORT", "5432")
    return ",".join(sorted({f"{host.name or default_name}:{host.port or default_port}" for host in hosts}))


def wants_primary(url: str) -> bool:
    """Whether the URL leaves it open, or says, that a server must take writes."""
    return asked_for(url, "target_session_attrs", "any") in ("any", "read-write", "primary")


def asked_for(url: str, name: str, default: str) -> str:
    """The value of a parameter of the URL."""
    return parse_qs(urlsplit(url).query).get(name, [default])[0]


def _named(url: str) -> tuple[list[str], list[str]]:
    parts = urlsplit(url)
    asked = parse_qs(parts.query)
    named = unquote(parts.netloc.rpartition("@")[2]) or ",".join(asked.get("host", []))
    names = named.split(",")
    ports = ",".join(asked.get("port", [])).split(",")
    return names, ports if len(ports) >= len(names) else ports[:1] * len(names)


def _host(name: str, port: str) -> Host:
    if not name.startswith("/"):
        address, colon, number = name.rpartition(":")
        if colon and not number.endswith("]"):
            name, port = address, number
        name = name.strip("[]")
    return Host(name or None, int(port) if port.isdigit() else None)
