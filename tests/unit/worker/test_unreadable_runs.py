"""One run that nobody can read, or that the engine stumbles over, is parked; all others go on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast import Holdfast, action, receive, step, workflow
from holdfast.errors import StoreCorrupt
from holdfast.programs.function.decorators import Workflow
from holdfast.store import protocol as p
from holdfast.worker.gate.governor import Governor
from tests.unit.worker.ground import Ground, Line, asked, asking, rested, until

DONE: list[str] = []


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


@action(connector="desk", operation="note", name="unreadable.note")
async def note(word: str) -> str:
    DONE.append(word)
    return word


@step(name="unreadable.prepare")
async def prepare(word: str) -> str:
    DONE.append(f"prepared {word}")
    return word


@step(name="unreadable.queued", queue="slow")
async def queued(word: str) -> str:
    DONE.append(word)
    return word


@workflow(name="unreadable.acts")
async def acts(word: str) -> str:
    return await note(word)


@workflow(name="unreadable.prepares")
async def prepares(word: str) -> str:
    return await note(await prepare(word))


@workflow(name="unreadable.waits")
async def waits() -> Any:
    return await receive("go")


@workflow(name="unreadable.plain")
async def plain(word: str) -> str:
    return await prepare(word)


@workflow(name="unreadable.queues")
async def queues(word: str) -> str:
    return await queued(word)


NAMES = [f"good-{number}" for number in range(3)]


async def parked(app: Holdfast, run: str) -> str:
    """Wait until the run is parked; gives the reason."""
    while True:
        row = await app.run(run).info()
        if row.pause_reason is not None and row.worker is None:
            return row.pause_reason
        await app.changed(0.05)


async def offered(ground: Ground, flow: Workflow[..., Any], *names: str) -> None:
    """Start runs where no worker is, so that one claim finds them all."""
    async with Holdfast(line_to(ground), clock=ground.clock, workflows=[flow], worker=False) as app:
        for name in names:
            await app.start(flow, name, id=name)


def line_to(ground: Ground) -> Any:
    return Line(ground.store)


UNREADABLE = [
    msgspec.ValidationError("Expected `str`, got `null` - at `$.answers[0].reason`"),
    StoreCorrupt("database disk image is malformed"),
]


def breaking(monkeypatch: pytest.MonkeyPatch, store: p.Store, operation: str, error: Exception = UNREADABLE[0]) -> None:
    """Let a read of the store fail as soon as it is about the run called bad."""
    read = getattr(store, operation)

    async def broken(keys: Sequence[p.Key], **options: Any) -> Any:
        if any(key.run == "bad" for key in keys):
            raise error
        return await read(keys, **options)

    monkeypatch.setattr(store, operation, broken)


@pytest.mark.parametrize("error", UNREADABLE, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    ("operation", "unread"), [("governed", "its receipts and tasks in the store"), ("load", "its journal and inbox")]
)
def test_a_run_that_cannot_be_read_is_parked_and_those_claimed_with_it_go_on(
    virtual: Ground, monkeypatch: pytest.MonkeyPatch, operation: str, unread: str, error: Exception
) -> None:
    """The reason says what could not be read; mended and resumed it goes on."""

    async def main(ground: Ground) -> None:
        async with ground.engine(acts, policy=asking()) as app:
            for name in ("bad", *NAMES):
                await app.start(acts, name, id=name)
                await rested(app, name)
        async with Holdfast(line_to(ground), clock=ground.clock, workflows=[acts], worker=False) as app:
            for name in ("bad", *NAMES):
                await app.tasks.approve((await asked(app, name)).id, by="bob")
        breaking(monkeypatch, ground.store, operation, error)
        async with ground.engine(acts, policy=asking()) as app:
            for name in NAMES:
                assert await app.run(name).result(60) == name
            reason = await parked(app, "bad")
            assert reason.startswith(unread)
            assert f"{type(error).__name__}: {error}" in reason
            assert (await app.run("bad").info()).governed
            monkeypatch.undo()
            await app.run("bad").resume(by="op")
            assert await app.run("bad").result(60) == "bad"

    virtual.play(main)
    assert sorted(DONE) == ["bad", *NAMES]


def test_a_warm_run_whose_inbox_cannot_be_read_is_parked(virtual: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its execution is still in memory."""

    async def main(ground: Ground) -> None:
        async with ground.engine(waits) as app:
            assert app.worker is not None
            app.worker.advancer._runs._warm._limit = 10
            for name in ("bad", *NAMES):
                await app.start(waits, id=name)
                await rested(app, name)
            breaking(monkeypatch, ground.store, "messages")
            for name in ("bad", *NAMES):
                await app.run(name).signal("go", name)
            for name in NAMES:
                assert await app.run(name).result(60) == name
            assert (await parked(app, "bad")).startswith("its inbox in the store cannot be read")
            monkeypatch.undo()
            await app.run("bad").resume(by="op")
            assert await app.run("bad").result(60) == "bad"

    virtual.play(main)


