"""A standby that lagged is promoted: what was acknowledged and is lost is reported once, whole, and done again."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast import Cell, Holdfast, WorkerOptions, machine, receive, workflow
from holdfast.cli.main import main
from holdfast.errors import RunNotFound
from holdfast.runs.losses import losses_in
from holdfast.testing.replication import joint_url, pair
from tests.acceptance.test_postgres_failover import caught_up, with_retries

LOST = 60


@workflow(name="losses.told")
async def told(number: int) -> str:
    return f"{number} {await receive('word', str)}"


@dataclass
class Tick:
    key: str
    number: int


@dataclass
class Ticks:
    numbers: list[int]


@machine(key="key")
def ticking(state: Ticks | None, event: Tick, _cell: Cell) -> Ticks:
    state = state or Ticks([])
    return replace(state, numbers=[*state.numbers, event.number])


def _reports(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "IS BEHIND" in record.getMessage()]


def test_what_a_failover_has_lost_is_listed_whole_and_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Starts, signals and events are in the log, in a file and on the new primary; explain and doctor speak of them;
    ``holdfast lost --again`` repeats them, and everything ends as it was promised."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    caplog.set_level(logging.WARNING)

    async def lose(url: str) -> None:
        async with Holdfast(url, worker=False, workflows=[told]) as app:
            await app.start(told, 0, id="kept")
            await app.emit(Tick("a", 0), id="event 0")
            await caught_up(primary, standby)
            await asyncio.to_thread(standby.stop)
            await app.run("kept").signal("word", "lost", id="signal to kept")
            for number in range(1, LOST + 1):
                handle = await app.start(told, number, id=f"run {number}")
                await handle.signal("word", f"word {number}", id=f"signal {number}")
                await app.emit(Tick("a", number), id=f"event {number}")
            await asyncio.to_thread(primary.stop)
            await asyncio.to_thread(standby.start)
            await asyncio.to_thread(standby.promote)
            # Several sessions meet the new primary at once.
            reading = [with_retries(lambda: app.store.get([app.run("kept").key])) for _ in range(6)]
            await asyncio.gather(*reading)
            with pytest.raises(RunNotFound, match=r"acknowledged by .* before the failover of .* start it again"):
                await app.run("run 7").explain()
            assert "The signal signal to kept was acknowledged by" in await app.run("kept").explain()
            assert len(await losses_in(app.store, app.clock.now())) == 3 * LOST + 1

    async def outcomes(url: str) -> tuple[list[str], list[int]]:
        options = WorkerOptions(evidence=False)
        async with Holdfast(url, workflows=[told], options=options) as app:
            results = [await app.run(f"run {number}").result(timeout=60) for number in range(1, LOST + 1)]
            assert await app.run("kept").result(timeout=60) == "0 lost"
            while len(state := (await app.cell(ticking, "a").state() or Ticks([])).numbers) <= LOST:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            return results, state

    with pair() as (primary, standby):
        url = joint_url(primary.url(), primary, standby)
        asyncio.run(asyncio.wait_for(lose(url), 120))
        (report,) = _reports(caplog)
        assert f"(starts, messages and answers: {3 * LOST + 1}; turns, which are done again by themselves: 0)" in report
        named = " ".join(record.getMessage() for record in caplog.records if record.getMessage().startswith("lost: "))
        assert all(f"start run {number} " in named for number in range(1, LOST + 1))
        assert f"event event {LOST} to machine " in named
        (file,) = (tmp_path / "holdfast").glob("lost-*.jsonl")
        assert str(file) in report
        kept = [json.loads(line) for line in file.read_text().splitlines()]
        assert [sum(each["kind"] == kind for each in kept) for kind in ("start", "signal", "event")] == [60, 61, 60]
        assert all(each["acknowledged_at"] and each["by"] for each in kept)

        def command(*words: str) -> tuple[int, str]:
            done = CliRunner().invoke(main, [*words, "--store", joint_url(url, standby)])
            return done.exit_code, done.output

        code, judged = command("doctor")
        assert code == 1
        assert f"{3 * LOST + 1} acknowledged changes were lost by a failover" in judged
        code, listed = command("lost", "--json")
        assert code == 1
        events = [each for each in json.loads(listed)["lost"] if each["kind"] == "event"]
        assert {each["key"] for each in events} == {"a"}
        assert command("lost", "--again")[0] == 0
        assert command("lost") == (0, "nothing that was acknowledged is known to be lost\n")
        results, numbers = asyncio.run(asyncio.wait_for(outcomes(joint_url(url, standby)), 120))
        assert results == [f"{number} word {number}" for number in range(1, LOST + 1)]
        assert sorted(numbers) == list(range(LOST + 1))
