"""The laws of the gate, checked when every run has ended. The laws of an act's beginning are in ``outside``."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import cbor2

from holdfast.audit import records
from holdfast.audit.check.bundle import Verdict, verify_audit, verify_bundle
from holdfast.audit.check.receipts import check_receipts
from holdfast.audit.check.runs import check_evidence, check_runs
from holdfast.audit.check.tasks import check_tasks
from holdfast.audit.collector import entries_of, gather
from holdfast.audit.keychain import Keychain
from holdfast.audit.sealer import Sealer
from holdfast.journal import events as e
from holdfast.journal.payload import Ok
from holdfast.journal.promise import PromiseId
from holdfast.journal.secrecy import ACTION
from holdfast.store import protocol as p
from holdfast.store.admission import MINUTE
from holdfast.tasks.answers import GIVEN_UP, is_about, verdict_of
from holdfast.testing.virtual import EPOCH_MICROSECONDS, VirtualClock
from tests.simulation.check_steering import Recorded, check_steering
from tests.simulation.chronicle import Place
from tests.simulation.violation import Violation
from tests.simulation.world import Simulation

EVERY = 10_000
SKEW_SECONDS = 3.0
"""No worker's clock is wrong by more."""
SHARING = frozenset({"gate.shared", "gate.put", "gate.probed", "gate.share"})
"""Actions whose key another run may have, too."""


async def check_gate(simulation: Simulation, runs: list[p.Run]) -> None:
    """Check every law of the gate on everything that it has written."""
    for problem in simulation.chronicle.broken:
        raise Violation(problem)
    receipts = await simulation.store.receipts(p.ReceiptQuery(), EVERY)
    recorded = [(entry, records.decode(entry.body)) for entry in simulation.chronicle.tables.audit]
    await _nothing_is_open(simulation, runs, receipts)
    await _successes_are_founded(simulation, receipts)
    await _results_agree(simulation, runs, receipts, recorded)
    _caps_hold(simulation, runs)
    _receipts_are_recorded_once(simulation, [record for _, record in recorded])
    _ends_are_recorded_once(simulation, runs, recorded)
    check_steering(simulation, runs, receipts, recorded)
    await _receipts_are_accounted_for(simulation)
    await _the_audit_is_whole(simulation)
    await _receipts_are_accounted_for(simulation)
    await _evidence_proves(simulation, runs)


async def _nothing_is_open(simulation: Simulation, runs: list[p.Run], receipts: list[p.ReceiptRow]) -> None:
    """Every run has ended, and people have answered: no task is open, and every act has an outcome, or was given up by
    a person (G8)."""
    tasks = await simulation.store.tasks(p.TaskQuery(), EVERY)
    for task in tasks:
        if task.status == "requested":
            raise Violation(f"task {task.id} ({task.kind}) of run {task.run}, which has ended, is open")
    given_up = [task for task in tasks if task.kind == "outcome" and verdict_of(task) == GIVEN_UP]
    for receipt in receipts:
        if receipt.state == "unknown" and not any(is_about(task, receipt) for task in given_up):
            raise Violation(f"receipt {receipt.id} of run {receipt.run} stays unknown, and no person has given it up")
        if receipt.state == "pending":
            raise Violation(f"receipt {receipt.id} of run {receipt.run}, which has ended, is pending: {receipt.key}")


async def _value_of(simulation: Simulation, receipt: p.ReceiptRow) -> Any:
    data = receipt.result
    if data is None and receipt.result_blob is not None:
        data = await simulation.store.blob(receipt.tenant, receipt.result_blob)
    return None if data is None else cbor2.loads(data)


async def _successes_are_founded(simulation: Simulation, receipts: list[p.ReceiptRow]) -> None:
    """No success without an act, or without a person who said that it happened (G3)."""
    for receipt in receipts:
        if receipt.state == "succeeded":
            value = await _value_of(simulation, receipt)
            done = [deed.result for deed in simulation.outside.deeds.get((receipt.tenant, receipt.key), ())]
            if value not in (*(each for each in done if each is not None), *_claimed_results(simulation, receipt)):
                raise Violation(f"receipt {receipt.id} says that {receipt.key} was done, and it was not: {value!r:.80}")


def _claimed_results(simulation: Simulation, receipt: p.ReceiptRow) -> list[Any]:
    """The results of the acts under this key, as people said."""
    said = simulation.chronicle.results_by_task.get(receipt.task or "")
    return [] if said is None else [cbor2.loads(said)]


async def _results_agree(
    simulation: Simulation,
    runs: list[p.Run],
    receipts: list[p.ReceiptRow],
    recorded: Recorded,
) -> None:
    """Every call under a key got the result that the one receipt of that key has (G5)."""
    kept: dict[Place, Any] = {
        (receipt.tenant, receipt.key): await _value_of(simulation, receipt)
        for receipt in receipts
        if receipt.state == "succeeded"
    }
    values: dict[str, list[Any]] = {}  # by promise: a retried run may come to another call at the same place
    for entry, record in recorded:
        if isinstance(record, records.Receipted) and record.state in ("succeeded", "reused"):
            values.setdefault(record.promise, []).append(kept.get((entry.tenant, record.key)))
    for run in runs:
        for names, value in _given(simulation, run):
            known = [each for name in names for each in values.get(name, ())]
            if not known:
                raise Violation(f"run {run.key.run} was given {value!r:.60} for {names}, and no receipt says so (G3)")
            if value not in known:
                raise Violation(f"run {run.key.run} got {value!r:.60} where the receipt has {known!r:.60} (G5)")


