"""A driver from its URL."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from holdfast.errors import UnsupportedWakeups
from holdfast.wakeups.driver import Wakeups

FORMS: Final = "redis://HOST:PORT/DATABASE, rediss://… for TLS, or unix:///SOCKET"


def wakeups_of(given: str | Wakeups | None) -> Wakeups | None:
    """The driver that a URL names, or the given one, not connected yet. Raises UnsupportedWakeups, ExtraMissing."""
    if given is None or given == "":
        return None
    if isinstance(given, str):
        return _at(given)
    if not all(callable(getattr(given, name, None)) for name in ("publish", "listen", "close")):
        raise UnsupportedWakeups(
            f"{given!r:.60} carries no wake-ups: give a URL, {FORMS}, or an object with publish, listen and close."
        )
    return given


def shown(url: str) -> str:
    """A URL without its secrets: no user, no password, no parameters. Where it is not clear what they are, no rest."""
    scheme, _, rest = url.partition("://")
    place = rest.partition("?")[0].partition("#")[0]
    server, slash, path = place.partition("/")
    if "@" in path or ("@" in rest and "@" not in server):
        return f"{scheme}://…"
    return f"{scheme}://{server.rpartition('@')[2]}{slash}{path}"


def _at(url: str) -> Wakeups:
    try:
        parts = urlsplit(url)
        place = parts.path if parts.scheme == "unix" else parts.hostname and (parts.port or parts.hostname)
    except ValueError:  # its text may have a part of a password
        raise UnsupportedWakeups(
            f"the host or the port in {shown(url)!r} cannot be read: use {FORMS}, with / in a password as %2F"
        ) from None
    if parts.scheme not in ("redis", "rediss", "unix"):
        raise UnsupportedWakeups(f"{shown(url)!r} names no driver of wake-ups: use {FORMS}")
    if not place:
        raise UnsupportedWakeups(f"{shown(url)!r} names no server: use {FORMS}")
    database = parts.path.strip("/")
    if parts.scheme != "unix" and database and not database.isdecimal():
        raise UnsupportedWakeups(f"{shown(url)!r}: a database of Redis is a number, as in redis://HOST:6379/0")
    from holdfast.wakeups.redis import RedisWakeups

    return RedisWakeups(url)
