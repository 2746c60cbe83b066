"""What all stores judge alike: whether a definition can be published, whether a run is paused as it must be, what a
repeated change is answered, and what a usual turn is."""

from __future__ import annotations

from holdfast.store.cells import PutCells
from holdfast.store.changes import (
    Act,
    Advance,
    Answer,
    Attachable,
    CodeMisfit,
    Enqueue,
    Enqueued,
    Fenced,
    Kept,
    Pause,
    Publish,
    Repeated,
    Unpause,
    VersionTaken,
)
from holdfast.store.governance import Note, Noted
from holdfast.store.values import DefinitionRow, Deliver, Message


def published_before(change: Publish, present: DefinitionRow | None) -> Answer | None:
    """Why a definition cannot be published, given what its name and version mean now; None where it can be."""
    if not change.code.fits:
        return CodeMisfit()
    if present is None:
        return None
    return Kept() if present.digest == change.code.digest else VersionTaken(present.digest)


def paused_otherwise(change: Act, pause: str | None) -> Answer | None:
    """The refusal of an act on a run that is paused for another reason than it must be, or not at all."""
    expected = change.present if isinstance(change, Pause | Unpause) else None
    return None if expected in (None, pause) else Fenced()


def known_answer(change: Attachable) -> Answer | None:
    """The answer to an attached change whose carrier was applied before, where a repetition could not be recognised:
    the work may be done, a message without an id consumed, and most entries of the audit have no id. None for others,
    which are applied again."""
    match change:
        case Enqueue():
            return Enqueued()
        case Deliver(message=Message(id=None)):
            return Repeated()
        case Note():
            return Noted()
        case PutCells():
            return Kept()
        case _:
            return None


def goes_on(change: Advance) -> bool:
    """Whether the run keeps its lease and its columns, but for the progress of its journal."""
    if change.release or change.segment is None or change.renewal is not None:
        return False
    projection = change.projection
    return (
        projection.standing == "running"
        and projection.wake_at is None
        and projection.pause is None
        and projection.waiting is None
        and projection.error is None
        and not projection.cancelling
    )