def _given(simulation: Simulation, run: p.Run) -> list[tuple[tuple[str, str], Any]]:
    """The values that a run got from actions, each with the call's promise, and the one whose name its key has.

    What a fork inherited was given to the run before it."""
    inherited = simulation.store.inherited.get(run.key, 0)
    before: list[tuple[tuple[str, str], Any]] = []
    found: list[tuple[tuple[str, str], Any]] = []
    for journal in simulation.store.generations(run.key):
        before = before or _values(simulation, run, journal[:inherited])
        found += [each for each in _values(simulation, run, journal) if each not in before]
    return found


def _values(simulation: Simulation, run: p.Run, journal: list[e.Entry]) -> list[tuple[tuple[str, str], Any]]:
    found = []
    actions: dict[PromiseId, tuple[bool, PromiseId]] = {}  # with whether they undo an act, and the place of their key
    for entry in journal:
        match entry.event:
            case e.InvokeScheduled(promise_id=promise, kind=kind, undoes=undoes) as call if kind == ACTION:
                actions[promise] = undoes is not None, PromiseId(promise.root, (*promise.path[:-1], call.key_place))
            case e.InvokeCompleted(promise_id=promise, result=Ok(value=value)) if promise in actions:
                data = cbor2.loads(simulation.store.plain(run.key.tenant, value))
                undoes_act, place = actions[promise]
                if not (undoes_act and str(data).startswith(records.NOT_UNDONE)):
                    found.append(((str(promise), str(place)), data))
    return found


def _caps_hold(simulation: Simulation, runs: list[p.Run]) -> None:
    """Nobody writes more than the cap, and no minute of a tenant has more beginnings than the cap (G6)."""
    writes = Counter(key for key, *_ in {(d.key, d.promise, d.place) for d in simulation.outside.all() if d.writes})
    calls = _calls_that_write(simulation)
    known_runs = {run.key: run for run in runs}
    for run in runs:
        most = _most_writes(simulation, run)
        family = sum(count for key, count in writes.items() if run.key in _ancestry(known_runs, key))
        if most is not None and family > most:
            raise Violation(f"run {run.key.run} wrote {family} times with its children, and its cap is {most} (G6)")
        known = calls.get(run.key)
        if known is not None and run.writes > known:
            raise Violation(f"run {run.key.run} made {known} calls, and {run.writes} are counted (G6)")
    for tenant in simulation.tenants:
        cap = simulation.rules.caps_of(tenant).max_runs_per_min
        mine = (run for run in runs if run.key.tenant == tenant)
        begun = sorted(run.begun_at for run in mine if run.parent is None and run.begun_at is not None)
        for first, last in zip(begun, begun[cap:] if cap is not None else (), strict=False):
            if last - first < MINUTE:
                raise Violation(f"more than {cap} runs of {tenant} began within a minute of {first} (G6)")


def _ancestry(runs: dict[p.Key, p.Run], key: p.Key) -> Iterator[p.Key]:
    """A run, its parent, and so on upwards."""
    run = runs.get(key)
    while run is not None:
        yield run.key
        run = None if run.parent is None else runs.get(p.Key(key.tenant, run.parent))


def _calls_that_write(simulation: Simulation) -> dict[p.Key, int]:
    """How many writes each run may have counted. All attempts of one call are one write. A retried run may make another
    call at the same place. A call whose receipt was not opened, because of a cap, stays counted where the worker dies
    then.

    Two kinds of runs are left out: those that share a key with others, because the receipt belongs to the last one; and
    those that reused a recorded result, which stays counted where the worker dies.
    """
    calls: dict[p.Key, set[tuple[str, str]]] = defaultdict(set)
    allowed: Counter[p.Key] = Counter()
    sharing: set[p.Key] = set()
    done: set[str] = set()
    for entry in simulation.chronicle.tables.audit:
        record = records.decode(entry.body)
        if isinstance(record, records.Decided) and record.effect == "allow":
            key = p.Key(entry.tenant, record.run)
            allowed[key] += 1
            if record.writes:
                calls[key].add((record.promise, record.proposal))
            if record.action in SHARING or record.promise in done:  # the worker may die before the reuse is recorded
                sharing.add(key)
        elif isinstance(record, records.Receipted) and record.state == "reused":
            sharing.add(p.Key(entry.tenant, record.run))
        elif isinstance(record, records.Receipted) and record.state == "succeeded":
            done.add(record.promise)
    opened = simulation.chronicle.opened
    return {key: len(found) + allowed[key] - opened[key] for key, found in calls.items() if key not in sharing}


