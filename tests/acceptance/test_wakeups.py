"""Wake-ups between real processes, on the real clock."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.testing.redis import RedisServer, server
from tests.acceptance.processes import WorkerGroup, eventually, until
from tests.acceptance.together import watched_loop

DEAF = """
from holdfast import receive, workflow
from holdfast.store.sqlite import store
from holdfast.worker.roles import claimer

store.WATCH_SECONDS = 3600.0  # this process neither polls the file …
claimer.LOOK_SECONDS = 3600.0  # … nor looks for lost hints: only wake-ups are left


@workflow
async def add(number: int) -> int:
    return number + 1


@workflow
async def wait() -> str:
    return await receive("go", str)
"""
SOON_SECONDS = 0.3


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with server() as running:
        yield running


@pytest.fixture
def deaf_app(tmp_path: Path) -> Path:
    path = tmp_path / "deaf.py"
    path.write_text(DEAF, encoding="utf-8")
    return path


def _holdfast(*words: str, **environment: str) -> str:
    command = [sys.executable, "-m", "holdfast.cli.main", *words]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_an_idle_worker_in_another_process_is_woken_within_300_milliseconds(
    redis: RedisServer, deaf_app: Path, tmp_path: Path
) -> None:
    """From the start to the known result, over SQLite: without wake-ups this worker would look after an hour."""
    url = f"sqlite:///{tmp_path}/holdfast.db"

    async def main() -> list[float]:
        async with Holdfast(url, worker=False, wakeups=redis.url) as client, watched_loop() as delays:
            assert await (await client.start("add", 0)).result(60) == 1  # both sides are connected then
            taken = []
            for number in range(9):
                began = time.time()
                assert await (await client.start("add", number)).result(60) == number + 1
                taken.append(delays.since(began))
            return taken

    with WorkerGroup(deaf_app, url, tmp_path, "--wakeups", redis.url) as workers:
        worker = workers.start()
        until(lambda: worker.ready, "the worker to be ready")
        assert f"with wake-ups by {redis.url}" in worker.output
        taken = asyncio.run(main())
        assert statistics.median(taken) < SOON_SECONDS, taken
        workers.stop()


@pytest.mark.long
def test_commands_hint_by_option_and_by_environment(redis: RedisServer, deaf_app: Path, tmp_path: Path) -> None:
    """A command that changes something sends its hint before it ends."""
    url = f"sqlite:///{tmp_path}/holdfast.db"

    async def until_status(run: str, status: str) -> None:
        async with Holdfast(url, worker=False) as client:

            async def reached() -> bool:
                return await client.run(run).status() == status

            await eventually(reached, f"{run} to be {status}")

    with WorkerGroup(deaf_app, url, tmp_path, HOLDFAST_WAKEUPS=redis.url) as workers:
        worker = workers.start()
        until(lambda: worker.ready, "the worker to be ready")
        _holdfast("start", "wait", "--id", "one", "--store", url, "--wakeups", redis.url)
        asyncio.run(until_status("one", "waiting"))
        _holdfast("signal", "one", "go", "on", "--store", url, HOLDFAST_WAKEUPS=redis.url)
        asyncio.run(until_status("one", "completed"))
        workers.stop()


def test_commands_do_their_work_where_the_server_is_away(redis: RedisServer, tmp_path: Path) -> None:
    """A command says so in a line and succeeds; one that only reads does not look; ``doctor`` names the problem."""
    url = f"sqlite:///{tmp_path}/holdfast.db"
    options = ("--store", url, "--wakeups", redis.url)
    found = _holdfast("doctor", *options[2:], "--store", _made(url))
    assert f"{redis.url}: a hint took" in found
    redis.stop()
    began = time.monotonic()
    written = _holdfast("start", "add", "1", "--id", "one", *options)
    assert time.monotonic() - began < 50
    assert written.count("cannot send hints to other processes") == 1
    assert "wakeups" not in _holdfast("list", *options)
    command = [sys.executable, "-m", "holdfast.cli.main", "doctor", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert f"✗ wakeups    {redis.url}: " in done.stdout
    assert "runs go on without" in done.stdout
    done = subprocess.run([*command[:-1], "amqp://broker"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "names no driver of wake-ups" in done.stdout


def _made(url: str) -> str:
    _holdfast("migrate", "--store", url)
    return url
