"""The effects that the cells of a lane have asked for and that are open, and how far their reports were heard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from holdfast.journal.events import SignalReceived
from holdfast.journal.promise import PromiseId
from holdfast.kernel.program import Scribe
from holdfast.programs.machine.lanes.held_events import ProgressArrived
from holdfast.programs.machine.lanes.notes import IntentNote
from holdfast.runs.lanes import ProgressFrame


class OpenIntent(msgspec.Struct, gc=False):
    """One of them: whose it is."""

    key: bytes
    effect: str
    sequence: int
    heard: tuple[int, int, int] | None = None  # the mark of the last frame that was heard of it


class OpenIntents:
    """Those of one lane, by promise."""

    def __init__(self) -> None:
        self._open: dict[PromiseId, OpenIntent] = {}
        self._settled: dict[PromiseId, OpenIntent] = {}  # those whose receipts came for this turn: frames may follow

    def __iter__(self) -> Iterator[PromiseId]:
        return iter(self._open)

    def get(self, promise: PromiseId) -> OpenIntent | None:
        return self._open.get(promise)

    def add(self, promise: PromiseId, note: IntentNote) -> None:
        """A cell has asked for this."""
        self._open[promise] = OpenIntent(note.key, note.effect, note.sequence)

    def settle(self, promise: PromiseId) -> OpenIntent | None:
        """Its receipt has come. Gives whose it was, once."""
        intent = self._open.pop(promise, None)
        if intent is not None:
            self._settled[promise] = intent
        return intent

    def must_read_on(self, scribe: Scribe, signal: str, *, listens: bool) -> bool:
        """Whether the lane, which waits for a signal, must receive those that have come before it handles receipts.

        A lane that was paused has recorded both reports and the receipt behind them, and gets receipts first. In the
        next turn the reports would be those of effects that are settled. A replay does what was done.
        """
        upcoming = scribe.upcoming()
        if upcoming is not None:
            return isinstance(upcoming, SignalReceived)
        return listens and bool(self._settled) and scribe.is_buffered(signal)

    def end_turn(self) -> None:
        """No frame follows any more."""
        self._settled.clear()

    def keys_of(self, promises: Iterable[PromiseId]) -> Iterator[bytes]:
        """The cells that asked for those of these that are open."""
        return (self._open[each].key for each in promises if each in self._open)

    def hear(self, promise: PromiseId, frame: ProgressFrame) -> tuple[bytes, ProgressArrived] | None:
        """A frame goes to the cell that asked for its effect, if that is open and has heard no later one."""
        intent = self._open.get(promise) or self._settled.get(promise)
        if intent is None or (intent.heard is not None and intent.heard >= frame.mark):
            return None
        intent.heard = frame.mark
        return intent.key, ProgressArrived(promise, frame.attempt, frame.details)

    def kept(self) -> list[list[Any]]:
        """What a checkpoint keeps of them."""
        return [
            [at.path[-1], each.key, each.effect, each.sequence, *([] if each.heard is None else [each.heard])]
            for at, each in self._open.items()
        ]

    def restore(self, run: PromiseId, kept: Iterable[Sequence[Any]]) -> None:
        """Go on as a checkpoint has them."""
        for at, key, effect, sequence, *heard in kept:
            self._open[run.child(at)] = OpenIntent(key, effect, sequence, tuple(heard[0]) if heard else None)
