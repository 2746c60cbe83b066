"""What the engine itself tells a cell: how far its effects are, and what came of them.

A machine lists those of them that it wants among its events. They come by the recorded origin of the effect and by no
route, so no cell ever gets another cell's.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.journal.payload import Err, Ok
from holdfast.programs.machine.schemas import name_of, schema


@schema("sys/Settled@1")
class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """An effect of this cell has ended, with a value or an error.

    ``intent`` names the call: the same name is in its receipt. ``sequence`` counts the effects of the cell.
    ``issuer`` is what the cell gave with the call, ``executor`` who carried it out and signed: None where nobody must.
    """

    outcome: Ok[Any] | Err
    effect: str
    intent: str
    sequence: int
    machine: str
    key: Any = None
    issuer: str | None = None
    executor: str | None = None

    @property
    def status(self) -> str:
        """``ok`` or ``error``."""
        return "ok" if isinstance(self.outcome, Ok) else "error"


@schema("sys/Rejected@1")
class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an effect cannot be read as its declared type. The intent is settled all the same."""

    effect: str
    intent: str
    sequence: int
    reason: str


@schema("sys/Progress@1")
class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """An effect of this cell is under way, and its ``attempt`` has reported this by ``report()``.

    What one effect reports comes in its order and before its ``Settled``. Not every report comes: of several in a short
    time the newest, and what was not recorded when a worker died is lost.
    """

    details: Any
    effect: str
    intent: str
    sequence: int
    attempt: int = 1


ENGINE_EVENTS: Final = (Settled, Rejected, Progress)
ENGINE_SCHEMAS: Final = frozenset(map(name_of, ENGINE_EVENTS))
