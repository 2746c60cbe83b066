"""An engine that is not open, or was closed, refuses every call at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, SyncHoldfast, step, workflow
from holdfast.errors import InvalidRequest
from holdfast.store.memory import MemoryStore
from holdfast.store.protocol import Store
from holdfast.testing.postgres import PostgresServer
from tests.scope import one_stays

begun: list[bool] = []


@step(name="closed.wait")
async def wait() -> None:
    begun.append(True)
    await asyncio.sleep(3600)


@workflow(name="closed.waiting")
async def waiting() -> None:
    await wait()


@workflow(name="closed.nothing")
async def nothing() -> str:
    return "done"


async def _walk(items: AsyncIterator[Any]) -> None:
    async for _ in items:
        pass


CALLS: dict[str, Callable[[Holdfast], Awaitable[Any]]] = {
    "start": lambda app: app.start(nothing, id="one"),
    "start by name": lambda app: app.start("closed.nothing", id="one"),
    "list": lambda app: _walk(app.list()),
    "info": lambda app: app.run("one").info(),
    "status": lambda app: app.run("one").status(),
    "result": lambda app: app.run("one").result(),
    "signal": lambda app: app.run("one").signal("word", 1),
    "cancel": lambda app: app.run("one").cancel(),
    "pause": lambda app: app.run("one").pause(),
    "resume": lambda app: app.run("one").resume(),
    "journal": lambda app: _walk(app.run("one").journal()),
    "tail": lambda app: _walk(app.run("one").tail()),
    "explain": lambda app: app.run("one").explain(),
    "verify": lambda app: app.run("one").verify(),
    "evidence": lambda app: app.run("one").evidence(),
    "retry": lambda app: app.run("one").retry(),
    "fork": lambda app: app.run("one").fork(1),
    "children": lambda app: _walk(app.run("one").children()),
    "tasks": lambda app: _walk(app.tasks.list()),
    "approve": lambda app: app.tasks.approve("t", by="ann"),
    "receipts": lambda app: _walk(app.receipts.list()),
    "receipt": lambda app: app.receipts.get("r"),
    "audit": lambda app: _walk(app.audit.list()),
    "audit verify": lambda app: app.audit.verify(),
}


@pytest.fixture(params=one_stays(["memory", "sqlite", "postgres"], 2))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str | Store:
    if request.param == "memory":
        return MemoryStore()
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'closed.db'}"
    running: PostgresServer = request.getfixturevalue("postgres")
    return running.schema_url()


async def _refused(app: Holdfast, within: float = 5.0) -> None:
    for name, call in CALLS.items():
        began = time.monotonic()
        with pytest.raises(InvalidRequest, match="not open"):
            await asyncio.wait_for(call(app), 30)
        assert time.monotonic() - began < within, name


def test_an_engine_that_was_never_opened_refuses_everything_at_once(place: str | Store) -> None:
    """It does not wait for a store that nobody will open."""
    asyncio.run(_refused(Holdfast(place, workflows=[nothing])))


def test_an_engine_that_was_closed_refuses_everything_at_once(place: str | Store) -> None:
    """Nothing is acknowledged that would not be kept; opened again, it works again."""

    async def main() -> None:
        app = Holdfast(place, workflows=[nothing])
        async with app:
            assert await (await app.start(nothing, id="one")).result(60) == "done"
        await _refused(app)
        async with app:
            assert await (await app.start(nothing, id="two")).result(60) == "done"
            assert await app.run("one").status() == "completed"

    asyncio.run(main())


def test_a_wait_for_a_result_ends_when_the_engine_closes(place: str | Store) -> None:
    """The run itself continues in another process."""

    async def main() -> None:
        begun.clear()
        app = Holdfast(place, workflows=[waiting, nothing])
        await app.open()
        run = await app.start(waiting)
        while not begun:  # noqa: ASYNC110  # an event belongs to one loop
            await asyncio.sleep(0.01)
        waiter = asyncio.create_task(run.result())
        await asyncio.sleep(0)
        closing = asyncio.create_task(app.close(grace_seconds=0.3))
        await asyncio.sleep(0.05)
        late = asyncio.gather(*(app.start(nothing, id=f"late {n}") for n in range(50)), return_exceptions=True)
        answers = await asyncio.wait_for(late, 60)
        await asyncio.wait_for(closing, 60)
        with pytest.raises(InvalidRequest, match="the run goes on"):
            await asyncio.wait_for(waiter, 60)
        refused = [answer for answer in answers if isinstance(answer, BaseException)]
        assert all(isinstance(each, InvalidRequest) for each in refused)
        async with Holdfast(place, worker=False) as client:
            kept = {row.id async for row in client.list(workflow="closed.nothing")}
        assert len(kept) == len(answers) - len(refused), "what was acknowledged is kept, and nothing else"

    asyncio.run(main())


def test_the_client_without_await_refuses_too(place: str | Store) -> None:
    """Before it is opened and after it is closed, and so does what it gave."""
    app = SyncHoldfast(place, workflows=[nothing])
    for call in (lambda: app.start(nothing), lambda: list(app.list()), lambda: list(app.tasks.list())):
        with pytest.raises(InvalidRequest, match="not open"):
            call()
    with app:
        run = app.start(nothing, id="one")
        assert run.result(60) == "done"
    for call in (lambda: app.start(nothing), lambda: list(app.list()), lambda: list(app.tasks.list())):
        with pytest.raises(InvalidRequest, match="not open"):
            call()
    with pytest.raises(InvalidRequest, match="closed"):
        run.status()
