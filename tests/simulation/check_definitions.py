"""The laws of definitions' runs: their checkpoints, and what they did and undid."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from holdfast.journal import events as e
from holdfast.journal.payload import Ok
from holdfast.journal.promise import PromiseId
from holdfast.kernel.checkpoint import Checkpoint
from holdfast.kernel.execution import Execution
from holdfast.programs.definition.interpreter.program import DefinitionProgram
from holdfast.runs.checkpoints import _content
from holdfast.runs.segments import unseal
from holdfast.store import protocol as p
from tests.simulation.defined import UNDOABLE
from tests.simulation.violation import Violation
from tests.simulation.world import Simulation


def check_definitions(simulation: Simulation, runs: list[p.Run]) -> None:
    """Check every run of a definition, in each of its generations."""
    for misfit in simulation.store.misfits:
        raise Violation(misfit)
    for run in runs:
        if run.workflow not in simulation.routines:
            continue
        for generation, journal in enumerate(simulation.store.generations(run.key)):
            _deeds_are_undone_once(run, generation, journal)
        _checkpoints_lead_to_the_same_end(simulation, run)


def _deeds_are_undone_once(run: p.Run, generation: int, journal: list[e.Entry]) -> None:
    """What succeeded is undone at most once; in a run that failed or was cancelled, all of it is (N1)."""
    called: dict[PromiseId, str] = {}
    done: list[PromiseId] = []
    undone: Counter[PromiseId] = Counter()
    for entry in journal:
        match entry.event:
            case e.InvokeScheduled(promise_id=promise, function_name=name, undoes=undoes):
                called[promise] = "" if undoes is not None else name
                undone.update([] if undoes is None else [undoes])
            case e.InvokeCompleted(promise_id=promise, result=Ok()) if called.get(promise) in UNDOABLE:
                done.append(promise)
            case _:
                continue
    where = f"run {run.key.run}, generation {generation}"
    if twice := [str(promise) for promise, times in undone.items() if times > 1]:
        raise Violation(f"{where} undid something twice (N1): {twice}")
    ended = journal[-1].event
    if isinstance(ended, e.ExecutionFailed | e.ExecutionCancelled) and (left := [d for d in done if not undone[d]]):
        raise Violation(f"{where} ended badly, and left this done (N1): {list(map(str, left))}")


def _checkpoints_lead_to_the_same_end(simulation: Simulation, run: p.Run) -> None:
    """Each checkpoint that was written, with all that came after it, is what the whole journal is (N2)."""
    for (key, generation), found in simulation.store.checkpoints.items():
        if key != run.key:
            continue
        root = PromiseId(simulation.store._roots[key, generation])
        tables = simulation.store._tables
        blobs = {digest: data for (tenant, digest), data in tables.blobs.items() if tenant == key.tenant}
        entries = list(unseal(tables.segments[key][generation], root, blobs))
        whole = _state(Execution.rebuild(root, _program(simulation, run), entries, 0, random.Random(0)))
        for data in found[:: max(1, len(found) // 3)]:
            c = _content(data)
            checkpoint = Checkpoint(c.version, c.ledger, c.kernel, c.program, tuple(c.blobs))
            tail = entries[checkpoint.version :]
            restored = Execution.restore(root, _program(simulation, run), checkpoint, tail, 0, random.Random(0), blobs)
            if _state(restored) != whole:
                raise Violation(f"run {run.key.run} is another one from version {checkpoint.version} on (N2)")
            simulation.reached["checkpoint replayed"] += 1


def _program(simulation: Simulation, run: p.Run) -> DefinitionProgram:
    return DefinitionProgram(simulation.routines[run.workflow])


def _state(execution: Execution) -> Any:
    program = execution.program
    assert isinstance(program, DefinitionProgram)
    marks = {name: (mark.state, mark.visits) for name, mark in program.interpreter.marks.items()}
    return execution.ended, program.state, program.reference, marks
