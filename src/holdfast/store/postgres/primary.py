"""Finds the primary: among the hosts that a URL names, the one server that takes writes.

Hosts are tried one by one, with a short time for each; a host that did not answer in time is tried last from then on.
Where there are several, a server that takes no writes is not accepted, unless the URL asks for a standby by
``target_session_attrs``. A primary that is older than the newest one seen is never accepted: a standby was promoted in
its place, and it does not know yet.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from holdfast.errors import OperatorError, StoreUnavailable, UnsupportedStore
from holdfast.store.postgres.connection import close, connect_to, driver, failures, shown, translate
from holdfast.store.postgres.sql import SQL

HOST_SECONDS: Final = 1.0
"""How long one of several hosts may take to answer."""

ONLY_HOST_SECONDS: Final = 3.0
LONGEST_SECONDS: Final = 10.0
"""While no host answers in time, the time for each is doubled, up to this: the network may be slow."""


class Host(NamedTuple):
    """The address of a server. Empty parts are left to the driver."""

    name: str | None = None
    port: int | None = None

    def __str__(self) -> str:
        return f"{self.name}:{self.port}" if self.port is not None else str(self.name)


class Lineage(NamedTuple):
    """A cluster, and which of its primaries: every promotion begins a new timeline."""

    system: int
    timeline: int

    def replaces(self, other: Lineage | None) -> bool:
        return other is not None and self.system == other.system and self.timeline > other.timeline


class Replaced(OSError):
    """The primary was replaced by another one."""


def hosts_of(url: str) -> list[Host]:
    """The hosts that a URL names, in its order; one without a name where the URL leaves it to the driver."""
    parts = urlsplit(url)
    asked = parse_qs(parts.query)
    named = unquote(parts.netloc.rpartition("@")[2]) or ",".join(asked.get("host", []))
    names = named.split(",")
    if len(names) < 2:
        return [Host()]
    ports = ",".join(asked.get("port", [])).split(",")
    if len(ports) < len(names):
        ports = ports[:1] * len(names)
    return [_host(name, port) for name, port in zip(names, ports, strict=False)]


def _host(name: str, port: str) -> Host:
    if not name.startswith("/"):
        address, colon, number = name.rpartition(":")
        if colon and not number.endswith("]"):
            name, port = address, number
        name = name.strip("[]")
    return Host(name, int(port) if port.isdigit() else None)


class Primary:
    """The search for the primary in one process. All its handles share the results, also across threads."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.newest: Lineage | None = None
        self.looked_at = 0.0
        self._hosts = hosts_of(url)
        self._several = len(self._hosts) > 1
        self._seconds = self._shortest

    @property
    def several(self) -> bool:
        """Whether the URL names more than one host."""
        return self._several

    @property
    def _shortest(self) -> float:
        return HOST_SECONDS if self._several else ONLY_HOST_SECONDS

    def is_outdated(self, session: Any) -> bool:
        """Whether the session's primary was replaced by another one."""
        return self.newest is not session.lineage and self.newest is not None and self.newest.replaces(session.lineage)

    async def connect(self) -> Any:
        """A session with the primary. Raises StoreUnavailable where none is found, and OperatorError."""
        troubles: list[tuple[Host, BaseException]] = []
        for host in self._hosts:
            try:
                session = await self._reach(host)
            except failures() as error:
                troubles.append((host, error))
            except ValueError as error:
                raise UnsupportedStore(
                    f"{shown(self.url)} is not a PostgreSQL URL ({error}): postgresql://USER@HOST/DATABASE"
                ) from error
            else:
                self._hosts = _first(host, _last([late for late, error in troubles if _is_late(error)], self._hosts))
                self._seconds = self._shortest
                return session
        if all(_is_late(error) for _, error in troubles):
            self._seconds = min(self._seconds * 2, LONGEST_SECONDS)
        self._hosts = _last([host for host, error in troubles if _is_late(error)], self._hosts)
        raise self._complaint(troubles) from troubles[0][1]

    async def answers(self, host: Host) -> bool:
        """Whether that host answers and is still acceptable."""
        try:
            await close(await self._reach(host))
        except driver().PostgresError:
            return True  # an error is an answer, too
        except failures():
            self._hosts = _last([host], self._hosts)
            return False
        return True

    async def look_elsewhere(self) -> None:
        """Check whether another host has become the primary, though the present one may not know it yet."""
        for host in self._hosts[1:]:
            with suppress(*failures(), ValueError):
                await close(await self._reach(host))

    async def _reach(self, host: Host) -> Any:
        session = await connect_to(self.url, self._seconds, **self._options(host))
        try:
            session.host = host
            session.lineage = await _lineage(session, self._seconds)
            if self.is_outdated(session):
                raise Replaced("a standby was promoted in its place; end it, or restart this process to go back to it")
        except BaseException:
            session.terminate()
            raise
        if self.newest is None or (session.lineage is not None and not self.newest.replaces(session.lineage)):
            self.newest = session.lineage
        return session

    def _options(self, host: Host) -> dict[str, Any]:
        if not self._several:
            return {}
        options: dict[str, Any] = {"host": host.name, **({} if host.port is None else {"port": host.port})}
        if parse_qs(urlsplit(self.url).query).get("target_session_attrs", ["any"]) == ["any"]:
            options["target_session_attrs"] = "read-write"
        return options

    def _complaint(self, troubles: list[tuple[Host, BaseException]]) -> Exception:
        translated = [translate(error, self.url) for _, error in troubles]
        if not self._several or all(isinstance(error, OperatorError) for error in translated):
            return translated[0]
        each = "; ".join(f"{host}: {_reason(error)}" for host, error in troubles)
        return StoreUnavailable(f"{shown(self.url)} has no primary ({each}). It is searched for again.")


async def connect(url: str) -> Any:
    """One session with the primary that belongs to no handle."""
    return await Primary(url).connect()


async def _lineage(session: Any, seconds: float) -> Lineage | None:
    """The lineage of a session's server; None for a standby, and for a service that does not reveal it."""
    try:
        found = await session.fetchrow(SQL["lineage"], timeout=seconds)
    except driver().PostgresError:
        return None
    return Lineage(*found) if found is not None else None


def _is_late(error: BaseException) -> bool:
    return isinstance(error, TimeoutError)


def _reason(error: BaseException) -> str:
    if isinstance(error, driver().TargetServerAttributeNotMatched):
        return "is a standby"
    return "does not answer in time" if _is_late(error) else str(error) or type(error).__name__


def _first(host: Host, hosts: list[Host]) -> list[Host]:
    return [host, *(other for other in hosts if other != host)]


def _last(late: list[Host], hosts: list[Host]) -> list[Host]:
    return [*(host for host in hosts if host not in late), *(host for host in hosts if host in late)]
