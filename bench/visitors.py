"""Visitors of a server: requests over kept connections, open streams, and what the server's process spends on them.

The client is written by hand over sockets, so that it takes little of the processor that it measures.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

APP = """
from filler import WORKFLOWS
from holdfast import workflow


@workflow(name="bench.http")
async def nothing(number: int) -> int:
    return number
"""


class ServerProcess:
    """A server in another process."""

    def __init__(self, folder: Path, store: str, *options: str) -> None:
        (folder / "app.py").write_text(f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n{APP}")
        command = [sys.executable, "-m", "holdfast", "serve", "app.py", "--port", "0", "--json", "--store", store]
        self.process = subprocess.Popen(
            [*command, *options], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        self.port = int(json.loads(self.process.stdout.readline())["address"].rstrip("/").rpartition(":")[2])

    def cpu_ms(self) -> float:
        """The milliseconds of the processor that all of its threads have used."""
        total = 0
        for thread in Path(f"/proc/{self.process.pid}/task").iterdir():
            total += int((thread / "schedstat").read_text().split()[0])
        return total / 1e6

    def memory_kib(self) -> int:
        """Its resident memory."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


@contextmanager
def serving(folder: Path, store: str, *options: str) -> Iterator[ServerProcess]:
    """A server, which is stopped at the end."""
    server = ServerProcess(folder, store, *options)
    try:
        yield server
    finally:
        server.stop()


class Cost(NamedTuple):
    """What requests cost: the clock of the client in milliseconds, and the processor of the server for each."""

    count: int
    p50: float
    p95: float
    cpu: float
    per_second: float


class Visitor:
    """One kept connection."""

    def __init__(self, port: int, token: str, accept: str = "application/json") -> None:
        self._port = port
        self._head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nAccept: {accept}\r\n"
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Send one request, and give the body of its answer. Raises RuntimeError where it is refused."""
        if self._writer is None or self._reader is None or self._reader.at_eof():  # the server closes what nobody uses
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        self._writer.write(f"{method} {path} HTTP/1.1\r\n{self._head}{kind}\r\n".encode() + body)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        size = next(int(line[15:]) for line in head.lower().split("\r\n") if line.startswith("content-length:"))
        answer = await self._reader.readexactly(size)
        if head[9] != "2":
            raise RuntimeError(f"{method} {path}: {head.splitlines()[0]} {answer[:200]!r}")
        return answer

    async def listen(self, path: str) -> asyncio.StreamReader:
        """Open a stream of events; what comes of it is read by whoever called."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writer.write(f"GET {path} HTTP/1.1\r\n{self._head}\r\n".encode())
        head = await self._reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head.partition(b"\r\n")[0]:
            raise RuntimeError(f"{path}: {head[:200]!r}")
        return self._reader

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


async def visit(server: ServerProcess, visitors: Sequence[Visitor], paths: Sequence[str]) -> Cost:
    """Send GET requests for all paths, each visitor one after the other."""
    taken: list[float] = []
    rest = iter(paths)

    async def go(visitor: Visitor) -> None:
        for path in rest:
            began = time.perf_counter()
            await visitor.ask("GET", path)
            taken.append((time.perf_counter() - began) * 1e3)

    for visitor in visitors:  # the connections are open, and what is made once is made
        await visitor.ask("GET", paths[0])
    cpu, began = server.cpu_ms(), time.perf_counter()
    await asyncio.gather(*map(go, visitors))
    seconds, cpu = time.perf_counter() - began, server.cpu_ms() - cpu
    return cost_of(taken, cpu, seconds)


def cost_of(taken: Sequence[float], cpu: float, seconds: float) -> Cost:
    cuts = statistics.quantiles(taken, n=20)
    return Cost(len(taken), statistics.median(taken), cuts[18], cpu / len(taken), len(taken) / seconds)
