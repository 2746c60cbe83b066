"""A store with a few runs in it, and a way to call commands on it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from holdfast import Holdfast
from holdfast.cli.main import main
from holdfast.errors import RunFailed
from tests.unit.cli import cli_shop, gate_fixture

Invoke = Callable[..., Result]


async def _fill(url: str) -> None:
    async with Holdfast(url, workflows=[cli_shop.order, cli_shop.failing]) as app:
        done = await app.start(cli_shop.order, 5, id="done", attributes={"customer": "7"})
        await done.signal("ok", True)
        await done.result()
        failed = await app.start(cli_shop.failing, "no\x1b[31m red", id="failed")
        with pytest.raises(RunFailed):
            await failed.result()
        waiting = await app.start(cli_shop.order, 3, id="waiting", tenant="acme", gift=True)
        while await waiting.status() != "waiting":
            await app.changed(0.05)


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a completed, a failed and a waiting run; never changed by a test."""
    path = tmp_path_factory.mktemp("cli") / "filled.db"
    asyncio.run(_fill(f"sqlite:///{path}"))
    return path


@pytest.fixture
def database(filled: Path, tmp_path: Path) -> str:
    """A copy of it as a store's URL, for this test alone."""
    copy = tmp_path / "copy.db"
    copy.write_bytes(filled.read_bytes())
    return f"sqlite:///{copy}"


@pytest.fixture
def holdfast(database: str) -> Invoke:
    """Call a command on the copy."""
    return _invoker(database)


@pytest.fixture(scope="session")
def governed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with governed runs; never changed by a test."""
    path = tmp_path_factory.mktemp("cli") / "governed.db"
    asyncio.run(gate_fixture.fill(f"sqlite:///{path}"))
    return path


@pytest.fixture
def bank_url(governed: Path, tmp_path: Path) -> str:
    """A copy of it as a store's URL, for this test alone."""
    copy = tmp_path / "bank.db"
    copy.write_bytes(governed.read_bytes())
    return f"sqlite:///{copy}"


@pytest.fixture
def bank(bank_url: str) -> Invoke:
    """Call a command on that copy."""
    return _invoker(bank_url)


def _invoker(url: str) -> Invoke:
    def invoke(*args: str, input: str | None = None) -> Result:
        result = CliRunner().invoke(main, args, env={"HOLDFAST_STORE": url}, input=input, prog_name="holdfast")
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return invoke


def lines(result: Result) -> list[dict[str, Any]]:
    """The JSON objects that a command wrote."""
    return [json.loads(line) for line in result.stdout.splitlines()]
