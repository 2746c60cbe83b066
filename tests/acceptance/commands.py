"""The command in real processes: a folder with an app, in which commands and workers are run."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fork_server import ForkedProcess, fork_server

SECONDS = 60.0

SHOP = """
import asyncio
from pathlib import Path

from holdfast import Holdfast, receive, step, workflow

app = Holdfast("sqlite:///shop.db", worker=False)


@step
async def charge(amount: int) -> str:
    if Path("broke").exists():
        raise ValueError("the card was refused")
    return f"p-{amount}"


@step
async def slow(name: str) -> str:
    Path(f"{name}-began").touch()
    while not Path(f"{name}-end").exists():
        await asyncio.sleep(0.02)
    return name


@workflow
async def ship(amount: int) -> int:
    return amount + 1


@workflow
async def order(amount: int, gift: bool = False) -> dict[str, object]:
    payment = await charge(amount)
    parcel = await ship(amount)
    ok = await receive("ok", bool)
    return {"payment": payment, "parcel": parcel, "ok": ok, "gift": gift}


@workflow
async def pay(amount: int) -> str:
    return await charge(amount)


@workflow
async def long(name: str) -> str:
    return await slow(name)
""".replace("dict[str, object]", "dict")


class Folder:
    """A folder with ``shop.py``, in which commands are run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "shop.py").write_text(SHOP, encoding="utf-8")
        self.environment = {**os.environ, "HOLDFAST_STORE": "sqlite:///shop.db", "PYTHONDONTWRITEBYTECODE": "1"}
        self.environment.pop("HOLDFAST_TENANT", None)

    def begin(self, *args: str, new_session: bool = False) -> ForkedProcess:
        return fork_server().start(list(args), self.path, self.environment, new_session=new_session)

    def call(self, *args: str, code: int = 0) -> str:
        """Run a command, check its exit code, and return its stdout. There must be no traceback."""
        process = self.begin(*args)
        out, err = process.communicate(timeout=SECONDS)
        assert process.returncode == code, f"holdfast {' '.join(args)}: {process.returncode}\n{out}\n{err}"
        assert "Traceback" not in out + err
        return out if code == 0 or out else err

    def read(self, *args: str, code: int = 0) -> list[dict[str, Any]]:
        """Run a command with ``--json`` and return its objects."""
        return [json.loads(line) for line in self.call(*args, "--json", code=code).splitlines()]

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition, and fail after a deadline."""
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"waited too long for {what}"
            time.sleep(0.02)

    def until_file(self, name: str) -> None:
        self.until((self.path / name).exists, name)

    def until_status(self, run: str, status: str) -> None:
        self.until(lambda: self.read("show", run)[0]["status"] == status, f"run {run} to be {status}")

    def worker(self, *args: str) -> Worker:
        return Worker(self.begin("worker", "shop:app", *args, new_session=True))


class Worker:
    """A worker's process. Leaving the ``with`` kills it if it still runs."""

    def __init__(self, process: ForkedProcess) -> None:
        self.process = process
        assert process.stderr is not None
        self.ready = self.read_until("is ready")

    def read_until(self, what: str) -> str:
        """Read stderr up to the next line that contains this text, and return that line."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if what in line:
                return line
        raise AssertionError(f"the worker ended without printing {what!r}")

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        return self.process.wait(SECONDS)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=SECONDS)
