"""``worker --definitions``: what a worker accepts when it starts, and what an invalid file means."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast import Holdfast
from holdfast.cli.main import main
from holdfast.cli.shift import Shift
from holdfast.errors import InvalidDefinition
from tests.unit.cli.conftest import Invoke, lines

GOOD = "holdfast: definition/1\nname: good\nversion: 1\nsteps: [{done: {end: =start.n}}]\n"
BAD = "holdfast: definition/1\nname: bad\nversion: 1\nsteps: [{x: {step: worker.gone}}]\n"
APP = """
from pathlib import Path
from holdfast import Holdfast
app = Holdfast("sqlite:///{store}", worker=False, definitions=Path("{folder}"))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "definitions"
    found.mkdir()
    (found / "good.yaml").write_text(GOOD)
    return found


def test_strict_ends_the_worker_with_all_faults(folder: Path, tmp_path: Path) -> None:
    """Before anything else is done: no database is made."""
    (folder / "bad.yaml").write_text(BAD)
    (folder / "worse.yaml").write_text("name: [")
    store = tmp_path / "none.db"
    result = CliRunner().invoke(main, ["worker", "--definitions", str(folder), "--store", f"sqlite:///{store}"])
    assert result.exit_code not in (0, 70)
    assert "bad.yaml:4:" in result.stderr
    assert "worse.yaml:1:" in result.stderr
    assert not store.exists()


def test_a_worker_needs_an_app_or_definitions(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["worker", "--store", f"sqlite:///{tmp_path}/none.db"])
    assert (result.exit_code, "or give --definitions PATH" in result.stderr) == (2, True)


def test_warn_serves_the_rest(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The invalid one is unavailable, and starting it says why."""
    (folder / "bad.yaml").write_text(BAD)
    engine = Holdfast(f"sqlite:///{tmp_path}/kept.db")
    engine.definitions.give([folder], "warn")

    async def play() -> None:
        shift = asyncio.create_task(Shift(engine, as_json=True).work())
        while engine.worker is None or not engine.worker.running:  # noqa: ASYNC110  # it has no event of its own
            await asyncio.sleep(0)
        assert await (await engine.start("good", {"n": 7})).result(30) == 7
        with pytest.raises(InvalidDefinition, match=r"bad is not available here(.|\n)*worker\.gone"):
            await engine.start("bad")
        os.kill(os.getpid(), signal.SIGTERM)
        await shift

    asyncio.run(play())
    ready = json.loads(capsys.readouterr().out.splitlines()[0])
    assert "good@1" in ready["workflows"]
    assert not any(name.partition("@")[0] == "bad" for name in ready["workflows"])


def test_an_app_brings_its_definitions_to_start(folder: Path, tmp_path: Path, holdfast: Invoke, database: str) -> None:
    """By name with --app; a name that is nowhere is refused with those that are there."""
    path = tmp_path / "definitions_app.py"
    path.write_text(APP.format(store=tmp_path / "own.db", folder=folder))
    started = holdfast("start", "good", '{"n": 7}', "--id", "G-1", "--app", str(path), "--store", database)
    assert (started.exit_code, started.stdout) == (0, "run G-1 started\n"), started.output
    refused = holdfast("start", "goood", "{}", "--app", str(path), "--store", database)
    assert refused.exit_code != 0
    assert "the app has no workflow 'goood'; it has: " in refused.stderr
    assert "good@1" in refused.stderr


def test_start_takes_definitions_as_a_worker_does(folder: Path, tmp_path: Path, holdfast: Invoke) -> None:
    """What a worker serves by --definitions is started so; what is not given is refused, and no run is made of it."""
    started = holdfast("start", "good", '{"n": 7}', "--id", "G-2", "--definitions", str(folder))
    assert (started.exit_code, started.stdout) == (0, "run G-2 started\n"), started.output
    (shown,) = lines(holdfast("show", "G-2", "--json"))
    assert shown["instance"]["definition"] == "good"
    refused = holdfast("start", "goood", "{}", "--id", "G-3", "--definitions", str(folder))
    assert "it has: " in refused.stderr
    assert "good@1" in refused.stderr
    assert holdfast("show", "G-3").exit_code == 3


def test_invalid_definitions_start_nothing(folder: Path, tmp_path: Path) -> None:
    (folder / "bad.yaml").write_text(BAD)
    store = tmp_path / "none.db"
    result = CliRunner().invoke(main, ["start", "good", "--definitions", str(folder), "--store", f"sqlite:///{store}"])
    assert "bad.yaml:4:" in result.stderr
    assert not store.exists()
