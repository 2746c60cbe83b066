"""``machines verify`` and ``machines prove``, on a store with cells in it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from holdfast import Holdfast
from holdfast.cli import exits
from holdfast.cli.main import main
from tests.laws.machines.bank import Deposited, account
from tests.unit.cli.conftest import Invoke, lines

APP = ("--app", "tests.laws.machines.bank")


async def _fill(url: str) -> None:
    async with Holdfast(url) as app:
        for number in range(12):
            sent = await app.machines.send(Deposited(f"a{number % 4}", f"e{number}", 20))
            await app.machines.cell(account, f"a{number % 4}").state(after=sent.places[0])


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("machines") / "cells.db"
    asyncio.run(_fill(f"sqlite:///{made}"))
    return made


@pytest.fixture
def database(path: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "copy.db"
    copy.write_bytes(path.read_bytes())
    return copy


@pytest.fixture
def holdfast(database: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    monkeypatch.delenv("HOLDFAST_KEY_PASSPHRASE", raising=False)

    def invoke(*args: str) -> Result:
        env = {"HOLDFAST_STORE": f"sqlite:///{database}"}
        result = CliRunner().invoke(main, args, env=env, prog_name="holdfast")
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return invoke


def test_honest_machines_are_verified(holdfast: Invoke) -> None:
    done = holdfast("machines", "verify", *APP)
    assert done.exit_code == exits.GOOD, done.output
    assert "lanes verified, all good" in done.output
    found = lines(holdfast("machines", "verify", account.name, *APP, "--json"))
    assert sum(each["cells"] for each in found) == 4
    assert all(each["good"] for each in found)


def test_a_changed_row_is_named(holdfast: Invoke, database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("DELETE FROM cells WHERE key = ?", (b"ba1",))
    done = holdfast("machines", "verify", *APP)
    assert done.exit_code == exits.NO
    assert "its handlers make a cell that has no row: key 'a1'" in done.output


def test_a_proof_is_written_and_checked_without_a_store(holdfast: Invoke, tmp_path: Path) -> None:
    file, keys = tmp_path / "a1.json", tmp_path / "keys.pem"
    done = holdfast("machines", "prove", account.name, "a1", *APP, "-o", str(file))
    assert done.exit_code == exits.GOOD, done.output
    assert holdfast("keys", "export", "-o", str(keys)).exit_code == exits.GOOD
    checked = holdfast("verify", str(file), "--key", str(keys))
    assert checked.exit_code == exits.GOOD, checked.output
    assert "the key 'a1' of machine bank.account" in checked.output
    shown = json.loads(file.read_text())
    file.write_text(json.dumps({**shown, "version": shown["version"] + 1}))
    assert holdfast("verify", str(file), "--key", str(keys)).exit_code == exits.NO


def test_lanes_do_not_trouble_the_other_checks(holdfast: Invoke, tmp_path: Path) -> None:
    """Journals, audit and installation are good where there are lanes, with and without roots."""
    for _ in range(2):
        assert holdfast("verify", "--all").exit_code == exits.GOOD
        assert holdfast("audit", "verify").exit_code == exits.GOOD
        assert holdfast("doctor").exit_code == exits.GOOD
        holdfast("machines", "prove", account.name, "a1", *APP, "-o", str(tmp_path / "a1.json"))
