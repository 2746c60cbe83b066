"""Where a run stands, seen from outside: its program, made from code and journal and never advanced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.client.runs.instance import instance_info
from holdfast.client.views.instances import InstanceInfo
from holdfast.errors import InvalidRequest, RunNotFound
from holdfast.journal import events as e
from holdfast.journal.promise import PromiseId
from holdfast.kernel.checkpoint import CheckpointUnusable
from holdfast.kernel.execution import Execution
from holdfast.kernel.program import Program
from holdfast.programs.definition.interpreter.program import DefinitionProgram
from holdfast.programs.definition.interpreter.routine import Routine
from holdfast.programs.definition.recorded_tools import RecordedTools
from holdfast.runs.carried import read_all
from holdfast.runs.checkpoints import load, unseal_checkpoint
from holdfast.runs.journals import read
from holdfast.runs.program_names import DEFINITION
from holdfast.runs.segments import unseal
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast


async def program_at(app: Holdfast, row: p.Run, version: int | None = None) -> Program:
    """The program of a run as it stands, or as it stood when its journal had so many events.

    What stands now is made from the checkpoint, where there is one. Raises Nondeterminism where code and journal do not
    fit.
    """
    if version is None and (restored := await _restored(app, row)) is not None:
        return restored
    entries = [entry async for entry in read(app.store, row)][:version]
    started = entries[0].event if entries else None
    if not isinstance(started, e.ExecutionStarted):
        raise RunNotFound(f"run {row.key.run!r} has no journal that could be read")
    program = await _program(app, row, started.component_digest, entries)
    signals = await read_all(app.store, row.key.tenant, started.signals)
    Execution.rebuild(PromiseId(row.root), program, entries, app.clock.now(), app.entropy, signals)
    return program


async def _restored(app: Holdfast, row: p.Run) -> Program | None:
    loaded = (await load(app.store, [row])).get(row.key)
    if loaded is None or loaded.checkpoint is None or row.code_digest is None:
        return None
    run, code = PromiseId(row.root), row.code_digest.hex()
    try:
        checkpoint = unseal_checkpoint(loaded.checkpoint, run, code)
        kept = loaded.checkpoint
        tail = unseal(loaded.segments, run, loaded.blobs, first=kept.version, head=kept.head)
        program = await _program(app, row, code, tail)
        Execution.restore(run, program, checkpoint, tail, app.clock.now(), app.entropy, loaded.blobs)
    except CheckpointUnusable:
        return None
    return program


async def _program(app: Holdfast, row: p.Run, digest: str, entries: Sequence[e.Entry]) -> Program:
    """A program to be read. The steps of a definition need not be known here: the journal has their calls."""
    program = await app.program_of(row, digest)
    if not isinstance(program, DefinitionProgram):
        return program
    kind, recorded = app.definitions.kind, RecordedTools(app.definitions.tools, entries)

    def readable(found: Routine) -> Routine:
        uses = found.definition.uses
        has_all = all(map(app.definitions.tools.step, (*uses.steps, *uses.actions)))
        return found if has_all else found.with_tools(recorded)

    return DefinitionProgram(readable(program.routine), lambda data, moved: readable(kind.routine(data, moved)))


async def definition_at(app: Holdfast, row: p.Run) -> DefinitionProgram:
    """The program of a definition's run as it stands. Raises InvalidRequest for other programs."""
    program = await program_at(app, row) if row.program_kind == DEFINITION else None
    if not isinstance(program, DefinitionProgram):
        raise InvalidRequest(f"run {row.key.run!r} is of a {row.program_kind}: only runs of definitions have a state")
    return program


async def instance_of(app: Holdfast, row: p.Run) -> InstanceInfo:
    """Where a definition's run stands. Raises InvalidRequest for other programs."""
    program = await definition_at(app, row)
    entries = [entry async for entry in read(app.store, row)]
    governed = (await app.store.governed([row.key])).get(row.key) if row.governed else None
    tasks = [] if governed is None else [task for task in governed.tasks if task.root == row.root]
    return instance_info(row, program, entries, tasks)
