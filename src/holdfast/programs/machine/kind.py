"""Machines in the catalogue: the program of a lane's run is found by its machine's name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from holdfast.errors import InvalidRequest, WorkflowUnknown
from holdfast.kernel.program import Program
from holdfast.programs.machine.lanes.hot_cells import HotCells
from holdfast.programs.machine.lanes.lane import LaneProgram
from holdfast.programs.machine.machine import MACHINES, Machine
from holdfast.programs.machine.machine_code import IMPORTED
from holdfast.programs.machine.manifest import MachineManifest, manifest_digest
from holdfast.programs.machine.proposals import MODES, ManifestsMode
from holdfast.programs.machine.switchboard import Switchboard
from holdfast.runs.birth import Pin
from holdfast.runs.lanes import LANE_DIGEST
from holdfast.store.protocol import MACHINE, Code, Key

_BOARDS: Final = 256

HELD_LIMIT: Final = 1000
"""Where so many events are held for a parked cell, no more are taken in for it from outside."""


class Machines:
    """The kind of programs that machines are. Machines that are imported later are found, too."""

    kind = MACHINE

    def __init__(
        self,
        machines: Mapping[str, Machine[Any]] = MACHINES,
        mode: ManifestsMode = "declared",
        held_limit: int = HELD_LIMIT,
    ) -> None:
        if mode not in MODES:
            raise InvalidRequest(f"manifests= is one of {', '.join(MODES)}, not {mode!r:.60}")
        self.machines = machines
        self.mode = mode
        self.held_limit = held_limit
        self.board = Switchboard(machines, code=IMPORTED if machines is MACHINES else None)
        self.routes: dict[str, tuple[int, Switchboard]] = {}  # for events from outside: by tenant, and since when
        self._boards: dict[str, Switchboard] = {}
        self.hot = HotCells()
        self.depths: dict[Key, tuple[int, int]] = {}  # how far lanes were filled and had come, when that was last seen
        self.takers: dict[tuple[Key, bytes], int] = {}  # cells that were not full, and when that was last seen
        self.marks: dict[Key, str] = {}  # of lanes that were split, as somebody here has seen it
        self.begun: set[tuple[str, str, int]] = set()  # the lanes of which somebody here has seen that they have begun
        self.counted: set[tuple[str, str, int]] = set()  # how many lanes machines have, as somebody here has seen it

    def board_of(self, in_force: MachineManifest) -> Switchboard:
        """The routes of a manifest in force."""
        digest = manifest_digest(in_force)
        if digest not in self._boards:
            while len(self._boards) >= _BOARDS:
                del self._boards[next(iter(self._boards))]
            self._boards[digest] = Switchboard(self.machines, in_force, self.board.code)
        return self._boards[digest]

    def names(self) -> Collection[str]:
        return self.machines

    def pin(self, name: str) -> Pin | None:
        return None  # a lane is started by events, and by nobody's name

    def program(self, name: str, digest: str, code: Code | None) -> Program:
        machine = self.machines.get(name)
        if machine is None:
            raise WorkflowUnknown(f"the app has no machine {name!r}: its cells wait until a worker has it.")
        if digest != LANE_DIGEST:
            raise WorkflowUnknown(f"a lane of {name!r} runs by {digest!r}, which a newer Holdfast wrote: upgrade.")
        return LaneProgram(machine, self.board, self.hot)
