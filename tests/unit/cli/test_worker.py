"""The policy of a worker that the command line starts."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from holdfast import Holdfast, WorkerOptions
from holdfast.cli.main import main
from holdfast.cli.runs import worker as working
from holdfast.cli.shift import Shift
from holdfast.gate.policy.policy import NO_POLICY, parse
from holdfast.worker.gate import policy_watcher as policing
from tests.unit.cli import cli_bank

BANK = "tests.unit.cli.cli_bank"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A good policy."""
    path = tmp_path / "policy.yaml"
    path.write_text(cli_bank.POLICY, encoding="utf-8")
    return path


def test_a_broken_policy_ends_the_worker_at_once(tmp_path: Path) -> None:
    """Exit 5 with every place that is wrong, and no database is made."""
    broken = tmp_path / "broken.yaml"
    broken.write_text("version: 1\nrules: [{name: x}]\n", encoding="utf-8")
    store = tmp_path / "none.db"
    for file, message in ((broken, f"error: {broken}:2:"), (tmp_path / "missing.yaml", "missing.yaml")):
        args = ["worker", BANK, "--policy", str(file), "--store", f"sqlite:///{store}"]
        result = CliRunner().invoke(main, args)
        assert (result.exit_code, message in result.stderr) == (5, True), result.output
    assert not store.exists()


def _chosen(app: Holdfast | None, args: list[str]) -> Holdfast:
    """The engine that the command would serve."""
    context = working.worker.make_context("worker", [BANK, *args], auto_envvar_prefix=None)
    with context.scope():
        params = context.params
        return working.engine_of(app, params["store"], params["policy"], params["secrets_table"])


def test_the_policy_comes_from_the_option_or_the_environment(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without either every action is denied."""
    wanted = parse(cli_bank.POLICY, "").hash
    assert _chosen(None, []).policy.current is NO_POLICY
    assert _chosen(None, ["--policy", str(file)]).policy.current.hash == wanted
    monkeypatch.setenv("HOLDFAST_POLICY", str(file))
    assert _chosen(None, []).policy.current.hash == wanted


def test_an_apps_own_policy_yields_to_the_command_line_alone(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As its own store does; and another store does not take its policy away."""
    own = parse("version: 1\nrules: []\n", "own")
    app = Holdfast(f"sqlite:///{tmp_path}/own.db", worker=False, policy=own)
    monkeypatch.setenv("HOLDFAST_POLICY", str(file))
    assert _chosen(app, []).policy.current is own
    elsewhere = _chosen(app, ["--store", f"sqlite:///{tmp_path}/other.db"])
    assert (elsewhere.policy.current, elsewhere.url) == (own, f"sqlite:///{tmp_path}/other.db")
    assert _chosen(app, ["--policy", str(file)]).policy.current.rules == parse(cli_bank.POLICY, "").rules


def test_wake_ups_come_from_the_command_line_then_the_app_then_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As policies do; another store does not take the app's away."""

    def driver(app: Holdfast | None, *args: str) -> str:
        return str(_chosen(app, list(args)).neighbours.wakeups)

    app = Holdfast(f"sqlite:///{tmp_path}/own.db", worker=False, wakeups="redis://of-the-app")
    other = ("--store", f"sqlite:///{tmp_path}/other.db")
    assert driver(None) == "None"
    assert driver(app) == driver(app, *other) == "redis://of-the-app"
    monkeypatch.setenv("HOLDFAST_WAKEUPS", "redis://of-the-environment")
    assert driver(None) == driver(None, *other) == "redis://of-the-environment"
    assert driver(app) == driver(app, *other) == "redis://of-the-app"
    assert driver(app, *other, "--wakeups", "redis://typed") == driver(None, "--wakeups", "redis://typed")
    assert driver(app, "--wakeups", "redis://typed") == "redis://typed"


def test_a_hangup_has_the_worker_look_at_its_policy(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, and not at the watcher's next look; the worker runs until a signal stops it."""
    monkeypatch.setattr(policing, "LOOK_SECONDS", 3600.0)
    engine = Holdfast(f"sqlite:///{tmp_path}/hangup.db", workflows=[cli_bank.payment], policy=file)
    before = engine.policy.current.hash

    async def whole() -> None:
        shift = asyncio.create_task(Shift(engine, as_json=False).work())
        await _until(lambda: engine.worker is not None and engine.worker.running)
        await asyncio.to_thread(file.write_text, "version: 1\nrules: []\n", "utf-8")
        os.kill(os.getpid(), signal.SIGHUP)
        await _until(lambda: engine.policy.current.hash != before)
        os.kill(os.getpid(), signal.SIGTERM)
        await shift

    asyncio.run(whole())
    assert len(engine.policy.current.rules) == 0


async def _until(holds: Callable[[], bool]) -> None:
    """Let the loop turn until it holds."""
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110  # what the engine sets has no event of its own
            await asyncio.sleep(0)


def test_the_command_is_the_one_that_is_documented() -> None:
    """The option has its environment variable."""
    (option,) = [each for each in working.worker.params if each.name == "policy"]
    assert isinstance(option, click.Option)
    assert option.envvar == "HOLDFAST_POLICY"


def test_the_keys_of_executors_come_from_options_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``NAME=FILE``, several with spaces between them; a key that is not there ends the worker with what is missing."""
    monkeypatch.setenv("HOLDFAST_EXECUTOR_KEYS", "bank=a.pem post=b.pem")
    context = working.worker.make_context("worker", [BANK])
    assert context.params["executor_keys"] == (("bank", "a.pem"), ("post", "b.pem"))
    monkeypatch.delenv("HOLDFAST_EXECUTOR_KEYS")
    store = ["--store", f"sqlite:///{tmp_path}/none.db"]
    wrong = CliRunner().invoke(main, ["worker", BANK, *store, "--executor-key", "bank"])
    assert (wrong.exit_code, "write NAME=FILE" in wrong.stderr) == (2, True), wrong.output
    gone = CliRunner().invoke(main, ["worker", BANK, *store, "--executor-key", f"bank={tmp_path}/gone.pem"])
    assert gone.exit_code != 0
    assert "the private key of executor 'bank' cannot be read" in gone.stderr


def test_the_cache_of_cells_and_the_room_for_payloads_are_options() -> None:
    args = [BANK, "--cached-cells", "7", "--cached-cell-bytes", "8000", "--payload-limit-bytes", "90000"]
    given = working.worker.make_context("worker", args).params
    changed = working._options(
        WorkerOptions(),
        None,
        None,
        None,
        {name: given[name] for name in ("cached_cells", "cached_cell_bytes", "grace_seconds", "payload_limit_bytes")},
    )
    assert changed.payload_limit_bytes == 90_000
    assert (changed.cached_cells, changed.cached_cell_bytes, changed.grace_seconds) == (7, 8000, 10.0)