def test_a_message_that_cannot_be_read_parks_its_run_while_it_is_held(virtual: Ground) -> None:
    """It came while a step was under way; the claimer goes on to claim other runs."""

    async def main(ground: Ground) -> None:
        opened = asyncio.Event()

        @step(name="unreadable.long")
        async def long() -> str:
            DONE.append("begun")
            await opened.wait()
            return "done"

        @workflow(name="unreadable.holds")
        async def holds() -> str:
            return await long()

        async with ground.engine(holds, plain) as app:
            await app.start(holds, id="bad")
            await until(app, lambda: DONE == ["begun"])
            damaged = p.Message("nonsense", b"\xff", ground.clock.now())
            await ground.store.commit([p.Deliver(p.Key("default", "bad"), damaged)])
            assert "a message in the run's inbox cannot be read" in await parked(app, "bad")
            assert await (await app.start(plain, "other")).result(60) == "other"

    virtual.play(main)


def test_a_turn_that_cannot_be_planned_parks_its_run_and_no_other(
    virtual: Ground, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What its steps gave is kept; mended and resumed it goes on from there."""
    judge = Governor.judge

    def stumbles(self: Governor, held: Any, request: Any, now: int) -> Any:
        if held.key.run == "bad":
            raise KeyError("nobody foresaw this")
        return judge(self, held, request, now)

    monkeypatch.setattr(Governor, "judge", stumbles)

    async def main(ground: Ground) -> None:
        await offered(ground, prepares, "bad", *NAMES)
        async with ground.engine(prepares) as app:
            for name in NAMES:
                assert await app.run(name).result(60) == name
            assert await parked(app, "bad") == "engine: KeyError: 'nobody foresaw this'"
            monkeypatch.undo()
            await app.run("bad").resume(by="op")
            assert await app.run("bad").result(60) == "bad"

    with caplog.at_level(logging.ERROR, "holdfast.worker"):
        virtual.play(main)
    assert [record.getMessage() for record in caplog.records] == ["run bad of tenant default cannot be planned"]
    assert DONE.count("prepared bad") == 1
    assert DONE.count("bad") == 1


def test_an_answer_that_cannot_be_followed_parks_its_run_and_no_other(
    virtual: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows a commit is the matter of one run, and the group has others in it."""
    begin = Governor._act

    def stumbles(self: Governor, held: Any, call: Any, verdict: Any, now: int) -> Any:
        opening, *others = begin(self, held, call, verdict, now)
        if held.key.run != "bad":
            return [opening, *others]

        def then(_: object) -> None:
            raise KeyError("nobody foresaw this")

        return [replace(opening, then=then), *others]

    monkeypatch.setattr(Governor, "_act", stumbles)

    async def main(ground: Ground) -> None:
        await offered(ground, acts, "bad", *NAMES)
        async with ground.engine(acts) as app:
            for name in NAMES:
                assert await app.run(name).result(60) == name
            assert await parked(app, "bad") == "engine: KeyError: 'nobody foresaw this'"

    virtual.play(main)


def test_queued_work_that_cannot_be_read_parks_its_run_and_is_offered_anew(
    virtual: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work that was claimed with it is done."""

    async def main(ground: Ground) -> None:
        claim_work = ground.store.claim_work

        async def damaged(*args: Any) -> p.ClaimedWork:
            claim = await claim_work(*args)
            works = [replace(work, body=b"\xff") if work.key.run == "bad" else work for work in claim.work]
            return replace(claim, work=works)

        monkeypatch.setattr(ground.store, "claim_work", damaged)
        await offered(ground, queues, "bad", *NAMES)
        async with ground.engine(queues) as app:
            for name in NAMES:
                assert await app.run(name).result(60) == name
            assert "its queued step 'unreadable.queued' at position 0 cannot be read" in await parked(app, "bad")
            monkeypatch.undo()
            await app.run("bad").resume(by="op")
            assert await app.run("bad").result(60) == "bad"

    virtual.play(main)
    assert sorted(DONE) == ["bad", *NAMES]
