"""What machines can ask for, what they may know, how cells end, and how a state's version is brought up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, machine
from holdfast.cells.cell import CellRecord
from holdfast.errors import InvalidFunction
from holdfast.programs.machine.machine import Machine
from holdfast.programs.machine.manifest import MachineLimits
from holdfast.testing import MachineEngine, machine_engine, run_virtually
from holdfast.testing.postgres import PostgresServer
from tests.unit.machines import hub as hubs
from tests.unit.machines.hub import Heard, Log, New, Noted, Place, Sent, hub, tight, total
from tests.unit.machines.shop import Noted as Note
from tests.unit.machines.shop import order
from tests.unit.worker.ground import asking, policy_of

Scene = Callable[[MachineEngine], Coroutine[Any, Any, None]]


def play(scene: Scene, *machines: Machine[Any], policy: Any = None) -> None:
    async def main() -> None:
        async with machine_engine(machines or [hub, total], policy=policy) as engine:
            await scene(engine)

    run_virtually(main())


def sent(what: str, count: int = 0, name: str = "a") -> Sent:
    return Sent(Place(name), what, count)


async def record(engine: MachineEngine, of: Machine[Any] = hub, key: str | None = "a") -> CellRecord:
    found = await engine.record(of, key)
    assert found is not None
    return found


def test_a_transition_needs_no_engine() -> None:
    """State and event in; state, events, effects and the end out."""
    asked = hub.step(None, sent("pay", 5))
    assert (asked.state, asked.status) == (Log(["pay"]), "running")
    assert [(each.name, each.args) for each in asked.effects] == [("hub.pay", ("a", 5))]
    assert hub.step(Log(["pay"]), sent("emit", 2)).events == (Heard(0), Heard(1))
    assert hub.step(None, sent("fail")).status == "failed"


# -- effects -----------------------------------------------------------------------------------------------------------


def test_a_workflow_is_an_effect_and_its_result_a_receipt() -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(sent("inspect"), sent("breaks", name="b"))
        await engine.restart()
        await engine.pass_time(timedelta(hours=2))
        assert await engine.state(hub, "a") == Log(["inspect", "a inspected"])
        broken = await engine.state(hub, "b")
        assert broken is not None
        assert broken.lines[1].endswith("ValueError: b")

    play(scene)


def test_an_action_waits_for_its_approval_while_its_cell_goes_on() -> None:
    async def scene(engine: MachineEngine) -> None:
        hubs.paid.clear()
        await engine.send(sent("pay", 5), sent("pay", 6, "b"))
        await engine.pass_time(timedelta(seconds=5))
        await engine.send(sent("meanwhile"))
        tasks = [task async for task in engine.app.tasks.list()]
        assert len(tasks) == 2
        await engine.restart()
        by_target = {task.details["target"]: task.id for task in tasks}
        await engine.app.tasks.approve(by_target["a"], by="ann")
        await engine.app.tasks.reject(by_target["b"], by="ann", reason="no")
        await engine.pass_time(timedelta(seconds=30))
        assert await engine.state(hub, "a") == Log(["pay", "meanwhile", "paid a"])
        refused = await engine.state(hub, "b")
        assert refused is not None
        assert refused.lines[1].startswith("ApprovalRejected")
        assert hubs.paid == ["a"]

    play(scene, policy=asking())


def test_an_action_that_the_policy_denies_comes_back_as_an_error() -> None:
    async def scene(engine: MachineEngine) -> None:
        hubs.paid.clear()
        await engine.send(sent("pay", 5))
        await engine.rest()
        denied = await engine.state(hub, "a")
        assert denied is not None
        assert denied.lines[1].startswith("ActionDenied")
        assert hubs.paid == []

    play(scene, policy=policy_of({"effect": "deny"}))


def test_an_action_of_a_cell_leaves_a_receipt() -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(sent("pay", 5))
        await engine.rest()
        (receipt,) = [each async for each in engine.app.receipts.list()]
        assert receipt.target == "a"
        assert receipt.state == "succeeded"

    play(scene, policy=policy_of({}))


# -- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (sent("ask", 65), "at most 64 effects"),
        (sent("emit", 257), "at most 256 others"),
        (sent("grow", 1 << 20), "the limit is 1,048,576"),
    ],
)
def test_one_event_has_limits(event: Sent, words: str) -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(event)
        parked = await record(engine)
        assert parked.status == "parked"
        assert words in parked.reason
        assert await engine.dead_letters() == []

    play(scene, policy=policy_of({}))


@pytest.mark.parametrize(
    ("event", "words"),
    [(sent("ask", 3), "at most 2 effects"), (sent("emit", 4), "at most 3 others"), (sent("grow", 1000), "1,000")],
)
def test_a_machine_may_have_limits_of_its_own(event: Sent, words: str) -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(event)
        assert words in (await record(engine, tight)).reason

    play(scene, tight, total)


# -- what is known, and ends -------------------------------------------------------------------------------------------


def test_a_handler_knows_its_key_its_machine_and_the_recorded_time() -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(sent("know"))
        known = await engine.state(hub, "a")
        board = engine.app.machine_kind.board
        assert known == Log(["a", "hub.cell", hub.hash, board.manifest, "keyed", "2023-11-14T22:13:20+00:00"])

    play(scene)


def test_a_machine_without_a_key_has_one_cell() -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(*(Heard(number) for number in range(3)))
        await engine.send(sent("emit", 3))
        await engine.rest()
        assert await engine.state(total) == Log(["0", "1", "2", "0", "1", "2"])
        assert engine.app.cell(total).lane == 0

    play(scene)


@pytest.mark.parametrize(("what", "status", "reason"), [("complete", "completed", ""), ("fail", "failed", "told so")])
def test_a_cell_that_has_ended_keeps_its_state_and_hears_nothing_more(what: str, status: str, reason: str) -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(sent(what), sent("more"))
        ended = await record(engine)
        assert (ended.status, ended.reason) == (status, reason)
        assert await engine.state(hub, "a") == Log([what])
        (letter,) = await engine.dead_letters()
        assert letter.reason == f"its cell is {status}"

    play(scene)


# -- versions of a state -----------------------------------------------------------------------------------------------


def _version(number: int, **more: Any) -> Machine[Any]:
    function = hubs.first if number == 1 else hubs.second
    given: dict[str, Any] = {"effects": (), "emits": (), "limits": MachineLimits(), "migrate": None, **more}
    return Machine(function, name="hub.versioned", key="name", version=number, lanes=1, **given)


def _grown(*machines: Machine[Any]) -> tuple[CellRecord | None, Any]:
    """One event to each of the machines, one after the other, on one store."""

    async def main() -> tuple[CellRecord | None, Any]:
        found: tuple[CellRecord | None, Any] = None, None
        store = None
        for each in machines:
            async with machine_engine([each], store=store) as engine:
                await engine.send(Noted("a"))
                kept = await engine.record(each, "a")
                running = kept is not None and kept.status == "running"
                found = kept, await engine.state(each, "a") if running else None
                store = engine.app.store
        return found

    return run_virtually(main())


def test_an_older_state_is_brought_up_by_the_migration() -> None:
    kept, state = _grown(_version(1), _version(2, migrate=hubs.upgrade))
    assert state == New(2, "brought up")
    assert kept is not None
    assert kept.machine_version == 2


def test_an_older_state_that_nothing_brings_up_parks_its_cell() -> None:
    kept, _ = _grown(_version(1), _version(2))
    assert kept is not None
    assert kept.status == "parked"
    assert "give it migrate=" in kept.reason


# -- machines that cannot be -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"effects": [len]}, "effects= are actions, steps and workflows"),
        ({"lanes": 0}, "between 1 and 4,096"),
        ({"version": 0}, "1 or more"),
    ],
)
def test_a_machine_that_cannot_be_is_refused_where_it_is_written(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidFunction, match=words):
        machine(key="name", name="hub.refused", **options)(hubs.first)


# -- several workers ---------------------------------------------------------------------------------------------------


async def _moved(url: str) -> None:
    """Workers come and go while events arrive: each cell has all its events, in the order of their commits."""
    keys, count = 6, 240
    async with Holdfast(url, worker=False) as sender, asyncio.timeout(90):

        async def send() -> None:
            for number in range(count):
                await sender.emit(Note(f"m{number % keys}", str(number)), id=f"moved-{number}")

        async def come_and_go() -> None:
            for _ in range(3):
                async with Holdfast(url), Holdfast(url):
                    await asyncio.sleep(0.4)

        await asyncio.gather(send(), come_and_go())
        async with Holdfast(url):
            for key in range(keys):
                wanted = [str(number) for number in range(key, count, keys)]
                cell, state = sender.cell(order, f"m{key}"), None
                while state is None or len(state.notes) < len(wanted):
                    await sender.changed(0.05)
                    state = await cell.state()
                assert state.notes == wanted


def test_lanes_move_between_workers_under_load_on_sqlite(tmp_path: Path) -> None:
    asyncio.run(_moved(f"sqlite:///{tmp_path}/moved.db"))


@pytest.mark.long
def test_lanes_move_between_workers_under_load_on_postgresql(postgres: PostgresServer) -> None:
    asyncio.run(_moved(postgres.schema_url()))
