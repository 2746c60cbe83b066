"""A primary and its standby for tests: real servers that are lagged, frozen, killed and promoted.

``with pair() as (primary, standby):`` gives two servers of one host, the second of which follows the first. Both are
as ``holdfast.testing.postgres`` makes them, so nothing is left of them afterwards.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.testing.postgres import OwnServer, binaries

STANDBY = "standby_one"


class _Template(OwnServer):
    """The data of a server that never ran: copies of it are fast to make, and can replicate each other."""

    initial = ("--wal-segsize=1",)

    def start(self) -> None:
        pass


@cache
def _template(programs: Path) -> _Template:
    made = _Template(programs, fast=True)
    atexit.register(made.remove)
    return made


class Replicated(OwnServer):
    """A server that can be frozen."""

    def __init__(self, programs: Path) -> None:
        self._copied = _template(programs)._data
        super().__init__(programs, fast=True)

    def _make(self) -> None:
        subprocess.run(["cp", "-a", str(self._copied), str(self._data)], check=True)

    @property
    def folder(self) -> Path:
        """The folder of its socket, which is its host in a URL."""
        return self._folder

    def freeze(self) -> None:
        """Freeze all of its processes: it accepts no new connections and closes none."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen server continue."""
        self._signal(signal.SIGCONT)

    def wait_for(self, *standbys: str) -> None:
        """Answer a commit only when these standbys have it; without any, at once."""
        self.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{','.join(standbys)}'")
        self.execute("SELECT pg_reload_conf()")

    def remove(self) -> None:
        self.thaw()
        super().remove()

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._processes():
            with suppress(ProcessLookupError):  # it may have ended by itself
                os.kill(pid, number)

    def _processes(self) -> list[int]:
        """The server and its children."""
        try:
            head = int((self._data / "postmaster.pid").read_text().split()[0])
        except FileNotFoundError:
            return []
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
        pairs = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
        return [head, *(pid for pid, parent in pairs if parent == head)]


class Standby(Replicated):
    """A server that follows another one until it is promoted."""

    def __init__(self, programs: Path, leader: Replicated) -> None:
        self._leader = leader
        super().__init__(programs)

    def _make(self) -> None:
        super()._make()
        (self._data / "standby.signal").touch()
        with (self._data / "postgresql.auto.conf").open("a") as settings:
            source = f"host={self._leader.folder} user=postgres application_name={STANDBY}"
            settings.write(f"primary_conninfo = '{source}'\n")

    def promote(self) -> None:
        """Make it the primary; it answers when that is done."""
        self._run("pg_ctl", "promote", "-w", "-t", "60")


@contextmanager
def pair() -> Iterator[tuple[Replicated, Standby]]:
    """A primary and its standby. The primary does not wait for it: see ``Replicated.wait_for``."""
    programs = binaries()
    primary = Replicated(programs)
    try:
        standby = Standby(programs, primary)
        try:
            yield primary, standby
        finally:
            standby.remove()
    finally:
        primary.remove()


def joint_url(url: str, *servers: Replicated, host: Path | None = None) -> str:
    """The URL of the same database on the primary among these servers, or at this host."""
    parts = urlsplit(url)
    others = [part for part in parts.query.split("&") if part and not part.startswith("host=")]
    hosts = ",".join(str(folder) for folder in (*(server.folder for server in servers), host) if folder is not None)
    return f"{parts.scheme}://{parts.netloc}{parts.path}?{'&'.join([f'host={hosts}', *others])}"
