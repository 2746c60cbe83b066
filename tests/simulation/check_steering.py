"""Further laws of the gate, for simulations in which people steer and several tenants share one store."""

from __future__ import annotations

from collections import Counter

from holdfast.audit import records
from holdfast.audit.check.receipt_accounts import undo_of
from holdfast.journal import events as e
from holdfast.journal.payload import Ok, Payload
from holdfast.journal.promise import PromiseId
from holdfast.journal.secrecy import ACTION
from holdfast.kernel.outstanding import Pending
from holdfast.programs.function.actions import Action
from holdfast.programs.function.decorators import STEPS, WORKFLOW
from holdfast.programs.function.reversal import REVERSE
from holdfast.runs.birth import child_id, lineage_of
from holdfast.store import protocol as p
from tests.simulation.violation import Violation
from tests.simulation.world import Simulation

Recorded = list[tuple[p.AuditEntry, records.Record]]


def check_steering(simulation: Simulation, runs: list[p.Run], receipts: list[p.ReceiptRow], recorded: Recorded) -> None:
    """Check every law of steering on everything that was written."""
    simulation.reached.update(f"{receipt.action}: {receipt.state}" for receipt in receipts if simulation.steered)
    if len({receipt.tenant for receipt in receipts}) > 1:
        simulation.reached["two tenants"] += 1
    _tenants_are_apart(simulation, receipts, recorded)
    _taken_back_once(receipts, recorded)
    _steering_is_recorded(simulation, runs, recorded)
    _calls_got_their_own(simulation, runs, receipts)
    _children_were_asked_for(simulation, runs)


def _tenants_are_apart(simulation: Simulation, receipts: list[p.ReceiptRow], recorded: Recorded) -> None:
    """Everything that is written under a tenant is about a run of that tenant (G10)."""
    roots = {tenant: simulation.store.roots_of(tenant) for tenant in simulation.tenants}
    for receipt in receipts:
        if receipt.root not in roots[receipt.tenant]:
            raise Violation(f"receipt {receipt.id} of {receipt.tenant} is of no run there (G10)")
    for task in simulation.chronicle.tables.tasks.values():
        if task.root not in roots[task.tenant]:
            raise Violation(f"task {task.id} of {task.tenant} is of no run there (G10)")
    for entry, record in recorded:
        if isinstance(record, (records.Decided, records.Asked, records.Receipted)):
            if PromiseId.parse(record.promise).root not in roots[entry.tenant]:
                raise Violation(f"the audit of {entry.tenant} has a call of another tenant: {record} (G10)")
            if record.run != entry.run:
                raise Violation(f"an entry of run {entry.run} is about run {record.run} (G10)")
    for deed in simulation.outside.all():
        if deed.place[0] != deed.key.tenant or deed.promise.root not in roots[deed.key.tenant]:
            raise Violation(f"an act of {deed.key} was done in {deed.place[0]} (G10)")


def _taken_back_once(receipts: list[p.ReceiptRow], recorded: Recorded) -> None:
    """An act that was taken back had succeeded, was taken back once, and names what did so (G11): the receipt of a
    reversal, which names it, too, or an undo, which the audit records."""
    by_id = {(receipt.tenant, receipt.id): receipt for receipt in receipts}
    taken = [
        ((receipt.tenant, receipt.reverses), receipt.id)
        for receipt in receipts
        if receipt.reverses is not None and receipt.state == "succeeded"
    ]
    undone = [(entry.tenant, undo_of(record)) for entry, record in recorded]
    taken += [((tenant, undo[0]), undo[1]) for tenant, undo in undone if undo is not None]
    for place, count in Counter(place for place, _ in taken).items():
        if count > 1:
            raise Violation(f"receipt {place} was taken back {count} times (G11)")
    for place, by in taken:
        first = by_id.get(place)
        if first is None or first.state != "succeeded" or first.reversed_by != by:
            raise Violation(f"{by} takes back {place}, which is {first} (G11)")
    for receipt in receipts:
        place = receipt.tenant, receipt.id
        if receipt.reversed_by is not None and (place, receipt.reversed_by) not in taken:
            raise Violation(f"receipt {receipt.id} names {receipt.reversed_by}, which did not take it back (G11)")


