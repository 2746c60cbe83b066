"""A turn as one change of the store: its segment, its projection, and the attached changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import msgspec

from holdfast.gate.run_calls import Closing
from holdfast.journal import events as e
from holdfast.journal.blobs import THRESHOLD_BYTES
from holdfast.journal.codec import GENESIS
from holdfast.journal.payload import CONTINUED, Payload
from holdfast.journal.promise import PromiseId
from holdfast.kernel.execution import Execution, Turn
from holdfast.kernel.program import Continued
from holdfast.kernel.requests import Abandon, Carry, Invoke, Request, Stop
from holdfast.kernel.signal_writer import PIECE_SIGNALS, NextSignals, carry
from holdfast.kernel.waits import Wait
from holdfast.runs import children
from holdfast.runs.birth import idempotency_key
from holdfast.runs.checkpoints import interval, seal_checkpoint
from holdfast.runs.kinds.kind import Errand, Kind, Pins, Place
from holdfast.runs.kinds.table import is_gated, kind_of, readable_kind
from holdfast.runs.lanes import LANE_DIGEST
from holdfast.runs.segments import seal
from holdfast.runs.signals import RESERVED
from holdfast.store.protocol import (
    FUNCTION,
    Advance,
    Answer,
    Deliver,
    Key,
    Opened,
    OpenReceipt,
    Projection,
    Renewal,
    Segment,
    Standing,
)
from holdfast.worker.attached import Attached
from holdfast.worker.gate.undoings import Undoings
from holdfast.worker.held import Held
from holdfast.worker.lifecycle import Lifecycle
from holdfast.worker.turn_remarks import ended_note, news, remarks, with_ids

_STANDINGS: Final[dict[type[e.Event], Standing]] = {
    e.ExecutionCompleted: "completed",
    e.ExecutionFailed: "failed",
    e.ExecutionCancelled: "cancelled",
}


_GOING: Final = Projection("running")
_HERE: Final = Place.HERE  # looked up once: each request of a turn is compared with them
_GATE: Final = Place.GATE


class Plan(msgspec.Struct, gc=False):
    """What to do with a turn: a change to commit, then steps to begin or call off here.

    ``attached`` is what is committed with it, in the order of the change's attached: errands, and what the gate adds.
    ``closings`` are those of the gate's changes that must be made even where the turn is refused; ``is_gated`` is
    whether a call has passed the gate in this turn, so that the audit has something to seal.
    """

    change: Advance
    invoke: list[Invoke]
    abandon: list[PromiseId]
    stop: list[PromiseId]
    attached: Sequence[Errand | Attached]
    closings: tuple[Closing, ...]
    is_gated: bool
    ending: e.Event | None

    def paired(self, answers: Sequence[Answer]) -> Iterator[tuple[Errand | Attached, Answer | None]]:
        """Each attached change with the store's answer to it; None where there was no change to answer."""
        following = iter(answers)
        for each in self.attached:
            yield each, None if each.change is None else next(following)

    def follow(self, answers: Sequence[Answer]) -> None:
        """Act on the answers to what the gate attached."""
        for each, answer in self.paired(answers):
            if type(each) is Attached and each.then is not None:
                each.then(answer)

    def give_up(self) -> None:
        """The turn was refused, and its run is let go. An earlier try of the commit may have been applied and its
        answer lost. Then receipts of acts are open that will never begin, and only this worker knows that."""
        for each in self.attached:
            if type(each) is Attached and each.then is not None and type(each.change) is OpenReceipt:
                each.then(Opened())

    @property
    def errands(self) -> list[Errand]:
        """Those of the attached changes that the commit carries out for the program."""
        return [each for each in self.attached if type(each) is Errand]


class Gate(Protocol):
    """What a plan asks of the gate. See ``governor``."""

    def due(self, held: Held, now: int) -> list[Request]: ...
    def judge(self, held: Held, request: Invoke, now: int) -> Sequence[Attached]: ...
    def abandon(self, held: Held, promise: PromiseId, now: int) -> Sequence[Attached]: ...
    def stop(self, held: Held, promise: PromiseId, now: int) -> Sequence[Attached]: ...

    @property
    def undoings(self) -> Undoings:
        """What takes the receipts of acts before these are undone."""
        ...


def terminal_of(turn: Turn) -> e.Event | None:
    """The event that ended the run in this turn."""
    last = turn.events[-1][1] if turn.events else None
    return last if type(last) in _STANDINGS else None


