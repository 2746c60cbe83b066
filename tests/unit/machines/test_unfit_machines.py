"""Machines that do not fit together: two types of one name are refused when an engine opens, and where they come later
they stop nobody but themselves, and say why."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast import Cell, Holdfast
from holdfast.errors import DuplicateName
from holdfast.programs.function.registry import Registry
from holdfast.programs.machine.kind import Machines
from holdfast.programs.machine.machine import Machine
from holdfast.programs.machine.manifest import MachineLimits
from holdfast.runs.lanes import WAITS, is_lane
from holdfast.store import protocol as p
from tests.unit.machines.workers import worker_with
from tests.unit.worker.ground import Ground


@dataclass
class Ferried:
    """An event of the machine ``ferry``."""

    boat: str


@dataclass
class Ferry:
    trips: int = 0


class Other:
    """What another module would have."""

    @dataclass
    class Ferried:
        boat: str


def _machine(name: str, event: type) -> Machine[Any]:
    """One that no other test sees: it is not among those that are imported."""

    def sail(state: Any, event: Any, cell: Cell) -> Any:
        return Ferry((state or Ferry()).trips + 1)

    sail.__annotations__ = {"state": Ferry | None, "event": event, "return": Ferry | None}
    return Machine(
        sail,
        name=name,
        key="boat",
        effects=(),
        emits=(),
        version=1,
        lanes=1,
        limits=MachineLimits(),
        migrate=None,
    )


ferry, barge = _machine("ferry", Ferried), _machine("barge", Other.Ferried)
TOGETHER = (
    r"test_unfit_machines\.Ferried and tests\.unit\.machines\.test_unfit_machines\.Other\.Ferried are both the "
    r'schema app/Ferried@1: .* @schema\("ns/Ferried@1"\)'
)


def test_an_engine_with_two_types_of_one_name_does_not_open() -> None:
    """The error names both, and says what to do."""

    async def main(ground: Ground) -> None:
        with pytest.raises(DuplicateName, match=TOGETHER):
            async with worker_with(ground, [ferry, barge]):
                pytest.fail("it is open")

    Ground(None).play(main)


def test_types_that_are_defined_twice_in_one_place_are_told_apart_from_two_of_one_name() -> None:
    """As in a notebook, where a new name would be the wrong advice."""

    def made() -> type:
        @dataclass
        class Towed:
            boat: str

        return Towed

    with pytest.raises(DuplicateName, match=r"made.<locals>.Towed was defined twice.* notebook"):
        Machines({each: _machine(each, made()) for each in ("tug", "tow")}).board.code.check()


def test_what_comes_later_is_refused_and_what_was_there_goes_on() -> None:
    """The sender of an event is told, the lane that nobody can run is parked with the reason, and a worker whose code
    fits lets it go on."""

    async def main(ground: Ground) -> None:
        async with worker_with(ground) as app:
            known: Registry[Machine[Any]] = Registry("machine", [ferry])
            app.machine_kind.machines, app.machine_kind.board = known, Machines(known).board
            await _sail(app, ferry, Ferried("a"), 1)
            known.add(barge)
            with pytest.raises(DuplicateName, match=TOGETHER):
                await app.emit(Other.Ferried("b"))
            with pytest.raises(DuplicateName, match=TOGETHER):
                await app.machines.manifest()
            await _sail(app, ferry, Ferried("a"), 2)
            async with worker_with(ground, [barge], worker=False) as sender:
                await sender.emit(Other.Ferried("b"))
            app.hint()
            while (reason := await _pause(app, barge)) is None:
                await app.changed(0.5)
            assert reason.startswith(WAITS)
            assert "are both the schema app/Ferried@1" in reason
            await _sail(app, ferry, Ferried("new"), 1)
            assert await _pause(app, ferry) is None
            async with worker_with(ground, [barge]) as fitting:
                while await fitting.cell(barge, "b").state() != Ferry(1):
                    await fitting.changed(0.5)
            assert await _pause(app, barge) is None

    Ground(None).play(main)


def test_a_machine_that_is_replaced_by_one_that_fits_is_used_again() -> None:
    known: Registry[Machine[Any]] = Registry("machine", [ferry])
    code = Machines(known).board.code
    code.check()
    known.add(barge)
    assert list(code.refused()) == ["barge"]
    known.add(_machine("barge", Ferried))
    code.check()
    assert code.refused() == {}
    assert [each.name for each in code.manifest.machines] == ["barge", "ferry"]


async def _sail(app: Holdfast, machine: Machine[Any], event: object, trips: int) -> None:
    sent = await app.emit(event)
    assert await app.cell(machine, event.boat).state(after=sent.places[0]) == Ferry(trips)  # type: ignore[attr-defined]


async def _pause(app: Holdfast, machine: Machine[Any]) -> str | None:
    (lane,) = [run for run in await app.store.find(p.Query(workflow=machine.name), 10) if is_lane(run.key.run)]
    return lane.pause


MODULE = """
from dataclasses import dataclass
from holdfast import Cell, machine


@dataclass
class Arrived:
    at: str


@machine(key="at", name="{name}")
def {name}(state: Arrived | None, event: Arrived, cell: Cell) -> Arrived | None:
    return event
"""


@pytest.mark.parametrize("command", [["worker", "port.py"], ["serve", "port.py", "--port", "0"]])
def test_a_worker_and_a_server_do_not_start_with_two_types_of_one_name(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "ships.py").write_text(MODULE.format(name="ships"))
    (tmp_path / "port.py").write_text(f"import ships\n{MODULE.format(name='port')}")
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *command, "--store", "sqlite:///port.db"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert "ships.Arrived and port.Arrived are both the schema app/Arrived@1" in done.stderr
    assert 'such as @schema("ns/Arrived@1")' in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "port.db").exists()