def _most_writes(simulation: Simulation, run: p.Run) -> int | None:
    """The largest cap that any worker knew while the run was there. None is no limit."""
    first = (run.created_at - EPOCH_MICROSECONDS) / 1e6 - SKEW_SECONDS
    known = [each.rules.caps_of(run.key.tenant).max_writes for each in simulation.lives if not each.ended_before(first)]
    return None if None in known else max(most for most in known if most is not None)


def _receipts_are_recorded_once(simulation: Simulation, recorded: list[records.Record]) -> None:
    """The audit has exactly one entry for each time that a receipt was closed (G7).

    A commit that is made again may close a receipt as unknown in the same way: that is the same entry.
    """
    closed, closings = simulation.chronicle.closed, simulation.chronicle.closings
    entries = Counter(
        (record.receipt, record.state, record.attempt)
        for record in recorded
        if isinstance(record, records.Receipted) and record.state != "reused"
    )
    distinct = Counter({attempt: len(different) for attempt, different in closings.items()})
    if entries - closed or distinct - entries:
        raise Violation(f"the audit lacks {distinct - entries}, and has too many {entries - closed} (G7)")


def _ends_are_recorded_once(simulation: Simulation, runs: list[p.Run], recorded: Recorded) -> None:
    """The audit has one end for each generation of a governed run, with the head of its journal (G7)."""
    ends = [(p.Key(entry.tenant, end.run), end) for entry, end in recorded if isinstance(end, records.Ended)]
    counts = Counter((key, end.generation) for key, end in ends)
    for place, count in counts.items():
        if count > 1:
            raise Violation(f"the end of {place} is recorded {count} times (G7)")
    heads = {(key, end.generation): (end.version, end.head, end.root) for key, end in ends}
    for run in runs:
        if not run.governed:
            continue
        generations = simulation.store.segments_of(run.key)
        first = min((place[1] for place in heads if place[0] == run.key), default=run.generation)
        for number in range(first, run.generation + 1):
            last = generations[number][-1]
            there = heads.get((run.key, number))
            if there is None or there[:2] != (last.first + last.count, last.head.hex()):
                raise Violation(f"the end of run {run.key.run}, generation {number}, is recorded as {there} (G7)")


async def _receipts_are_accounted_for(simulation: Simulation) -> None:
    """Every receipt and task is there and as the audit has it; every row is as its journal says (G15)."""
    for tenant in simulation.tenants:
        for check in (check_receipts, check_tasks, check_runs):
            held = await check(simulation.store, tenant)
            if held.problem is not None:
                raise Violation(f"what {tenant} has is not what its audit and journals say (G15): {held.problem}")


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
        _no_entry_is_doubled(mine)


def _no_entry_is_doubled(entries: list[p.AuditEntry]) -> None:
    """A commit whose answer is lost is made again, and its entries are there once."""
    for one, other in pairwise(sorted(entries, key=lambda entry: (entry.kind, entry.body))):
        if (one.kind, one.body) == (other.kind, other.body):
            raise Violation(f"an entry is there twice (G7): {one.body!r}")


def _broken(verdict: Verdict | None) -> list[str]:
    return ["there is none"] if verdict is None else [c.text for c in verdict.claims if c.state == "broken"]


async def _evidence_proves(simulation: Simulation, runs: list[p.Run]) -> None:
    """Every governed run has its evidence by now, and that of the last ones is proved (G9)."""
    governed = [run for run in runs if run.governed]
    for run in governed:
        if run.evidence is None:
            raise Violation(f"run {run.key.run} has ended long ago, and there is no evidence of it (G9)")
        await _evidence_is_whole(simulation.store, run)
    for tenant in simulation.tenants:
        held = await check_evidence(simulation.store, tenant)
        if held.problem is not None:
            raise Violation(f"the evidence of {tenant} is not what it must be (G9): {held.problem}")
    clock = VirtualClock(simulation.loop)
    keychain = Keychain(simulation.store, clock)
    for run in governed[: 3 if simulation.steered else 1]:
        data = await simulation.store.file(run.key, run.generation, p.EVIDENCE)
        if simulation.source.random() < 0.3:  # or one with values, made now
            data = (await gather(simulation.store, keychain, clock, run, values=True)).data
        publics = [key.public for key in await keychain.published()]
        verdict = None if data is None else verify_bundle(data, publics)
        if verdict is None or not verdict.good:
            raise Violation(f"the evidence of run {run.key.run} does not prove (G9): {_broken(verdict)}")


async def _evidence_is_whole(store: p.Store, run: p.Run) -> None:
    """Evidence has every entry of its run: it is made again where entries come later (G9)."""
    data = await store.file(run.key, run.generation, p.EVIDENCE)
    if data is None or hashlib.sha256(data).digest() != run.evidence:
        raise Violation(f"the evidence of run {run.key.run} is not the one that its row shows (G9)")
    with zipfile.ZipFile(io.BytesIO(data)) as bundle:
        count = len(bundle.read("entries.jsonl").splitlines())
    entries = [entry async for entry in entries_of(store, p.AuditQuery(run.key.tenant, run.key.run))]
    if count != len(entries):
        raise Violation(f"the evidence of run {run.key.run} has {count} of its {len(entries)} entries (G9)")