class _SortedRequests:
    """A turn's requests, each where it belongs."""

    def __init__(self, held: Held, now: int, pins: Pins, gate: Gate | None) -> None:
        self.invoke: list[Invoke] = []
        self.abandon: list[PromiseId] = []
        self.stop: list[PromiseId] = []
        self.errands: list[Errand] = []
        self.gated: list[Attached] = []
        self._held = held
        self._now = now
        self._pins = pins
        self._gate = gate

    def take_in(self, execution: Execution, turn: Turn) -> None:
        """What the turn asks for; of a run that was just taken over, all that is outstanding."""
        requests: Sequence[Request] = turn.requests
        if self._held.fresh and not execution.ended:
            others = [request for request in turn.requests if type(request) is not Invoke]
            requests = [*execution.outstanding(), *others]
        for request in requests:
            self._add(request)
        if self._held.gate is not None and self._held.gate.has_calls and self._gate is not None:
            for request in self._gate.due(self._held, self._now):
                self._add(request)

    def _add(self, request: Request) -> None:
        if type(request) is Invoke and request.undoes is not None and not self._may_undo(request):
            return
        kind = kind_of(request.kind)
        place = kind.place(request.queue)
        if place is _HERE:
            if type(request) is Abandon:
                self.abandon.append(request.promise_id)
            elif type(request) is Stop:
                self.stop.append(request.promise_id)
            elif type(request) is Invoke and request.promise_id not in self._held.steps:
                self.invoke.append(request)
        elif place is _GATE:
            self._pass(request)
        elif type(request) is Carry:
            self.errands.extend(kind.carry(self._held, request, self._now))
        elif type(request) is Invoke:
            self.errands.append(kind.plan(self._held, request, self._now, self._pins))
        elif (errand := _ending(kind, self._held, request, self._now)) is not None:
            self.errands.append(errand)

    def _may_undo(self, request: Invoke) -> bool:
        """Whether an undo may be handed on: where the run has been at the gate, its act may be others' to undo."""
        return self._held.gate is None or (self._gate is not None and self._gate.undoings.passes(self._held, request))

    def _pass(self, request: Request) -> None:
        if self._gate is None:
            return
        if type(request) is Invoke:
            self.gated.extend(self._gate.judge(self._held, request, self._now))
        elif type(request) is Stop:
            self.gated.extend(self._gate.stop(self._held, request.promise_id, self._now))
        else:
            self.gated.extend(self._gate.abandon(self._held, request.promise_id, self._now))

    @property
    def busy(self) -> bool:
        """Whether something here will move the run soon."""
        held = self._held
        if self.invoke or held.has_more:  # nearly always
            return True
        return bool(
            held.steps.keys() - set(self.abandon)
            or any(errand.promise_id is not None for errand in self.errands)
            or (held.generation and any(errand.meets for errand in self.errands))
            or (held.gate is not None and held.gate.is_moving)
        )


def _ending(kind: Kind, held: Held, request: Request, now: int) -> Errand | None:
    """The errand for a call that is to end, if it needs one."""
    match request:
        case Abandon():
            return kind.give_up(held, request, now)
        case Stop():
            return kind.stop(held, request, now)
        case Invoke() | Carry():
            return None


def plan(
    held: Held,
    execution: Execution,
    turn: Turn,
    now: int,
    *,
    hold_until: int,
    pins: Pins,
    gate: Gate | None,
    checkpoint_events: int,
    lifecycle: Lifecycle | None = None,
) -> Plan:
    """Turn a turn into a change. The lease is given up where nothing here can move the run before ``hold_until``.

    Without a ``gate`` nothing is judged: for a turn that only records what has happened. Raises SignalsMissing.
    """
    ending = terminal_of(turn)
    renewal = None if ending is None or not _continues(ending) else _renewal(held, execution, turn, now, pins)
    requests = _SortedRequests(held, now, pins, gate)
    requests.take_in(execution, turn)
    carried_on = None if renewal is not None else ending
    if carried_on is not None and held.parent is not None:
        id = f"ended:{held.id}:{held.generation}:{held.row.created_at}"  # if it was deleted, its next one is another
        message = children.ended(held.row, execution.started.parent_id, carried_on, now, id)
        requests.errands.append(Errand(Deliver(Key(held.key.tenant, held.parent), message)))
    if turn.stale or execution.program.reference != held.reference:
        requests.errands.extend(remarks(held, turn, now))
    blobs: dict[bytes, bytes] = {}
    segment = seal(turn.events, held.version, held.head, blobs) if turn.events else None
    checkpoint = None
    every = interval(execution.checkpoint_bytes, checkpoint_events)
    if segment is not None and (ending is not None or segment.first + segment.count - execution.offered_at >= every):
        checkpoint = _checkpoint(held, execution, segment, ending, pins)
    projection, release = _projection(held, execution, ending, renewal, requests.busy, now, hold_until)
    attached: list[Errand | Attached] = [*requests.errands]
    attached.extend(news(lifecycle, held, turn, carried_on, projection, now))
    closings: tuple[Closing, ...] = ()
    if held.gate is not None:
        closings = held.gate.take_closings()
        attached.extend(map(Attached, closings))
        attached.extend(requests.gated if segment is not None else map(with_ids, requests.gated))
        attached.extend(gate.undoings.settled(held, turn) if gate is not None else ())
        attached.extend(map(Attached, ended_note(held, execution, ending, segment, renewal, projection)))
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
        tuple([each.change for each in attached if each.change is not None]) if attached else (),
        renewal,
        checkpoint,
    )
    is_gated = bool(requests.gated or closings)
    return Plan(change, requests.invoke, requests.abandon, requests.stop, attached, closings, is_gated, carried_on)


