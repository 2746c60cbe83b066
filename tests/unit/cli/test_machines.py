"""``holdfast machines`` and ``holdfast cells``: for people and for programs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from holdfast import Holdfast
from holdfast.cli.main import main
from tests.unit.cli.cli_machines import Poured, tank
from tests.unit.cli.conftest import Invoke, lines

APP = str(Path(__file__).with_name("cli_machines.py"))


async def _fill(url: str) -> None:
    async with Holdfast(url) as app:
        for number, litres in ((1, 120), (2, 5), (3, 5), (3, -1), (3, 7)):
            sent = await app.emit(Poured(number, litres), id=f"e {number} {litres}")
            await app.cell(tank, number).state(after=sent.places[0])


@pytest.fixture(scope="session")
def tanks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tanks") / "tanks.db"
    asyncio.run(_fill(f"sqlite:///{path}"))
    return path


@pytest.fixture
def url(tanks: Path, tmp_path: Path) -> str:
    copy = tmp_path / "tanks.db"
    copy.write_bytes(tanks.read_bytes())
    return f"sqlite:///{copy}"


@pytest.fixture
def holdfast(url: str) -> Invoke:
    def invoke(*args: str, input: str | None = None) -> Result:
        # the machines are imported by the test: the file would declare them a second time
        result = CliRunner().invoke(
            main, [*args, "--app", "tests.unit.cli.cli_machines"], env={"HOLDFAST_STORE": url}, input=input
        )
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return invoke


def test_machines_are_listed_and_shown(holdfast: Invoke) -> None:
    found = holdfast("machines", "list")
    assert "cli_tank" in found.stdout
    assert "1 parked, 2 running" in found.stdout
    (record,) = [each for each in lines(holdfast("machines", "list", "--json")) if each["name"] == "cli_tank"]
    assert (record["cells"], record["lanes"]) == ({"running": 2, "parked": 1}, 2)
    shown = holdfast("machines", "show", "cli_tank").stdout
    assert "tank/Poured@1" in shown
    assert "tank/Full@1" in shown
    assert holdfast("machines", "show", "no").exit_code == 2


def test_cells_are_listed_by_their_state(holdfast: Invoke) -> None:
    """A value is JSON where it is JSON; a list continues behind its cursor."""
    assert sorted(each["key"] for each in lines(holdfast("cells", "list", "cli_tank", "--json"))) == [1, 2, 3]
    chosen = lines(holdfast("cells", "list", "cli_tank", "--where", "litres=5", "--status", "running", "--json"))
    assert [each["state"] for each in chosen] == [{"litres": 5, "label": "water"}]
    assert lines(holdfast("cells", "list", "cli_tank", "--where", "label=oil", "--json")) == []
    assert "ValueError: a tank cannot be emptied …" in holdfast("cells", "list", "cli_tank").stdout
    first = holdfast("cells", "list", "cli_tank", "--limit", "2")
    cursor = first.stderr.split("--after ")[1].split()[0]
    assert len(lines(holdfast("cells", "list", "cli_tank", "--after", cursor, "--json"))) == 1
    assert "no cells match" in holdfast("cells", "list", "cli_tank", "--active-since", "2100-01-01").stderr


def test_one_cell_is_shown_traced_and_diagnosed(holdfast: Invoke) -> None:
    """Its key is a number, written as JSON."""
    shown = holdfast("cells", "show", "cli_tank", "3").stdout
    assert "parked" in shown
    assert "1 handled, 2 held" in shown
    (record,) = lines(holdfast("cells", "show", "cli_tank", "3", "--json"))
    assert (record["key"], record["status"], record["held"]) == (3, "parked", 2)
    traced = holdfast("cells", "trace", "cli_tank", "3").stdout
    assert [line.split()[2] for line in traced.splitlines()] == [
        *("event", "changed", "event", "parked", "changed", "event", "changed")
    ]
    (trace,) = lines(holdfast("cells", "trace", "cli_tank", "1", "--json"))
    assert [each["kind"] for each in trace["items"]] == ["event", "emitted", "changed"]
    assert "`holdfast cells release cli_tank 3`" in holdfast("cells", "diagnose", "cli_tank", "3").stdout
    (diagnosis,) = lines(holdfast("cells", "diagnose", "cli_tank", "3", "--json"))
    assert diagnosis["causes"][0]["code"] == "release_cell"
    missing = holdfast("cells", "show", "cli_tank", "9")
    assert (missing.exit_code, "no cell of key 9" in missing.stderr) == (3, True)
    assert holdfast("cells", "show", "cli_tank", "nine").exit_code == 2
    assert holdfast("cells", "show", "cli_tank").exit_code == 2


def test_what_happens_to_a_cell_is_followed(url: str) -> None:
    """From the beginning, or from now on, until it is interrupted."""
    command = [sys.executable, "-m", "holdfast", "cells", "tail", "cli_tank", "3", "--from", "0", "--json"]
    given = {**os.environ, "HOLDFAST_STORE": url, "PYTHONUNBUFFERED": "1"}
    tail = subprocess.Popen(
        [*command, "--app", "tests.unit.cli.cli_machines"],
        stdout=subprocess.PIPE,
        text=True,
        env=given,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # it is ignored in a background job
    )
    assert tail.stdout is not None
    try:
        found = [json.loads(tail.stdout.readline())["kind"] for _ in range(4)]
        tail.send_signal(signal.SIGINT)
        assert (found, tail.wait(timeout=60)) == (["event", "changed", "event", "parked"], 130)
    finally:
        tail.kill()
        tail.stdout.close()
        tail.wait()


def test_a_parked_cell_is_released_once_by_somebody(holdfast: Invoke, url: str) -> None:
    done = holdfast("cells", "release", "cli_tank", "3", "--drop", "--as", "ann", "--reason", "wrong")
    assert done.stdout == "the cell goes on, without the event that parked it\n"
    (told,) = lines(holdfast("cells", "release", "cli_tank", "3", "--json"))
    assert told["action"] == "release"
    refused = holdfast("cells", "release", "cli_tank", "1")
    assert (refused.exit_code, "not parked" in refused.stderr) == (4, True)

    async def main() -> None:
        async with Holdfast(url) as app:
            async with asyncio.timeout(60):
                while (found := await app.cell(tank, 3).show()).status == "parked":
                    await app.changed(0.05)
            assert found.state.litres == 12
            acts = [each.record async for each in app.audit.list(kind="operator")]
            (act,) = [each for each in acts if each["who"] == "ann"]
            assert act["act"] == "drop_event"

    asyncio.run(main())


def test_events_are_sent_as_json(holdfast: Invoke) -> None:
    sent = holdfast("machines", "send", "tank/Poured@1", '{"tank": 2, "litres": 1}', "--id", "one")
    assert sent.stdout == "event one is heard by cli_tank\n"
    (again,) = lines(holdfast("machines", "send", "tank/Poured@1", '{"tank": 2, "litres": 1}', "--id", "one", "--json"))
    assert (again["repeated"], again["heard"], again["places"][0]["machine"]) == (True, True, "cli_tank")
    wrong = holdfast("machines", "send", "tank/Poured@1", '{"tank": 2, "litres": "x"}')
    assert (wrong.exit_code, "field 'litres'" in wrong.stderr) == (2, True)
    assert holdfast("machines", "send", "tank/Poured@1", "nonsense").exit_code == 2
    assert holdfast("machines", "send", "tank/Full@1", '{"tank": 2}').exit_code == 1


def test_dead_letters_are_listed_and_redelivered(holdfast: Invoke) -> None:
    (letter,) = lines(holdfast("machines", "dead-letters", "--json"))
    assert (letter["schema"], letter["value"], letter["reason"]) == ("tank/Full@1", {"tank": 1}, "nobody hears it")
    assert letter["id"] in holdfast("machines", "dead-letters").stdout
    refused = holdfast("machines", "redeliver", letter["id"])
    assert (refused.exit_code, "nobody hears tank/Full@1 still" in refused.stderr) == (2, True)
    assert holdfast("machines", "redeliver", "cli_tank:0:9999:0").exit_code == 3


def test_lanes_are_listed_where_they_are_asked_for(holdfast: Invoke, url: str) -> None:
    def listed(*more: str) -> list[str]:
        found = CliRunner().invoke(main, ["list", "--json", *more], env={"HOLDFAST_STORE": url})
        return [json.loads(line)["workflow"] for line in found.stdout.splitlines()]

    assert listed() == []
    assert set(listed("--kind", "machine")) == {"cli_tank"}


def test_an_app_may_have_machines_alone(url: str, tmp_path: Path) -> None:
    """It needs no workflow and no engine; the file is imported under its own name."""
    alone = tmp_path / "alone_machines.py"
    text = Path(APP).read_text(encoding="utf-8").replace("cli_tank", "cli_alone").replace("tank/", "alone/")
    alone.write_text(text, encoding="utf-8")
    found = CliRunner().invoke(main, ["machines", "list", "--app", str(alone)], env={"HOLDFAST_STORE": url})
    assert "cli_alone" in found.stdout


def test_lanes_are_split(holdfast: Invoke, url: str, tmp_path: Path) -> None:
    """Workers hand the cells over; until then the list, and what is shown, say how far it is. What was recorded is
    verified and replayed through the split."""
    assert "a multiple of that" in holdfast("machines", "split", "cli_tank", "--lanes", "3", "--as", "ann").stderr
    split = holdfast("machines", "split", "cli_tank", "--lanes", "4", "--as", "ann", "--reason", "more load")
    assert split.exit_code == 0
    assert "machine cli_tank has 4 lanes from now on" in split.stdout
    assert "4 of its lanes are being handed their cells" in " ".join(holdfast("machines", "list").stdout.split())
    shown = " ".join(holdfast("machines", "show", "cli_tank").stdout.split())
    assert "4 of the 4 lanes do not have all of their cells: 3 cells are not handed over yet" in shown

    async def finish() -> None:
        async with Holdfast(url) as app:
            while (await app.machines.show(tank)).moving:
                await app.changed(0.05)

    asyncio.run(finish())
    (record,) = [each for each in lines(holdfast("machines", "list", "--json")) if each["name"] == "cli_tank"]
    assert (record["lanes"], record["moving"], record["unmoved"]) == (4, 0, 0)
    assert lines(holdfast("cells", "show", "cli_tank", "2", "--json"))[0]["state"] == {"litres": 5, "label": "water"}
    checks = lines(holdfast("machines", "verify", "cli_tank", "--json"))
    assert [each["good"] for each in checks] == [True] * 6
    file = str(tmp_path / "recorded.json")
    command = ["machines", "export", "cli_tank", "-o", file, "--json"]
    (exported,) = lines(CliRunner().invoke(main, command, env={"HOLDFAST_STORE": url}))
    assert (exported["lanes"], exported["cells"]) == (6, 3)
    (seen,) = lines(holdfast("machines", "replay", file, "--json"))[0]["machines"]
    assert (seen["cells"], seen.get("different", 0), seen.get("unseen", [])) == (3, 0, [])
    again = holdfast("machines", "split", "cli_tank", "--lanes", "8", "--as", "ann", "--json")
    assert lines(again)[0]["lanes"] == 8
