"""What a turn adds to its commit beside its events and what it asks for: remarks, news, and the note of an end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.audit.notes import named
from holdfast.journal import events as e
from holdfast.kernel.execution import Execution, Turn
from holdfast.runs.kinds.kind import Errand
from holdfast.store.protocol import Note, Projection, Renewal, Segment, SetReference
from holdfast.worker.attached import Attached
from holdfast.worker.gate.entries import ended, ignored
from holdfast.worker.held import Held
from holdfast.worker.lifecycle import Lifecycle


def remarks(held: Held, turn: Turn, now: int) -> Iterator[Errand]:
    """What the turn says of its run beside its events: signals that it ignored, and a new business reference."""
    for signal in turn.stale:
        yield Errand(ignored(held, signal, now))
    if (reference := held.present_reference) != held.reference:
        held.reference = reference  # a turn that is refused ends with this object
        yield Errand(SetReference(held.key, reference))


def news(
    lifecycle: Lifecycle | None, held: Held, turn: Turn, ending: e.Event | None, projection: Projection, now: int
) -> Sequence[Errand]:
    """What the tenant's subscriptions are told of the run: that it has begun, is parked, or has ended."""
    if lifecycle is None or (held.version > 1 and ending is None and projection.pause is None):  # nearly always
        return ()
    if not lifecycle.is_noted(held.key.tenant):
        return ()
    found: list[Note] = []
    is_first = held.version <= 1 and held.generation == 0 and bool(turn.events)
    if is_first and not held.live.started.inherited:  # a fork's beginning has the note of whoever made it
        found.append(lifecycle.begun(held, now))
    if projection.pause is not None:
        found.append(lifecycle.parked(held, now))
    if ending is not None:
        found.append(lifecycle.ended(held, ending, now))
    return [Errand(note) for note in found]


def with_ids(attached: Attached) -> Attached:
    """A change without a segment has no hash by which a second commit of it is recognised, so its entries have ids."""
    change = attached.change
    return Attached(named(change), attached.then) if isinstance(change, Note) else attached


def ended_note(
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
