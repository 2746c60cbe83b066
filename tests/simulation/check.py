"""The laws that are checked when every run has ended."""

from __future__ import annotations

import random
from typing import Any

import cbor2

from holdfast.audit.check.journal import verify_run
from holdfast.client.filters import run_rows
from holdfast.journal import events as e
from holdfast.journal.promise import PromiseId
from holdfast.kernel.execution import Execution
from holdfast.programs.definition.interpreter.program import DefinitionProgram
from holdfast.programs.function.decorators import Workflow
from holdfast.programs.function.reversal import reverse
from holdfast.runs.carried import carried_by, read_all
from holdfast.runs.checkpoints import load
from holdfast.runs.segments import unseal
from holdfast.runs.signals import keyed
from holdfast.store import protocol as p
from tests.carried import deliveries
from tests.laws.programs import SIGNALS, play
from tests.simulation.check_definitions import check_definitions
from tests.simulation.check_gate import check_gate
from tests.simulation.workload import act
from tests.simulation.world import Simulation, Violation
from tests.strands import strands

PROGRAMS: dict[str, Workflow[..., Any]] = {workflow.name: workflow for workflow in (act, play, reverse, strands)}


async def check(simulation: Simulation) -> None:
    """Every law on every journal; nothing lost, nothing done again, nothing left behind."""
    store = simulation.store
    for trouble in simulation.troubles:
        raise Violation(f"nobody outside expects this: {trouble!r}")
    runs = [run async for run in run_rows(simulation.client.store)]
    for run in runs:
        verdict = await verify_run(store, run)
        if not verdict.good:
            raise Violation(f"run {run.key.run}: {verdict.problem}")
        await _replays(simulation, run)
        _signals_arrive_once(simulation, run)
    _nothing_lost(simulation, runs)
    await _nothing_left(simulation, runs)
    if simulation.defined:
        check_definitions(simulation, runs)
    if simulation.governed:
        await check_gate(simulation, runs)


async def _replays(simulation: Simulation, run: p.Run) -> None:
    """Replaying a finished journal is a fixed point."""
    loaded = (await load(simulation.store, [run], whole=True))[run.key]
    root = PromiseId(run.root)
    routine = simulation.routines.get(run.workflow)
    program = PROGRAMS[run.workflow].program() if routine is None else DefinitionProgram(routine)
    entries = unseal(loaded.segments, root, loaded.blobs)
    blobs = await read_all(simulation.store, run.key.tenant, carried_by(entries))
    execution = Execution.rebuild(root, program, entries, 0, random.Random(0), blobs)
    if not execution.ended or execution.advance([], 0).events:
        raise Violation(f"run {run.key.run} replays to another end")
    program.close()


def _signals_arrive_once(simulation: Simulation, run: p.Run) -> None:
    """Accepted signals are delivered in order, each once; those not received go to the next generation."""
    for name in (*SIGNALS, *(keyed(name, "k") for name in SIGNALS if simulation.defined)):
        delivered: list[str] = []
        carried: list[str] = []
        arrived: list[str] = []
        inherited = simulation.store.inherited.get(run.key, 0)
        for generation, journal in enumerate(simulation.store.generations(run.key)):
            if generation == 0:
                carried = _delivered(simulation, run, journal[:inherited], name)
            elif (run.key, generation) in simulation.store.retried:
                carried = arrived
            arrived = _delivered(simulation, run, journal, name)
            received = [_text(entry.event) for entry in journal if _is(entry.event, e.SignalReceived, name)]
            if arrived[: len(carried)] != carried:
                raise Violation(f"run {run.key.run} lost {name!r} when it went on: {carried}, then {arrived}")
            delivered += arrived[len(carried) :]
            carried = arrived[len(received) :]
        # Forks of other runs send their signals again, and so does a retried run with another call at that place.
        once = [text for text in delivered if text.startswith("signal ")] if simulation.steered else delivered
        if len(set(once)) < len(once):
            raise Violation(f"run {run.key.run} got a signal {name!r} twice: {delivered}")
        accepted = simulation.accepted.get((run.key, name), [])
        own = [text for text in delivered if text.startswith("signal ")]
        if own != accepted[: len(own)] and not _skips(simulation, run, own, accepted):
            raise Violation(f"run {run.key.run} was sent {name!r} {accepted} and got {own}")


def _delivered(simulation: Simulation, run: p.Run, journal: list[e.Entry], name: str) -> list[str]:
    blobs = {digest: data for (_, digest), data in simulation.store._tables.blobs.items()}
    return [_text(event) for event in deliveries(journal, blobs) if event.signal_name == name]


def _skips(simulation: Simulation, run: p.Run, own: list[str], accepted: list[str]) -> bool:
    """Whether a retried run got them in order, without those that had not reached it when it ended."""
    rest = iter(accepted)
    return any(key == run.key for key, _ in simulation.store.retried) and all(text in rest for text in own)


def _is(event: e.Event, kind: type[e.Event], name: str) -> bool:
    return isinstance(event, kind) and getattr(event, "signal_name", None) == name


def _text(event: e.Event) -> str:
    assert isinstance(event, (e.SignalDelivered, e.SignalReceived))
    return str(cbor2.loads(event.payload.data))


def _nothing_lost(simulation: Simulation, runs: list[p.Run]) -> None:
    present = {run.key for run in runs}
    if len({run.root for run in runs}) < len(runs):
        raise Violation("two runs have the same promise id (INV-6)")
    for handle in simulation.handles:
        if handle.key not in present:
            raise Violation(f"run {handle.id} was started and is not there")
    unfounded = [key for key in simulation.succeeded if not simulation.begun[key]]
    if unfounded:
        raise Violation(f"succeeded without beginning: {unfounded}")


async def _nothing_left(simulation: Simulation, runs: list[p.Run]) -> None:
    """No lease, no message, no work, no timer."""
    facts = await simulation.store.facts()
    if facts.inbox or facts.work:
        raise Violation(f"left behind: {facts.inbox} messages, {facts.work} pieces of work")
    for run in runs:
        if run.owner is not None or run.wake_at is not None:
            raise Violation(f"run {run.key.run} has ended and keeps a lease or a timer")
