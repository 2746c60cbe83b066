"""``worker --definitions``: what a worker accepts when it starts, and what an invalid file means."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast import Holdfast, child, workflow
from holdfast.cli.main import main
from holdfast.cli.shift import Shift
from holdfast.errors import InvalidDefinition
from holdfast.store.memory import MemoryStore
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


def test_an_app_keeps_its_own_mode(folder: Path) -> None:
    """Unless the command says another one; `worker` and `serve` are alike in this."""
    (folder / "bad.yaml").write_text(BAD)
    app = Holdfast(MemoryStore(), definitions_mode="warn", worker=False)
    app.definitions.give([folder])

    async def main() -> None:
        async with app:
            assert [each.name for each in app.definitions.unavailable] == ["bad"]
        strict = Holdfast(MemoryStore(), definitions=folder, definitions_mode="warn", worker=False)
        strict.definitions.give([], "strict")
        with pytest.raises(InvalidDefinition):
            await strict.open()

    asyncio.run(main())


@pytest.mark.parametrize("command", ["worker", "serve"])
def test_a_command_keeps_the_mode_of_its_app(command: str, folder: Path, tmp_path: Path) -> None:
    """A strict command would end with the faults before it opens the store."""
    (folder / "bad.yaml").write_text(BAD)
    path = tmp_path / "lenient.py"
    path.write_text(
        APP.format(store=tmp_path / "own.db", folder=folder).replace("worker=False", "definitions_mode='warn'")
    )
    arguments = [command, str(path), "--store", f"sqlite:///{tmp_path}/none/of/it.db", "--definitions", str(folder)]
    lenient = CliRunner().invoke(main, arguments)
    assert "cannot be opened" in lenient.stderr
    strict = CliRunner().invoke(main, [*arguments, "--definitions-mode", "strict"])
    assert "bad.yaml:4:" in strict.stderr
    assert "cannot be opened" not in strict.stderr


def test_what_is_unavailable_is_shown_to_operators(folder: Path, tmp_path: Path, holdfast: Invoke) -> None:
    """By the doctor, and by `explain` for a run that asks for it; the worker's row has it."""
    (folder / "bad.yaml").write_text(BAD)
    url = f"sqlite:///{tmp_path}/kept.db"

    @workflow(name="worker.asks_for_bad")
    async def asks() -> None:
        await child("bad", int)()

    async def main() -> None:
        async with Holdfast(url, definitions=folder, definitions_mode="warn", workflows=[asks]) as app:
            run = await app.start(asks, id="asks")
            await run.settled(30)
            (row,) = await app.workers()
            (each,) = row.unavailable
            assert (each.name, each.version) == ("bad", 1)
            assert "bad.yaml:4:" in each.problem
            assert f"Worker {row.id} was given a definition that is invalid: bad@1: " in await run.explain()
            result = await asyncio.to_thread(holdfast, "doctor", "--store", url, "--json")
            (workers,) = [check for check in json.loads(result.stdout)["checks"] if check["name"] == "workers"]
            assert (workers["good"], workers["warning"]) == (True, True)
            assert workers["facts"]["unavailable"][row.id][0]["name"] == "bad"
            assert "cannot start a definition that it was given: bad@1" in workers["detail"]

    asyncio.run(main())
