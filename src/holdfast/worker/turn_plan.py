"""A turn as one change of the store: its segment, its projection, and what comes also."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import cbor2
import msgspec

from holdfast.audit.notes import named
from holdfast.errors import EngineError
from holdfast.journal import events as e
from holdfast.journal.codec import GENESIS
from holdfast.journal.forms import FORM
from holdfast.journal.payload import CONTINUED, Payload
from holdfast.journal.promise import PromiseId
from holdfast.journal.secrecy import ACTION
from holdfast.kernel.execution import Execution, Turn, Wait
from holdfast.kernel.program import Continued
from holdfast.kernel.requests import Abandon, Invoke, Request
from holdfast.programs.function.calls import DETACHED, SIGNAL
from holdfast.programs.function.decorators import STEP, WORKFLOW
from holdfast.runs import children, messages
from holdfast.runs.birth import Birth, child_id, idempotency_key
from holdfast.runs.segments import seal
from holdfast.store.protocol import (
    Advance,
    Also,
    Answer,
    CloseReceipt,
    Deliver,
    Enqueue,
    Key,
    Note,
    Opened,
    OpenReceipt,
    Origin,
    Projection,
    Renewal,
    Segment,
    Standing,
    Start,
    Withdraw,
    Work,
)
from holdfast.worker.gate.calls import Passage
from holdfast.worker.gate.entries import ended
from holdfast.worker.held import Held

_STANDINGS: Final[dict[type[e.Event], Standing]] = {
    e.ExecutionCompleted: "completed",
    e.ExecutionFailed: "failed",
    e.ExecutionCancelled: "cancelled",
}


_GOING: Final = Projection("running")


class Errand(msgspec.Struct, gc=False):
    """A request that is carried out by the commit itself; its answer settles the promise, or nothing does."""

    change: Also
    promise_id: PromiseId | None
    result: str | None = None


class Plan(msgspec.Struct, gc=False):
    """What to do with a turn: a change to commit, then steps to begin or call off here, errands and passages to settle.

    The change carries what the errands ask, then the closings, then the passages.
    """

    change: Advance
    invoke: list[Invoke]
    abandon: list[PromiseId]
    errands: list[Errand]
    passages: list[Passage]
    closings: tuple[CloseReceipt | Note, ...]
    ending: e.Event | None

    def follow(self, also: Sequence[Answer]) -> None:
        """Tell each passage how the first of its changes was answered."""
        index = len(self.errands) + len(self.closings)
        for passage in self.passages:
            if passage.then is not None:
                passage.then(also[index] if passage.changes else None)
            index += len(passage.changes)

    def forsake(self) -> None:
        """The turn was refused, and its run is let go. An earlier try may have come through, its answer lost: then
        receipts are open of acts that will never begin, and only who opened them knows that."""
        for passage in self.passages:
            if passage.then is not None and passage.changes and isinstance(passage.changes[0], OpenReceipt):
                passage.then(Opened())


class Gate(Protocol):
    """What a plan asks of the gate. See ``governor``."""

    def due(self, held: Held, now: int) -> list[Request]: ...
    def judge(self, held: Held, request: Invoke, now: int) -> Passage | None: ...
    def abandon(self, held: Held, promise: PromiseId, now: int) -> Passage | None: ...


def terminal_of(turn: Turn) -> e.Event | None:
    """The event that ended the run in this turn."""
    last = turn.events[-1][1] if turn.events else None
    return last if type(last) in _STANDINGS else None


def is_local(request: Request) -> bool:
    """Whether the request runs in this worker, beside its run."""
    return request.kind == STEP and request.queue is None


class _Sorting:
    """A turn's requests, each where it belongs."""

    def __init__(self, held: Held, now: int, digest_of: Mapping[str, str], gate: Gate | None) -> None:
        self.invoke: list[Invoke] = []
        self.abandon: list[PromiseId] = []
        self.errands: list[Errand] = []
        self.passages: list[Passage] = []
        self._held = held
        self._now = now
        self._digest_of = digest_of
        self._gate = gate

    def take_in(self, execution: Execution, turn: Turn) -> None:
        """What the turn asks for; of a run that was just taken over, all that is outstanding."""
        requests: Sequence[Request] = turn.requests
        if self._held.fresh and not execution.ended:
            abandons = [request for request in turn.requests if type(request) is Abandon]
            requests = [*execution.outstanding(), *abandons]
        for request in requests:
            self._add(request)
        if self._held.gate is not None and self._gate is not None:
            for request in self._gate.due(self._held, self._now):
                self._add(request)

    def _add(self, request: Request) -> None:
        if is_local(request):
            if type(request) is Abandon:
                self.abandon.append(request.promise_id)
            elif type(request) is Invoke and request.promise_id not in self._held.steps:
                self.invoke.append(request)
        elif request.kind in (ACTION, FORM):
            self._pass(request)
        else:
            self.errands.append(_errand(self._held, request, self._now, self._digest_of))

    def _pass(self, request: Request) -> None:
        if self._gate is None:
            return
        if type(request) is Invoke:
            passage = self._gate.judge(self._held, request, self._now)
        else:
            passage = self._gate.abandon(self._held, request.promise_id, self._now)
        if passage is not None:
            self.passages.append(passage)

    @property
    def busy(self) -> bool:
        """Whether something here will move the run soon."""
        held = self._held
        if self.invoke or held.arrivals:  # nearly always
            return True
        return bool(
            held.steps.keys() - set(self.abandon)
            or any(errand.promise_id is not None for errand in self.errands)
            or (held.generation and any(type(errand.change) is Start for errand in self.errands))  # see met_again
            or any(passage.then is not None for passage in self.passages)
            or (held.gate is not None and held.gate.busy)
        )


