"""The pytest plugin, in separate sessions: alone, and beside the plugins that run async tests in real time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.scope import one_stays

TESTS = """
import asyncio
import time

import pytest

from holdfast import Holdfast, now, receive, step, workflow
from holdfast.testing import VirtualLoop

WEEK = 7 * 86400


@workflow
async def trial(days: int) -> int:
    began = now()
    await asyncio.sleep(days * 86400)
    return (now() - began).days


@step
def double(number: int) -> int:
    return 2 * number


@workflow
async def doubled(number: int) -> int:
    return await double(number)


@pytest.fixture
def shop(holdfast_app):
    assert isinstance(holdfast_app, Holdfast)
    return holdfast_app


async def test_a_month_passes(holdfast_app):
    real = time.monotonic()
    run = await holdfast_app.start(trial, 30)
    assert await run.result() == 30
    assert time.monotonic() - real < 60


async def test_each_test_has_its_own_store(shop):
    assert [row async for row in shop.list()] == []
    await shop.start(doubled, 3, id="a")
    assert await shop.run("a").result() == 6


@pytest.mark.parametrize("number", [1, 2])
async def test_with_parameters(holdfast_app, number, tmp_path):
    assert tmp_path.exists()
    assert await (await holdfast_app.start(doubled, number, id="a")).result() == 2 * number


class TestInAClass:
    async def test_in_a_class(self, holdfast_app):
        assert await (await holdfast_app.start(doubled, 3)).result() == 6


@pytest.mark.holdfast(workflows=[doubled], seed=7)
async def test_with_options(holdfast_app):
    assert set(holdfast_app.workflows) >= {"doubled"}
    assert "trial" not in holdfast_app.workflows


def test_plain(holdfast_app, holdfast_loop):
    run = holdfast_loop.run_until_complete(holdfast_app.start(doubled, 4))
    assert holdfast_loop.run_until_complete(run.result()) == 8


async def test_a_task_that_is_left_over(holdfast_app):
    asyncio.get_running_loop().create_task(asyncio.sleep(WEEK))


def test_without_it():
    assert True
"""

REAL = {
    "asyncio": """

import pytest

@pytest.mark.asyncio
async def test_of_the_other_plugin():
    assert not isinstance(asyncio.get_running_loop(), VirtualLoop)
""",
    "auto": """

async def test_of_the_other_plugin():
    assert not isinstance(asyncio.get_running_loop(), VirtualLoop)
""",
    "anyio": """

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.anyio
async def test_of_the_other_plugin():
    assert not isinstance(asyncio.get_running_loop(), VirtualLoop)
""",
}
UNUSED = ("cacheprovider", "hypothesispytest", "schemathesis", "timeout", "valkey", "xdist", "xdist.looponfail")
"""Plugins of this environment that have no part in it, and take longer to load than the tests to run."""
SCOPE = ["-o", "asyncio_default_fixture_loop_scope=function"]
MODES = {
    "alone": ["-p", "no:asyncio", "-p", "no:anyio"],
    "asyncio": ["-p", "no:anyio", *SCOPE],
    "auto": ["-o", "asyncio_mode=auto", *SCOPE],
    "anyio": ["-p", "no:asyncio"],
}


def session(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """A session as in a user's project, in which every warning is an error."""
    (folder / "test_them.py").write_text(text, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\nfilterwarnings = error\n")
    unused = [option for name in UNUSED for option in ("-p", f"no:{name}")]
    command = [sys.executable, "-m", "pytest", "-q", *unused, *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize("mode", one_stays(MODES))
def test_an_async_test_that_asks_for_the_engine_runs_in_virtual_time(mode: str, tmp_path: Path) -> None:
    """By the fixture alone, even beside other plugins for async tests; their tests still run in real time."""
    done = session(tmp_path, TESTS + REAL.get(mode, ""), *MODES[mode])
    count = 9 + (mode in REAL)
    assert f"{count} passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


@pytest.mark.long
def test_both_other_plugins_may_be_there_at_once(tmp_path: Path) -> None:
    """In strict mode, without any settings."""
    done = session(tmp_path, TESTS + REAL["anyio"] + REAL["asyncio"].replace("test_of", "test_asyncio_of"), *SCOPE)
    assert "11 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.long
def test_a_test_that_fails_is_shown_where_it_failed(tmp_path: Path) -> None:
    """An assertion, and a wait of a virtual day for a signal that nobody sends."""
    text = (
        "from holdfast import receive, workflow\n"
        "@workflow\nasync def waits() -> None:\n    await receive('never')\n"
        "async def test_wrong(holdfast_app):\n    assert 1 == 2\n"
        "async def test_late(holdfast_app):\n    await (await holdfast_app.start(waits)).result(timeout=86400)\n"
        "async def test_after(holdfast_app):\n    await holdfast_app.start(waits)\n"
    )
    done = session(tmp_path, text, *SCOPE)
    assert "2 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "assert 1 == 2" in done.stdout
    assert "TimeoutError" in done.stdout
    assert "ERROR" not in done.stdout
