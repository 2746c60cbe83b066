"""The signals that generations carry: limits so small that a few meet each of them, and what a journal was given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from holdfast.journal import events as e
from holdfast.kernel import signal_writer
from holdfast.kernel.carried_signals import CarriedSignals
from holdfast.runs import checkpoints
from holdfast.runs.carried import carried_by
from holdfast.worker import held, turn_plan


@contextmanager
def small_limits(*, most_delivered: int = 3) -> Iterator[None]:
    """Pieces of three, queues in blobs of their own, one blob read ahead. More than so many signals are carried."""
    with (
        patch.multiple(signal_writer, PIECE_SIGNALS=3, PIECES=3, SHORT_BYTES=3),
        patch.object(turn_plan, "PIECE_SIGNALS", most_delivered),
        patch.object(checkpoints, "AHEAD", 1),
        patch.object(held, "AHEAD", 1),
    ):
        yield


@contextmanager
def limits_of(seed: int) -> Iterator[None]:
    """The usual limits, or for every third seed small ones: then every signal that is left over is carried."""
    if seed % 3:
        yield
        return
    with small_limits(most_delivered=0):
        yield


def deliveries(entries: Sequence[e.Entry], blobs: Mapping[bytes, bytes]) -> list[e.SignalDelivered]:
    """All signals that a generation was given: those that its start carries come first."""
    signals = carried_by(entries)
    first = [] if signals is None else list(CarriedSignals(signals, dict(blobs)).signals())
    delivered = [entry.event for entry in entries if isinstance(entry.event, e.SignalDelivered)]
    return [*(e.SignalDelivered(name, payload, number) for name, number, payload in first), *delivered]