def plan(
    held: Held,
    execution: Execution,
    turn: Turn,
    now: int,
    *,
    hold_until: int,
    digest_of: Mapping[str, str],
    gate: Gate | None,
) -> Plan:
    """Turn a turn into a change. The lease is given up where nothing here can move the run before ``hold_until``.

    Without a ``gate`` nothing is judged: for a turn that only records what has happened.
    """
    sorting = _Sorting(held, now, digest_of, gate)
    sorting.take_in(execution, turn)
    ending = terminal_of(turn)
    renewal = _renewal(held, execution, turn, now, digest_of) if _continues(ending) else None
    if ending is not None and renewal is None and held.parent is not None:
        id = f"ended:{held.id}:{held.generation}"
        message = children.ended(held.row, execution.started.parent_id, ending, now, id)
        sorting.errands.append(Errand(Deliver(Key(held.key.tenant, held.parent), message), None))
    blobs: dict[bytes, bytes] = {}
    segment = seal(turn.events, held.version, held.head, blobs) if turn.events else None
    projection, release = _projection(held, execution, ending, renewal, sorting.busy, hold_until)
    also: tuple[Also, ...] = tuple(errand.change for errand in sorting.errands)
    closings: tuple[CloseReceipt | Note, ...] = ()
    if held.gate is not None:
        closings, held.gate.closings = tuple(held.gate.closings), []
        passed = [change for passage in sorting.passages for change in passage.changes]
        if segment is None:  # the change has no hash that tells it from itself committed again, so its entries have ids
            passed = [named(change) if isinstance(change, Note) else change for change in passed]
        also = (*also, *closings, *passed, *_ended(held, execution, ending, segment, renewal, projection))
        projection = msgspec.structs.replace(projection, governed=True, writes=held.gate.writes)
    change = Advance(
        held.key,
        held.generation,
        held.epoch,
        held.version,
        segment,
        projection,
        held.through,
        release,
        blobs,
        also,
        renewal,
    )
    carried_on = None if renewal is not None else ending
    return Plan(change, sorting.invoke, sorting.abandon, sorting.errands, sorting.passages, closings, carried_on)


def _ended(
    held: Held,
    execution: Execution,
    ending: e.Event | None,
    segment: Segment | None,
    renewal: Renewal | None,
    projection: Projection,
) -> Sequence[Note]:
    """The note of a governed run's end, or of a generation's."""
    if ending is None or segment is None:
        return ()
    standing = "continued" if renewal is not None else projection.standing
    return (ended(held, execution.started, ending, segment, standing),)


def _projection(
    held: Held,
    execution: Execution,
    ending: e.Event | None,
    renewal: Renewal | None,
    busy: bool,
    hold_until: int,
) -> tuple[Projection, bool]:
    """How the run's row looks after the turn, and whether the lease is given up."""
    if renewal is not None:
        return Projection("running"), False
    if ending is not None:
        error = str(ending.error) if isinstance(ending, e.ExecutionFailed) else None
        return Projection(_STANDINGS[type(ending)], error=error), True
    due = held.next_due()
    cancelling = execution.ledger.cancel_requested
    if busy:
        going = _GOING if due is None and not cancelling else Projection("running", due, cancelling=cancelling)
        return going, False
    pause = None
    if execution.waits_for_nothing:
        pause = "the workflow waits for something that nothing can settle: cancel it, or mend its code and resume it"
    if due is not None and due <= hold_until and pause is None and held.pause is None:
        return Projection("waiting", due, cancelling=cancelling), False
    waiting = msgspec.json.encode([_told(held, wait) for wait in execution.waits()[:20]]).decode()
    return Projection("waiting", due, waiting, cancelling, pause=pause), True