def _steering_is_recorded(simulation: Simulation, runs: list[p.Run], recorded: Recorded) -> None:
    """Every retry, fork and reversal has its entry in the audit (G12)."""
    entries = [(entry.tenant, record) for entry, record in recorded if isinstance(record, records.Operated)]
    retried = {(tenant, record.run) for tenant, record in entries if record.act == "retry"}
    forked = {(tenant, record.run) for tenant, record in entries if record.act == "fork"}
    reversed_ = {(tenant, record.details.get("receipt")) for tenant, record in entries if record.act == "reverse"}
    for key, generation in simulation.store.retried:
        if not any((key.tenant, line) in retried for line in _ancestry(key.run)):
            raise Violation(f"run {key.run} goes on as generation {generation}, and nobody retried it (G12)")
    for run in runs:
        origin = run.attributes.get("forked_from")
        if origin is not None and (run.key.tenant, origin) not in forked:
            raise Violation(f"run {run.key.run} is a fork of {origin}, and nobody forked that (G12)")
        if run.workflow == REVERSE and (run.key.tenant, run.attributes["reverses"]) not in reversed_:
            raise Violation(f"run {run.key.run} takes back what nobody reversed (G12)")


def _calls_got_their_own(simulation: Simulation, runs: list[p.Run], receipts: list[p.ReceiptRow]) -> None:
    """A call without an author's key gets the result of an act with its own arguments (G13).

    In a retried run another call may stand at the place of one that was done before the failure.
    """
    requests = {(receipt.tenant, receipt.key): receipt.request for receipt in receipts}
    for run in runs:
        inherited = simulation.store.inherited.get(run.key, 0)
        for journal in simulation.store.generations(run.key):
            before = {call.promise_id for call in _fulfilled(journal[:inherited], ACTION)}
            for call in _fulfilled(journal, ACTION):
                name, arguments, key = _asked(simulation, run, call)
                if call.promise_id in before or str(call.promise_id) not in key:
                    continue
                if call.undoes is not None and (run.key.tenant, key) not in requests:
                    continue  # it was another run's to undo, or taken back already (G3)
                if requests.get((run.key.tenant, key)) != arguments:
                    raise Violation(f"{name} of run {run.key.run} got what {key} did not do (G13)")


def _children_were_asked_for(simulation: Simulation, runs: list[p.Run]) -> None:
    """The result of a child is of a child that was called with these arguments (G14)."""
    for run in runs:
        for journal in simulation.store.generations(run.key):
            started = journal[0].event
            assert isinstance(started, e.ExecutionStarted)
            for call in _fulfilled(journal, WORKFLOW):
                place = child_id(run.key.run, call.promise_id.path[-1], lineage_of(started.idempotency_key))
                children = simulation.store.generations(p.Key(run.key.tenant, place))
                if not children:
                    continue  # a fork's: they were another run's
                first = children[0][0].event
                assert isinstance(first, e.ExecutionStarted)
                if simulation.store.plain(run.key.tenant, first.input) != simulation.store.plain(
                    run.key.tenant, call.input
                ):
                    raise Violation(f"run {run.key.run} got the result of {place}, which was called for another (G14)")


def _fulfilled(journal: list[e.Entry], wanted: str) -> list[e.InvokeScheduled]:
    """The calls of this kind that succeeded."""
    called: dict[PromiseId, e.InvokeScheduled] = {}
    fulfilled = []
    for entry in journal:
        match entry.event:
            case e.InvokeScheduled(promise_id=promise, kind=kind) if kind == wanted:
                called[promise] = entry.event
            case e.InvokeCompleted(promise_id=promise, result=Ok()) if promise in called:
                fulfilled.append(called[promise])
            case _:
                continue
    return fulfilled


def _asked(simulation: Simulation, run: p.Run, call: e.InvokeScheduled) -> tuple[str, bytes, str]:
    """The name of the action that was called, its arguments as a receipt has them, and the key."""
    action = STEPS[call.function_name]
    assert isinstance(action, Action)
    data = simulation.store.plain(run.key.tenant, call.input)
    arguments = action.arguments(Payload(data, call.input.codec))
    proposal = action.proposal_of(arguments, Pending(call, None, 0).request().name)
    return action.name, proposal.request, proposal.key


def _ancestry(run: str) -> list[str]:
    """A run and all its ancestors: a retry of a run retries its failed children."""
    parts = run.split("~")
    return ["~".join(parts[:count]) for count in range(1, len(parts) + 1)]
