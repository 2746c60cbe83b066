"""A cancellation ends a parked run, whatever it is parked for, as long as its code fits its journal."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from holdfast import Holdfast, RunCancelled, action, receive, step, workflow
from holdfast.errors import RunParked
from holdfast.kernel.arrivals import CancelArrived
from holdfast.programs.function.decorators import Workflow
from holdfast.store import protocol as p
from tests.unit.worker.ground import Ground, Line, kill, receipts, rested, until
from tests.unit.worker.test_definition_runs import CALLS, DEFINITIONS, begun, book, booked, document, free
from tests.unit.worker.test_missing_uses import CALLS as USED
from tests.unit.worker.test_missing_uses import HELD, waiting

FAILS = document(
    booked("hotel", "hotel"), {"go": {"wait": "go"}}, booked("flight", "flight"), {"done": {"end": "=1 / 0"}}
)


@pytest.fixture(autouse=True)
def nothing_called() -> None:
    CALLS.clear()
    USED.clear()
    HELD.clear()


@step(name="parked.hold", undo=free)
async def hold(what: str) -> str:
    CALLS.append(f"book {what}")
    await HELD[0].wait()
    return what


@workflow(name="parked.unwritable")
async def unwritable() -> Any:
    await book("hotel")
    await receive("go")
    return object()


@pytest.mark.parametrize("crash", [False, True])
def test_a_definition_is_undone_without_evaluating_again_what_failed(ground: Ground, crash: bool) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            run = await begun(app, FAILS)
            await rested(app, "one")
            await run.signal("go")
            with pytest.raises(RunParked, match=r"done: .*division"):
                await run.result()
            if crash:
                kill(app)
            else:
                await run.cancel("enough")
                with pytest.raises(RunCancelled, match="enough"):
                    await run.result(30)
        async with ground.engine(options=DEFINITIONS) as other:
            run = other.run("one")
            if crash:
                await run.cancel("enough")
            with pytest.raises(RunCancelled, match="enough"):
                await run.result(30)
            assert (await run.verify()).good

    ground.play(main)
    assert CALLS == ["book hotel", "book flight", "free flight", "free hotel"]


def test_a_function_is_undone_without_running_again_what_failed(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(unwritable) as app:
            run = await app.start(unwritable, id="one")
            await run.signal("go")
            with pytest.raises(RunParked, match="object"):
                await run.result()
            await run.cancel("enough")
            with pytest.raises(RunCancelled, match="enough"):
                await run.result(30)
            assert (await run.verify()).good

    ground.play(main)
    assert CALLS == ["book hotel", "free hotel"]


def test_a_run_whose_first_turn_fails_is_cancelled(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            run = await begun(app, document(booked("hotel", "hotel"), name="runs.unnamed", reference="=start.none"))
            with pytest.raises(RunParked, match="business reference"):
                await run.result()
            await run.cancel("enough")
            with pytest.raises(RunCancelled, match="enough"):
                await run.result(30)

    ground.play(main)
    assert CALLS == []


class Parking(Line):
    """An engine's way to its store. What is to happen happens between a turn that fails and the commit that parks:
    before the journal is read, to record what arrived, or before that commit."""

    def __init__(self, store: p.Store, *, reading: bool, happens: Callable[[], Coroutine[Any, Any, None]]) -> None:
        super().__init__(store)
        self._reading = reading
        self._happens: Callable[[], Coroutine[Any, Any, None]] | None = happens

    def __getattr__(self, name: str) -> Any:
        operation = super().__getattr__(name)
        if name != ("load" if self._reading else "commit"):
            return operation

        async def call(*args: Any, **kwargs: Any) -> Any:
            is_parking = kwargs.get("whole") if self._reading else _parks(args[0])
            if self._happens is not None and is_parking:
                happens, self._happens = self._happens, None
                await happens()
            return await operation(*args, **kwargs)

        return call


def _parks(changes: Sequence[p.Change]) -> bool:
    return any(isinstance(each, p.Advance) and each.projection.pause is not None for each in changes)


@pytest.mark.parametrize("reading", [False, True])
@pytest.mark.parametrize("kind", ["function", "definition"])
def test_a_cancellation_that_comes_while_a_run_is_being_parked(ground: Ground, reading: bool, kind: str) -> None:
    """It unpauses nothing, because nothing is paused yet, and ends the run all the same."""

    async def main(ground: Ground) -> None:
        async with ground.engine(worker=False) as desk:

            async def cancel() -> None:
                await desk.run("one").cancel("enough")

            line = Parking(ground.store, reading=reading, happens=cancel)
            async with ground.engine(unwritable, options=DEFINITIONS, line=line) as app:
                run = await (app.start(unwritable, id="one") if kind == "function" else begun(app, FAILS))
                await run.signal("go")
                with pytest.raises(RunCancelled, match="enough"):
                    await run.result(30)
                assert (await run.verify()).good

    ground.play(main)
    assert CALLS[:1] + CALLS[-1:] == ["book hotel", "free hotel"]


class SlowInbox(Line):
    """An engine's way to its store, on which the first inbox comes only when a turn has failed."""

    def __init__(self, store: p.Store) -> None:
        super().__init__(store)
        self.read = asyncio.Event()
        self.failed = asyncio.Event()
        self.app: Holdfast

    def __getattr__(self, name: str) -> Any:
        operation = super().__getattr__(name)

        async def messages(keys: Sequence[p.Key]) -> Any:
            found = await operation(keys)
            if any(found.values()):
                self.read.set()
                await self.failed.wait()
            return found

        async def load(keys: Sequence[p.Key], **options: Any) -> Any:
            self.failed.set()
            await until(self.app, lambda: _has_heard(self.app))
            return await operation(keys, **options)

        return {"messages": messages, "load": load}.get(name, operation)