def _told(held: Held, wait: Wait) -> Wait:
    if wait.kind == ACTION and held.gate is not None:
        task = held.gate.task_of(held.id.child(wait.position))
        return (
            wait if task is None else msgspec.structs.replace(wait, kind=task.kind, due=task.expires_at, task=task.id)
        )
    if wait.kind == FORM and held.gate is not None:
        task = held.gate.forms.task_of(held.id.child(wait.position))
        return wait if task is None else msgspec.structs.replace(wait, due=task.expires_at, task=task.id)
    if wait.kind != WORKFLOW:
        return wait
    return msgspec.structs.replace(wait, run=child_id(held.key.run, wait.position, held.lineage))


def _errand(held: Held, request: Request, now: int, digest_of: Mapping[str, str]) -> Errand:
    position = request.promise_id.path[-1]
    if isinstance(request, Abandon):
        if request.kind == STEP:
            return Errand(Withdraw(held.key, position), None)
        child = Key(held.key.tenant, child_id(held.key.run, position, held.lineage))
        return Errand(Deliver(child, messages.cancel("its parent no longer waits for it", now)), None)
    match request.kind:
        case kind if kind == STEP:
            return Errand(Enqueue(_work(held, request)), None)
        case kind if kind == WORKFLOW:
            return Errand(_child(held, request, now, digest_of), None)
        case kind if kind == DETACHED:
            start = _detached(held, request, now, digest_of)
            return Errand(start, request.promise_id, start.key.run)
        case kind if kind == SIGNAL:
            (target, name, value), _ = cbor2.loads(request.input.data)
            body = Payload(cbor2.dumps(value, canonical=True))
            # A retried run may send another signal from the same place: it must not pass for the first.
            id = f"{request.promise_id}:{hashlib.sha256(request.input.data).hexdigest()[:12]}"
            message = messages.signal(name, body, now, id)
            return Errand(Deliver(Key(held.key.tenant, target), message), request.promise_id)
        case other:
            raise EngineError(f"no worker knows the invoke kind {other!r}")


def _work(held: Held, request: Invoke) -> Work:
    return Work(
        held.key,
        request.promise_id.path[-1],
        request.queue or "",
        request.function_name,
        request.attempt,
        cbor2.dumps([held.id.root, request.input.data, request.input.codec, request.mark], canonical=True),
        held.priority,
        request.not_before,
        # Where leases begin to be counted: positions begin anew with a lineage, and a late finisher must not match.
        held.generation * 1_000_000_000 + held.version,
    )


def _child(held: Held, request: Invoke, now: int, digest_of: Mapping[str, str]) -> Start:
    position = request.promise_id.path[-1]
    key = Key(held.key.tenant, child_id(held.key.run, position, held.lineage))
    return Birth(
        key=key,
        workflow=request.function_name,
        digest=digest_of.get(request.function_name, ""),
        input=request.input,
        parent=held.key.run,
        parent_id=request.promise_id,
        priority=held.priority,
        origin=Origin(held.row.workspace, held.row.actor),
    ).start(now)


def _detached(held: Held, request: Invoke, now: int, digest_of: Mapping[str, str]) -> Start:
    (workflow, chosen, arguments), _ = cbor2.loads(request.input.data)
    run = chosen or child_id(held.key.run, request.promise_id.path[-1], held.lineage)
    return Birth(
        key=Key(held.key.tenant, run),
        workflow=workflow,
        digest=digest_of.get(workflow, ""),
        input=Payload(arguments),
        priority=held.priority,
        origin=Origin(held.row.workspace, held.row.actor),
    ).start(now)


def _continues(ending: e.Event | None) -> bool:
    return isinstance(ending, e.ExecutionCompleted) and ending.result.codec == CONTINUED


def _renewal(held: Held, execution: Execution, turn: Turn, now: int, digest_of: Mapping[str, str]) -> Renewal:
    """The next generation's first segment: its start, the signals that nobody received, a cancellation not heard."""
    ending = terminal_of(turn)
    assert isinstance(ending, e.ExecutionCompleted)
    digest = digest_of.get(held.workflow, "")
    key = idempotency_key(held.key, held.generation + 1)
    parent = execution.started.parent_id
    root = PromiseId.of_run(digest, parent, key)
    carried = execution.ending.carried if isinstance(execution.ending, Continued) else None
    started = e.ExecutionStarted(digest, Payload(ending.result.data), parent, key, e.EDITION, carried)
    stamped: list[tuple[int, e.Event]] = [(now, started)]
    counts: dict[str, int] = {}
    for name, payload in execution.ledger.unconsumed():
        counts[name] = counts.get(name, 0) + 1
        stamped.append((now, e.SignalDelivered(name, payload, counts[name])))
    if turn.unheard is not None:
        stamped.append((now, e.CancelRequested(turn.unheard.reason)))
    blobs: dict[bytes, bytes] = {}
    segment: Segment = seal(stamped, 0, GENESIS, blobs)
    return Renewal(root.root, segment, blobs)
