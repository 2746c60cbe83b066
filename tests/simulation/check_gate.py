"""What must hold of the gate when everything has come to rest. The laws of an act's beginning are in ``outside``."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import cbor2

from holdfast.gate import records
from holdfast.gate.actions import ACTION
from holdfast.gate.verifying import Verdict, verify_audit, verify_bundle
from holdfast.journal import events as e
from holdfast.journal.payload import Ok
from holdfast.journal.promise import PromiseId
from holdfast.store import protocol as p
from holdfast.store.admission import MINUTE
from holdfast.testing.virtual import VirtualClock
from holdfast.worker.gathering import entries_of, gather
from holdfast.worker.sealer import Sealer
from holdfast.worker.signing import Keychain
from tests.simulation.chronicle import Place
from tests.simulation.world import Simulation, Violation

EVERY = 10_000


async def check_gate(simulation: Simulation, runs: list[p.Run]) -> None:
    """Every law of the gate on everything that it has written."""
    for problem in simulation.chronicle.broken:
        raise Violation(problem)
    receipts = await simulation.store.receipts(p.ReceiptQuery(), EVERY)
    told = [(entry, records.decode(entry.body)) for entry in simulation.chronicle.tables.audit]
    await _nothing_is_open(simulation, runs, receipts)
    await _successes_are_founded(simulation, receipts)
    await _results_agree(simulation, runs, receipts, [record for _, record in told])
    _caps_hold(simulation, runs)
    _receipts_are_told_once(simulation, [record for _, record in told])
    _ends_are_told_once(simulation, runs, [record for _, record in told])
    await _the_audit_is_whole(simulation)
    await _evidence_proves(simulation, runs)


async def _nothing_is_open(simulation: Simulation, runs: list[p.Run], receipts: list[p.Receipt]) -> None:
    """Every run has ended: nobody is asked anything, and every act has come to something (G8)."""
    for task in await simulation.store.tasks(p.TaskQuery(status="requested"), EVERY):
        raise Violation(f"task {task.id} ({task.kind}) of run {task.run}, which has ended, is open")
    for receipt in receipts:
        if receipt.state == "pending":
            raise Violation(f"receipt {receipt.id} of run {receipt.run}, which has ended, is pending: {receipt.key}")


async def _value_of(simulation: Simulation, receipt: p.Receipt) -> Any:
    data = receipt.result
    if data is None and receipt.result_blob is not None:
        data = await simulation.store.blob(receipt.tenant, receipt.result_blob)
    return None if data is None else cbor2.loads(data)


async def _successes_are_founded(simulation: Simulation, receipts: list[p.Receipt]) -> None:
    """No success without an act, or without the word of whoever said that it happened (G3)."""
    for receipt in receipts:
        if receipt.state == "succeeded":
            value = await _value_of(simulation, receipt)
            done = [deed.result for deed in simulation.outside.deeds.get((receipt.tenant, receipt.key), ())]
            if value not in (*(each for each in done if each is not None), *_words(simulation, receipt)):
                raise Violation(f"receipt {receipt.id} says that {receipt.key} was done, and it was not: {value!r:.80}")


def _words(simulation: Simulation, receipt: p.Receipt) -> list[Any]:
    """What people said that the acts under this key gave."""
    said = simulation.chronicle.vouched.get(receipt.task or "")
    return [] if said is None else [cbor2.loads(said)]


async def _results_agree(
    simulation: Simulation, runs: list[p.Run], receipts: list[p.Receipt], told: list[records.Record]
) -> None:
    """Whatever call asked for a key got what the one receipt of that key says (G5)."""
    values: dict[Place, Any] = {
        (receipt.tenant, receipt.key): await _value_of(simulation, receipt)
        for receipt in receipts
        if receipt.state == "succeeded"
    }
    places = {
        record.promise: record.key
        for record in told
        if isinstance(record, records.Receipted) and record.state in ("succeeded", "reused")
    }
    for run in runs:
        for promise, value in _given(simulation, run):
            if promise not in places:
                raise Violation(f"run {run.key.run} was given {value!r:.60} for {promise}, and no receipt says so (G3)")
            kept = values.get((run.key.tenant, places[promise]))
            if kept != value:
                raise Violation(f"run {run.key.run} got {value!r:.60} where the receipt has {kept!r:.60} (G5)")


def _given(simulation: Simulation, run: p.Run) -> list[tuple[str, Any]]:
    """The values that actions gave to a run."""
    found = []
    for journal in simulation.store.generations(run.key):
        actions: set[PromiseId] = set()
        for entry in journal:
            match entry.event:
                case e.InvokeScheduled(promise_id=promise, kind=kind) if kind == ACTION:
                    actions.add(promise)
                case e.InvokeCompleted(promise_id=promise, result=Ok(value=value)) if promise in actions:
                    data = simulation.store.plain(run.key.tenant, value)
                    found.append((str(promise), cbor2.loads(data)))
    return found


def _caps_hold(simulation: Simulation, runs: list[p.Run]) -> None:
    """Nobody writes more than the cap, and no minute has more beginnings than the cap (G6)."""
    rules = simulation.rules
    if rules.max_writes is not None and not simulation.rolling:
        writes = Counter(run for run, _ in {(d.run, d.promise) for d in simulation.outside.all() if d.writes})
        for run, count in writes.items():
            if count > rules.max_writes:
                raise Violation(f"run {run} wrote {count} times, and its cap is {rules.max_writes} (G6)")
    if rules.max_runs_per_min is not None:
        begun = sorted(run.begun_at for run in runs if run.parent is None and run.begun_at is not None)
        for first, last in zip(begun, begun[rules.max_runs_per_min :], strict=False):
            if last - first < MINUTE:
                raise Violation(f"more than {rules.max_runs_per_min} runs began within a minute of {first} (G6)")


def _receipts_are_told_once(simulation: Simulation, told: list[records.Record]) -> None:
    """The audit has exactly one entry for each time that a receipt was closed (G7)."""
    closed = simulation.chronicle.closed
    entries = Counter(
        (record.receipt, record.state, record.attempt)
        for record in told
        if isinstance(record, records.Receipted) and record.state != "reused"
    )
    if closed != entries:
        raise Violation(f"the audit lacks {closed - entries}, and has too many {entries - closed} (G7)")


def _ends_are_told_once(simulation: Simulation, runs: list[p.Run], told: list[records.Record]) -> None:
    """A governed run's end is told once for each generation since it was governed, with the journal's head (G7)."""
    ends = [record for record in told if isinstance(record, records.Ended)]
    counts = Counter((end.run, end.generation) for end in ends)
    for place, count in counts.items():
        if count > 1:
            raise Violation(f"the end of {place} is told {count} times (G7)")
    heads = {(end.run, end.generation): (end.version, end.head, end.root) for end in ends}
    for run in runs:
        if not run.governed:
            continue
        generations = simulation.store.segments_of(run.key)
        first = min((place[1] for place in heads if place[0] == run.key.run), default=run.generation)
        for number in range(first, run.generation + 1):
            last = generations[number][-1]
            there = heads.get((run.key.run, number))
            if there is None or there[:2] != (last.first + last.count, last.head.hex()):
                raise Violation(f"the end of run {run.key.run}, generation {number}, is told as {there} (G7)")


async def _the_audit_is_whole(simulation: Simulation) -> None:
    """Sealed to the end, the chain verifies, and no entry is there twice (G7)."""
    store = simulation.store
    while await Sealer(store, VirtualClock(simulation.loop)).seal():
        continue
    entries = simulation.chronicle.tables.audit
    for tenant in {entry.tenant for entry in entries}:
        blocks = await store.blocks(tenant, 0, EVERY)
        mine = [entry async for entry in entries_of(store, p.AuditQuery(tenant))]
        keys = await Keychain(store, VirtualClock(simulation.loop)).published()
        verdict = verify_audit(tenant, blocks, mine, keys)
        if not verdict.good:
            raise Violation(f"the audit of {tenant} is broken (G7): {_broken(verdict)}")
        _no_entry_is_doubled(simulation, mine)


def _no_entry_is_doubled(simulation: Simulation, entries: list[p.Entry]) -> None:
    """A commit whose answer is lost is made again, and an entry that came with nothing else is then written again.

    Only decisions, reuses and what operators do are told by such entries; nothing that is counted hangs on them.
    """
    for one, other in pairwise(sorted(entries, key=lambda entry: (entry.kind, entry.body))):
        if (one.kind, one.body) != (other.kind, other.body):
            continue
        alone = one.kind in ("decision", "operator") or b'"reused"' in one.body
        if not (alone and simulation.faults.lose_answer):
            raise Violation(f"an entry is there twice (G7): {one.body!r}")
        simulation.reached["an entry written twice"] += 1


def _broken(verdict: Verdict | None) -> list[str]:
    return ["there is none"] if verdict is None else [c.text for c in verdict.claims if c.state == "broken"]


async def _evidence_proves(simulation: Simulation, runs: list[p.Run]) -> None:
    """Every governed run has its evidence by now, and what is made of one of them now is proved (G9)."""
    governed = [run for run in runs if run.governed]
    for run in governed:
        if run.evidence is None:
            raise Violation(f"run {run.key.run} has ended long ago, and there is no evidence of it (G9)")
    clock = VirtualClock(simulation.loop)
    keychain = Keychain(simulation.store, clock)
    for run in governed[:1]:
        data = await simulation.store.artefact(run.key, run.generation, p.EVIDENCE)
        if simulation.source.random() < 0.3:  # or one with values, made now
            made = await gather(simulation.store, keychain, clock, run, values=True)
            data = None if made is None else made.data
        publics = [key.public for key in await keychain.published()]
        verdict = None if data is None else verify_bundle(data, publics)
        if verdict is None or not verdict.good:
            raise Violation(f"the evidence of run {run.key.run} does not prove (G9): {_broken(verdict)}")
