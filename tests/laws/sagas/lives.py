"""A run's generations, as the judge is shown them."""

from __future__ import annotations

import msgspec

from holdfast.journal import events as e
from tests.laws.sagas.play import Note


class Life(msgspec.Struct):
    """One generation of a run: how it came about (``start``, ``continue``, ``retry``), its journal, what was seen."""

    origin: str
    entries: list[e.Entry]
    notes: list[Note]


def origin_of(generation: int, retried: bool) -> str:
    """How a generation came about."""
    return "start" if generation == 0 else "retry" if retried else "continue"
