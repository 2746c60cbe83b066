"""Undos at the gate: calls that undo an act of their run. Each takes the receipt of that act before it begins.

Everything that changes the state of an undo is in this table: state, event, next state. The events:

- ``committed``: the turn that asks for it is durable, and with it what the undone call came to
- ``found``: the receipt of the act is known; ``missing``: the undone call left none, so nothing need be taken
- ``taken``: the receipt is this undo's; ``busy``: another undo or a reversal has it; ``freed``: that has ended
- ``passed``: it was handed on to be done

An undo that is not needed is settled and dropped: the act was taken back already, or another run relies on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from holdfast.errors import EngineError
from holdfast.journal.promise import PromiseId
from holdfast.kernel.requests import Invoke
from holdfast.store.receipts import ReceiptRow, TakenAct

UndoState = Literal[
    "asked",  # the turn that asks for it is being committed, perhaps with the end of the act that it undoes
    "looking",  # the store is asked for the receipt
    "taking",  # the change that takes it is being committed
    "waiting",  # another one has it
    "free",  # the next turn hands the undo on to be done
    "begun",  # it is done like every other call
]
UndoEvent = Literal["committed", "found", "missing", "taken", "busy", "freed", "passed"]

TRANSITIONS: Final[Mapping[UndoState, Mapping[UndoEvent, UndoState]]] = {
    "asked": {"committed": "looking"},
    "looking": {"found": "taking", "missing": "free"},
    "taking": {"taken": "free", "busy": "waiting"},
    "waiting": {"freed": "looking"},
    "free": {"passed": "begun"},
    "begun": {},
}


class GatedUndo:
    """One call that undoes another. ``name`` is that of its taking, ``receipt`` that of the act, if it left one."""

    __slots__ = ("name", "receipt", "request", "state")

    def __init__(self, request: Invoke) -> None:
        self.request = request
        self.name = request.name
        self.state: UndoState = "asked"
        self.receipt: ReceiptRow | None = None


class Undos:
    """The undos of one run that have not ended, while a worker leases it."""

    __slots__ = ("_moving", "_taken", "calls")

    def __init__(self) -> None:
        self.calls: dict[PromiseId, GatedUndo] = {}
        self._moving: dict[PromiseId, GatedUndo] = {}  # those that are not begun
        self._taken: dict[str, ReceiptRow] = {}  # what the holder of the run before had taken, by name

    def __bool__(self) -> bool:
        return bool(self.calls)

    def learn(self, taken: Iterable[TakenAct]) -> None:
        """Take in what the run has taken."""
        self._taken.update(taken)

    def add(self, request: Invoke) -> GatedUndo:
        """An undo that is asked for. One whose receipt the run has already taken is free."""
        undo = self.calls[request.promise_id] = self._moving[request.promise_id] = GatedUndo(request)
        if (receipt := self._taken.get(undo.name)) is not None:
            undo.receipt, undo.state = receipt, "free"
        return undo

    def move(self, undo: GatedUndo, event: UndoEvent) -> None:
        """Change its state. Raises EngineError where its state does not have the event."""
        following = TRANSITIONS[undo.state].get(event)
        if following is None:
            raise EngineError(f"an undo that is {undo.state} cannot be {event}")
        undo.state = following
        if following == "begun":
            self._moving.pop(undo.request.promise_id, None)

    def receipt_of(self, promise: PromiseId, name: str) -> ReceiptRow | None:
        """The receipt that this undo has taken."""
        undo = self.calls.get(promise)
        return self._taken.get(name) if undo is None else undo.receipt if undo.state in ("free", "begun") else None

    def drop(self, promise: PromiseId) -> None:
        """It has ended."""
        undo = self.calls.pop(promise, None)
        self._moving.pop(promise, None)
        if undo is not None:
            self._taken.pop(undo.name, None)

    @property
    def is_moving(self) -> bool:
        """Whether one must continue in this worker."""
        return bool(self._moving)

    def asked(self) -> list[GatedUndo]:
        """Those whose receipt is to be looked for when the present turn is durable."""
        return [undo for undo in self._moving.values() if undo.state == "asked"]

    def free(self) -> list[Invoke]:
        """Those that the next turn hands on."""
        return [undo.request for undo in self._moving.values() if undo.state == "free"]
