"""Limits of what generations carry, so small that a few signals meet each of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from holdfast.kernel import signal_writer
from holdfast.runs import checkpoints
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
