"""Machines on the real clock: their workers are killed at any moment, and PostgreSQL is away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.cells.cell import decode_cell
from holdfast.errors import StoreUnavailable
from holdfast.store import protocol as p
from holdfast.testing.postgres import PostgresServer
from tests.acceptance import cell_storm_app
from tests.acceptance.cell_storm_app import KEYS, StormPage, StormTold, page
from tests.acceptance.evidence import completions, done_again, interrupted, read_log
from tests.acceptance.processes import WorkerGroup, eventually, sqlite_url, storm
from tests.scope import SEED, volume

WORKERS, KILLS = volume(1, 3), volume(3, 12)
EVENTS = volume(32, 60)
"""So many are sent before each kill."""
OUTAGE_SECONDS = volume(4.0, 20.0)

pytestmark = pytest.mark.timeout(300)


def _workers(url: str, folder: Path) -> WorkerGroup:
    log = str(folder / "steps.log")
    return WorkerGroup(
        Path(cell_storm_app.__file__), url, folder, "--lease-seconds", "2", "--grace-seconds", "20", STORM_LOG=log
    )


async def _emit(app: Holdfast, event: StormTold) -> None:
    """As a caller does: where the store does not answer, it is sent again, with its id."""
    while True:
        try:
            await app.emit(event, id=f"e{event.id}")
            return
        except StoreUnavailable:
            await asyncio.sleep(0.2)


async def _send(app: Holdfast, first: int, count: int) -> None:
    """Each is sent twice with its id. Events of one key are sent one after the other."""

    async def of_key(key: int) -> None:
        for number in range(first, first + count):
            if number % KEYS == key:
                for _ in range(2):
                    await _emit(app, StormTold(f"k{key}", number))

    await asyncio.gather(*map(of_key, range(KEYS)))


async def _at_rest(app: Holdfast) -> None:
    async def rests() -> bool:
        runs = [run async for run in app.list(kind="machine")]
        if any(run.worker is not None for run in runs) or (await app.store.facts()).inbox:
            return False
        rows = await app.store.find_cells(p.CellQuery("default", page.name), 1000)
        return not any(row.wake_at or decode_cell(row.record).intents for row in rows)

    await eventually(rests, "everything to be handled")


async def _check(app: Holdfast, log: Path, count: int) -> None:
    """Each event, copy, receipt and timer once, in its own cell; own events in their order; the journals tell it."""
    for key in range(KEYS):
        state = await app.cell(page, f"k{key}").state()
        own = [number for number in range(count) if number % KEYS == key]
        copied = [number for number in range(count) if (number + 1) % KEYS == key]
        assert state is not None
        found = StormPage(state.seen, state.copied, sorted(state.settled), sorted(state.rung))
        assert found == StormPage(own, copied, own, own)
    assert {each.problems async for each in app.machines.verify(page)} == {()}
    assert [each async for each in app.machines.dead_letters()] == []
    recorded = await completions(app, [run async for run in app.list(kind="machine")])
    lines = read_log(log)
    assert done_again(lines, recorded) == []
    assert {line.key for line in lines} <= recorded.keys()


async def _survive(url: str, folder: Path, seed: int) -> bool:
    """Whether a kill came during an effect. The laws hold in any case."""
    async with Holdfast(url, worker=False) as app:

        async def feed(kill: int) -> None:
            await _send(app, kill * EVENTS, EVENTS)

        with _workers(url, folder) as group:
            await storm(group, WORKERS, KILLS, seed, seconds=(0.0, 0.15), feed=feed)
            await _at_rest(app)
            group.stop()
        await _check(app, folder / "steps.log", KILLS * EVENTS)
        return interrupted(read_log(folder / "steps.log")) > 0


def _stormed(folder: Path, url_of: Callable[[Path], str]) -> None:
    """Let a storm pass, and another one where no kill came during an effect: such a one proves nothing."""
    for number in range(4):
        place = folder / f"storm-{number}"
        place.mkdir()
        if asyncio.run(_survive(url_of(place), place, SEED + number)):
            return
    pytest.fail("no kill came during an effect, in four storms: this test proves nothing")


def test_a_storm_of_kills_on_sqlite_loses_no_event_and_doubles_none(tmp_path: Path) -> None:
    _stormed(tmp_path, lambda folder: sqlite_url(folder / "storm.db"))


@pytest.mark.long
def test_a_storm_of_kills_on_postgresql_loses_no_event_and_doubles_none(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    _stormed(tmp_path, lambda _: postgres.schema_url())


async def _outage(server: PostgresServer, folder: Path) -> None:
    url, count = server.schema_url(), 4 * EVENTS
    async with Holdfast(url, worker=False) as app:
        with _workers(url, folder) as group:
            member = group.start()
            await _send(app, 0, 2 * EVENTS)

            async def moving() -> bool:
                return len(read_log(folder / "steps.log")) > EVENTS

            await eventually(moving, "effects to be under way")
            await asyncio.to_thread(server.stop, "immediate")
            waiting = asyncio.create_task(_send(app, 2 * EVENTS, 2 * EVENTS))
            await asyncio.sleep(OUTAGE_SECONDS)  # the outage itself: longer than leases
            await asyncio.to_thread(server.start)
            await waiting
            await _at_rest(app)
            assert member.alive
            assert "Traceback" not in member.output
            group.stop()
        await _check(app, folder / "steps.log", count)


@pytest.mark.long
def test_machines_go_on_by_themselves_when_postgresql_was_away(tmp_path: Path, own_postgres: PostgresServer) -> None:
    """The same worker handles what is sent meanwhile, and each effect and timer comes once."""
    asyncio.run(_outage(own_postgres, tmp_path))
