"""Machines and their cells for code without an event loop.

Each method is that of the asynchronous class, waited for: its signature and its types come from there.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from holdfast.client.loop_thread import LoopThread
from holdfast.client.machines.app_machines import AppMachines
from holdfast.client.machines.cell_handle import CellHandle, EventPlace
from holdfast.client.sync.calls import each_of, waited
from holdfast.client.views.cells import CellInfo
from holdfast.programs.machine.machine import Machine

S = TypeVar("S")


class SyncCell(Generic[S]):
    """One cell: each method is that of ``CellHandle``, waited for."""

    def __init__(self, loop: LoopThread, cell: CellHandle[S]) -> None:
        self._loop = loop
        self._part = cell

    def state(self, *, after: EventPlace | None = None) -> S | None:
        """See ``CellHandle.state``."""
        return self._loop.call(self._part.state(after=after))

    def show(self) -> CellInfo[S]:
        """See ``CellHandle.show``."""
        return self._loop.call(self._part.show())

    record = waited(CellHandle.record)
    trace = waited(CellHandle.trace)
    tail = each_of(CellHandle.tail)
    diagnose = waited(CellHandle.diagnose)
    release = waited(CellHandle.release)
    proof = waited(CellHandle.proof)


class SyncMachines:
    """Machines: each method is that of ``AppMachines``, waited for."""

    def __init__(self, loop: LoopThread, machines: AppMachines) -> None:
        self._loop = loop
        self._part = machines

    send = waited(AppMachines.send)
    send_data = waited(AppMachines.send_data)
    list = each_of(AppMachines.list)
    show = waited(AppMachines.show)
    cells = each_of(AppMachines.cells)
    cells_page = waited(AppMachines.cells_page)
    dead_letters = each_of(AppMachines.dead_letters)
    dead_letters_page = waited(AppMachines.dead_letters_page)
    redeliver = waited(AppMachines.redeliver)
    lane_counts = waited(AppMachines.lane_counts)
    verify = each_of(AppMachines.verify)
    fork = waited(AppMachines.fork)
    split = waited(AppMachines.split)
    manifest = waited(AppMachines.manifest)
    proposals = each_of(AppMachines.proposals)
    proposal = waited(AppMachines.proposal)
    propose = waited(AppMachines.propose)
    shadow = waited(AppMachines.shadow)
    approve = waited(AppMachines.approve)
    reject = waited(AppMachines.reject)
    apply = waited(AppMachines.apply)
    migrate = waited(AppMachines.migrate)
    recording = waited(AppMachines.recording)

    def cell(self, machine: Machine[S] | str, key: Any = None, *, tenant: str | None = None) -> SyncCell[S]:
        """The cell of a key. It need not exist."""
        return SyncCell(self._loop, self._part.cell(machine, key, tenant=tenant))
