"""A definition is published, its runs are under way in worker processes, and move: on PostgreSQL, on the real clock."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from holdfast import Holdfast
from holdfast.testing.postgres import PostgresServer
from tests.acceptance.processes import WorkerGroup, until, until_status

APP = """
from holdfast import Holdfast, WorkerOptions, step

app = Holdfast("sqlite:///unused.db", options=WorkerOptions(lease_seconds=2), worker=False)


@step(name="moving.book")
async def book(what: str) -> str:
    return what
"""


def booked(name: str) -> dict[str, Any]:
    return {name: {"step": "moving.book", "with": {"what": name}, "as": f"state.{name}"}}


def document(version: int, *nodes: dict[str, Any]) -> dict[str, Any]:
    return {"holdfast": "definition/1", "name": "moving.trip", "version": version, "steps": list(nodes)}


WAITS = {"go": {"wait": "go", "timeout": "300ms", "on": {"timeout": []}}}
BEFORE = document(1, booked("hotel"), {"ready": {"wait": "ready"}}, WAITS, {"end": {"end": "=state.hotel"}})
AFTER = document(
    2,
    booked("hotel"),
    {"ready": {"wait": "ready"}},
    WAITS,
    booked("flight"),
    {"end": {"end": "=[state.hotel, state.flight]"}},
)


def test_live_runs_move_in_worker_processes_on_postgresql(tmp_path: Path, postgres: PostgresServer) -> None:
    """One worker is killed after the move, and another goes on: with the newer version, and a timer that is due."""
    url = postgres.schema_url()
    app = tmp_path / "moving_app.py"
    app.write_text(APP, encoding="utf-8")

    async def main(workers: WorkerGroup) -> None:
        async with Holdfast(url, worker=False) as client:
            await client.definitions.publish(BEFORE, check_uses=False)
            first = workers.start()
            until(lambda: first.ready, "the first worker")
            runs = [await client.start("moving.trip@1", {}, id=f"run-{number}") for number in range(3)]
            for run in runs:
                await until_status(run, "waiting")
            to = await client.definitions.compile(AFTER, check_uses=False)
            planned = await client.definitions.plan_moves(to)
            assert {(move.run, move.verdict) for move in planned} == {(run.id, "safe") for run in runs}
            await client.definitions.migrate(to, runs=["run-0", "run-1"], by="ann")
            for run in runs[:2]:
                while (await run.instance()).version != 2:
                    await client.changed(0.05)
            workers.kill(first)
            second = workers.start()
            until(lambda: second.ready, "the second worker")
            for run in runs:
                await run.signal("ready")
            assert [await run.result(60) for run in runs] == [["hotel", "flight"], ["hotel", "flight"], "hotel"]
            for run in runs:
                assert (await run.verify()).good

    with WorkerGroup(app, url, tmp_path) as workers:
        asyncio.run(main(workers))