def _checkpoint(held: Held, execution: Execution, segment: Segment, ending: e.Event | None, pins: Pins) -> bytes | None:
    """The program's checkpoint with this turn, if it gives one; a run that ends needs none any more."""
    if ending is not None:
        return b"" if execution.has_checkpoint else None
    if not held.version:  # its first turn comes with its start, which has none
        return None
    given = execution.checkpoint()
    if given is None:
        return None
    data = seal_checkpoint(given, held.id, code_of(held, pins), segment.head)
    execution.checkpoint_bytes = len(data)
    return data


def _projection(
    held: Held,
    execution: Execution,
    ending: e.Event | None,
    renewal: Renewal | None,
    busy: bool,
    now: int,
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
    if held.pause is not None:  # if it was resumed a moment ago, nobody else would take it up again
        due = now
    waiting = msgspec.json.encode([_described(held, wait) for wait in execution.waits()[:20]]).decode()
    return Projection("waiting", due, waiting, cancelling, pause=pause), True


def _described(held: Held, wait: Wait) -> Wait:
    """The wait with what people are shown of it: the task that it waits for, or the child run."""
    if held.gate is not None and is_gated(wait.kind):
        promise = held.id.child(wait.position)
        if (form := held.gate.forms.task_of(promise)) is not None:
            return msgspec.structs.replace(wait, due=form.expires_at, task=form.id)
        call = held.gate.calls.get(promise)
        for task in () if call is None else call.open_tasks:
            return msgspec.structs.replace(wait, kind=task.kind, due=task.expires_at, task=task.id)
        return wait
    return readable_kind(wait.kind).waits(held, wait)


def code_of(held: Held, pins: Pins) -> str:
    """Which code a run goes on with: a function's as it is here, else the one that the run pinned."""
    row = held.row
    if held.is_lane:
        return LANE_DIGEST
    return pins(held.workflow).digest if row.program_kind == FUNCTION else (row.code_digest or b"").hex()


def _continues(ending: e.Event) -> bool:
    return isinstance(ending, e.ExecutionCompleted) and ending.result.codec == CONTINUED


def _renewal(held: Held, execution: Execution, turn: Turn, now: int, pins: Pins) -> Renewal:
    """The next generation's first segment: its start, the signals that nobody received, and a cancellation
    that came too late for the program. Many signals are carried by the start; see ``carried_signals``."""
    ending = terminal_of(turn)
    assert isinstance(ending, e.ExecutionCompleted)
    is_function = held.row.program_kind == FUNCTION  # the others go on with the code that they pinned
    digest = pins(held.workflow).digest if is_function else execution.started.component_digest
    key = idempotency_key(held.key, held.generation + 1)
    parent = execution.started.parent_id
    root = PromiseId.of_run(digest, parent, key)
    undone = execution.ending.carried if isinstance(execution.ending, Continued) else None
    left, (signals, blobs) = _left(execution)
    input = Payload(ending.result.data)
    start = e.ExecutionStarted(digest, input, parent, key, e.EDITION, undone, signals=signals)
    stamped: list[tuple[int, e.Event]] = [(now, start)]
    counts: dict[str, int] = {}
    for name, payload in left:
        counts[name] = counts.get(name, 0) + 1
        stamped.append((now, e.SignalDelivered(name, payload, counts[name])))
    if turn.unheard is not None:
        stamped.append((now, e.CancelRequested(turn.unheard.reason)))
    segment: Segment = seal(stamped, 0, GENESIS, blobs)
    return Renewal(root.root, segment, blobs)


def _left(execution: Execution) -> tuple[list[tuple[str, Payload]], NextSignals]:
    """The signals that nobody received: those that are delivered once more, and those that the start carries.

    The engine's own are always delivered, but for answers about calls of the generation that ends.
    """
    ledger, before = execution.ledger, execution.carried
    taken = ledger.signals.carried_and_received()
    left = [signal for signal in ledger.signals.unconsumed() if signal[0] != e.RETRY]
    is_few = len(left) <= PIECE_SIGNALS and sum(len(payload.data) for _, payload in left) <= THRESHOLD_BYTES
    if is_few and (before is None or before.size == sum(taken.values())):
        return left, NextSignals(None, {})
    own = [signal for signal in left if signal[0].startswith(RESERVED)]
    others = [signal for signal in left if not signal[0].startswith(RESERVED)]
    return own, carry(before, taken, others)