def test_a_cancellation_that_is_heard_while_a_run_is_being_parked(ground: Ground) -> None:
    """It was read before the turn failed, and came to the run after that."""

    @workflow(name="parked.at_once")
    async def at_once() -> Any:
        await hold("hotel")
        return object()

    async def main(ground: Ground) -> None:
        HELD.append(asyncio.Event())
        line = SlowInbox(ground.store)
        async with ground.engine(at_once, options=DEFINITIONS, line=line) as app:
            line.app = app
            run = await app.start(at_once, id="one")
            await until(app, lambda: bool(CALLS))
            await run.cancel("enough")
            await line.read.wait()
            HELD[0].set()
            with pytest.raises(RunCancelled, match="enough"):
                await run.result(30)

    ground.play(main)
    assert CALLS == ["book hotel", "free hotel"]


def _has_heard(app: Holdfast) -> bool:
    assert app.worker is not None
    held = app.worker.advancer.held.values()
    return any(isinstance(arrival, CancelArrived) for each in held for arrival in each.arrivals)


def test_a_time_out_does_not_wait_for_ever_for_a_parked_child(ground: Ground) -> None:
    """The child is cancelled and undone; then the node has failed."""
    parent = document(
        {"call": {"run": "runs.trip", "with": {"n": 7}, "timeout": "5s", "on": {"timeout": []}}},
        {"done": {"end": "late"}},
        name="runs.parent",
    )
    child = document(booked("hotel", "hotel"), {"done": {"end": "=1 / 0"}})

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            app.definitions.add(child)
            run = await begun(app, parent)
            assert await run.result(60) == "late"

    if ground.is_virtual:
        ground.play(main)
        assert CALLS == ["book hotel", "free hotel"]


def version_of(first: str) -> Workflow[[], str]:
    @workflow(name="parked.changed")
    async def changed() -> str:
        await book(first)
        return str(await receive("go"))

    return changed


def test_a_run_whose_code_does_not_fit_keeps_its_cancellation(ground: Ground) -> None:
    """It says so; with code that fits, resuming it is enough."""

    async def main(ground: Ground) -> None:
        async with ground.engine(version_of("hotel")) as app:
            await app.start("parked.changed", id="one")
            await rested(app, "one")
        async with ground.engine(version_of("flight")) as app:
            run = app.run("one")
            await run.cancel("enough")
            with pytest.raises(RunParked, match=r"(?s)matches its journal.*Its cancellation could not be carried out"):
                await run.result()
        async with ground.engine(version_of("hotel")) as app:
            run = app.run("one")
            await run.resume()
            with pytest.raises(RunCancelled, match="enough"):
                await run.result(30)

    ground.play(main)
    assert CALLS == ["book hotel", "free hotel"]


def test_a_run_that_waits_for_a_step_that_is_gone_is_cancelled(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        HELD.append(asyncio.Event())
        async with ground.engine(options=DEFINITIONS) as app:
            run = await waiting(app)
            await run.signal("go")
            while USED != ["first", "second"]:
                await app.changed(0.05)
            kill(app)
        async with ground.engine(options=DEFINITIONS, without=["uses.second"]) as other:
            run = other.run("one")
            with pytest.raises(RunParked, match=r"no step 'uses\.second' is here"):
                await run.result()
            await run.cancel("enough")
            with pytest.raises(RunCancelled, match="enough"):
                await run.result(30)

    ground.play(main)


@action(connector="bank", operation="pay", undo=free, name="parked.pay")
async def pay(what: str) -> str:
    await asyncio.sleep(2)
    CALLS.append(f"pay {what}")
    return what


FITTING: list[str] = []


@workflow(name="parked.hasty")
async def hasty() -> Any:
    """It gives up an act that is under way, and parks before that has ended."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1):
            await pay("rent")
    return FITTING.pop() if FITTING else object()


@pytest.mark.parametrize("cancelled", [False, True])
def test_an_act_that_was_done_while_its_run_was_parked_is_undone(virtual: Ground, cancelled: bool) -> None:
    """Its receipt says so: that the run has not heard of it does not mean that it was not begun."""

    async def main(ground: Ground) -> None:
        async with ground.engine(hasty) as app:
            run = await app.start(hasty, id="one")
            with pytest.raises(RunParked, match="object"):
                await run.result()
            while [row.state for row in await receipts(app)] != ["succeeded"]:
                await app.changed(1)
        async with ground.engine(hasty) as other:
            run = other.run("one")
            if cancelled:
                await run.cancel("enough")
                with pytest.raises(RunCancelled, match="enough"):
                    await run.result(30)
            else:
                FITTING.append("done")
                await run.resume()
                assert await run.result(30) == "done"
            assert (await run.verify()).good

    virtual.play(main)
    assert CALLS == ["pay rent", "free rent"]
