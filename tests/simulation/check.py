"""What must hold when everything has come to rest."""

from __future__ import annotations

import random

import cbor2

from holdfast.client.verifying import verify_run
from holdfast.journal import events as e
from holdfast.journal.promise import PromiseId
from holdfast.kernel.execution import Execution
from holdfast.store import protocol as p
from holdfast.worker.sealing import unseal
from tests.laws.programs import SIGNALS, play
from tests.simulation.check_gate import check_gate
from tests.simulation.workload import act
from tests.simulation.world import Simulation, Violation

PROGRAMS = {workflow.name: workflow for workflow in (act, play)}


async def check(simulation: Simulation) -> None:
    """Every law on every journal; nothing lost, nothing done again, nothing left behind."""
    store = simulation.store
    runs = [run async for run in simulation.client.list()]
    for run in runs:
        verdict = await verify_run(store, run)
        if not verdict.good:
            raise Violation(f"run {run.key.run}: {verdict.problem}")
        await _replays(simulation, run)
        _signals_arrive_once(simulation, run)
    _nothing_lost(simulation, runs)
    await _nothing_left(simulation, runs)
    if simulation.governed:
        await check_gate(simulation, runs)


async def _replays(simulation: Simulation, run: p.Run) -> None:
    """Replaying a finished journal is a fixed point."""
    loaded = (await simulation.store.load([run.key]))[run.key]
    root = PromiseId(run.root)
    program = PROGRAMS[run.workflow].program()
    execution = Execution.rebuild(root, program, unseal(loaded.segments, root, loaded.blobs), 0, random.Random(0))
    if not execution.ended or execution.advance([], 0).events:
        raise Violation(f"run {run.key.run} replays to another end")
    program.close()


def _signals_arrive_once(simulation: Simulation, run: p.Run) -> None:
    """What was accepted is delivered in its order, none twice, none left out; what is not received is carried over."""
    for name in SIGNALS:
        delivered: list[str] = []
        carried: list[str] = []
        for journal in simulation.store.generations(run.key):
            arrived = [_text(entry.event) for entry in journal if _is(entry.event, e.SignalDelivered, name)]
            received = [_text(entry.event) for entry in journal if _is(entry.event, e.SignalReceived, name)]
            if arrived[: len(carried)] != carried:
                raise Violation(f"run {run.key.run} lost {name!r} when it continued as new: {carried}, then {arrived}")
            delivered += arrived[len(carried) :]
            carried = arrived[len(received) :]
        if len(set(delivered)) < len(delivered):
            raise Violation(f"run {run.key.run} got a signal {name!r} twice: {delivered}")
        accepted = simulation.accepted.get((run.key.run, name), [])
        own = [text for text in delivered if text.startswith("signal ")]
        if own != accepted[: len(own)]:
            raise Violation(f"run {run.key.run} was sent {name!r} {accepted} and got {own}")


def _is(event: e.Event, kind: type[e.Event], name: str) -> bool:
    return isinstance(event, kind) and getattr(event, "signal_name", None) == name


def _text(event: e.Event) -> str:
    assert isinstance(event, (e.SignalDelivered, e.SignalReceived))
    return str(cbor2.loads(event.payload.data))


def _nothing_lost(simulation: Simulation, runs: list[p.Run]) -> None:
    present = {run.key.run for run in runs}
    if len({run.root for run in runs}) < len(runs):
        raise Violation("two runs have the same promise id (INV-6)")
    for handle in simulation.handles:
        if handle.id not in present:
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
