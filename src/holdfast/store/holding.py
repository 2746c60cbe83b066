"""Who relies on an act, and who takes it back: holders of receipts, and takings.

- A call that did an act, or that got its recorded result, holds the receipt. The call that did it has no row until
  there is a second holder or a fork: until then it is the only one.
- A holder is open while its run goes on, and kept when the run has completed. It is let go when the run has failed or
  was cancelled, and from the moment in which it asks to undo the act. ``SetHolds`` keeps it earlier, or lets it go.
- An act is taken back at most once. An undo or a reversal takes the receipt first, under a name of its own: a taking.
  It is settled when that has ended: either the act is taken back, or the receipt is given back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec

from holdfast.store.governance import Note
from holdfast.store.receipts import ReceiptRow

HolderState = Literal["open", "kept", "let_go"]


class ActCaller(NamedTuple):
    """One call of one run: its run's id, and its promise."""

    run: str
    root: bytes
    position: int


class HolderRow(NamedTuple):
    """A call that relies on an act, and whether it still does."""

    caller: ActCaller
    state: HolderState


class Stakes(msgspec.Struct, frozen=True, gc=False):
    """All holders of one receipt, as their runs are now, and the name and run of the taking; None where it is free."""

    holders: tuple[HolderRow, ...] = ()
    taking: tuple[str, str] | None = None


class Hold(msgspec.Struct, frozen=True, gc=False):
    """Rely on the recorded success of an act. Answered ``Holding``, or ``Fenced`` if it has not succeeded, or its
    act was taken back or is being taken back.

    The call that did the act is noted as its holder, too. What a call has kept it keeps. An ``inherited`` act is held
    in any case: a fork has its result already, and finds out when it undoes it.
    """

    tenant: str
    key: str
    receipt: str
    caller: ActCaller
    at: int
    inherited: bool = False


class HoldFormer(msgspec.Struct, frozen=True, gc=False):
    """Calls of a retried run that got the results of earlier ones rely on their acts instead of these, in any case.
    Each is given with its root, the position of the earlier call, and its own. Answered ``Holding``."""

    tenant: str
    run: str
    calls: tuple[tuple[bytes, int, int], ...]
    at: int


class SetHolds(msgspec.Struct, frozen=True, gc=False):
    """These calls of a run keep what they did or hold, or let it go, whatever becomes of their run. Answered
    ``Holding``."""

    tenant: str
    run: str
    calls: tuple[tuple[bytes, int], ...]
    state: Literal["kept", "let_go"] = "kept"


class TakeBack(msgspec.Struct, frozen=True, gc=False):
    """Take a receipt, to undo its act for this caller, who relies on it no more. Answered ``TookBack``, also repeated;
    ``HeldBy`` where another call relies on the act; ``Taken`` where another has it, or the act was taken back.

    The attached notes are made only where this change took it.
    """

    tenant: str
    key: str
    receipt: str
    caller: ActCaller
    name: str
    attached: tuple[Note, ...] = ()


class SettleTaking(msgspec.Struct, frozen=True, gc=False):
    """The undo under this name has ended: with ``done`` the act is taken back (its receipt's ``reversed_by`` is the
    name), else the receipt is given back. Answered ``Holding``.

    The attached notes are made only where this change settled it.
    """

    tenant: str
    key: str
    receipt: str
    name: str
    done: bool
    attached: tuple[Note, ...] = ()


HoldingChange = Hold | HoldFormer | SetHolds | TakeBack | SettleTaking


class Holding(msgspec.Struct, frozen=True, gc=False):
    """Applied."""


class TookBack(msgspec.Struct, frozen=True, gc=False):
    """The receipt is taken under this name."""


class HeldBy(msgspec.Struct, frozen=True, gc=False):
    """Another run relies on the act: for good, where it is ``kept``."""

    run: str
    kept: bool


def state_of(state: HolderState, standing: str | None, *, is_lane: bool) -> HolderState:
    """What a holder's kept state means now, by the standing of its run; None where the run is deleted.

    A lane undoes nothing and never ends, so it keeps what it holds at once.
    """
    if state != "open":
        return state
    if standing is None or standing == "completed" or is_lane:
        return "kept"
    return "let_go" if standing in ("failed", "cancelled") else "open"


def relying(holders: Sequence[HolderRow], caller: ActCaller) -> HeldBy | None:
    """The other call that relies on the act; one that is kept counts before one that is open."""
    others = [holder for holder in holders if holder.caller != caller and holder.state != "let_go"]
    others.sort(key=lambda holder: (holder.state != "kept", holder.caller))
    return HeldBy(others[0].caller.run, others[0].state == "kept") if others else None


def id_span(caller: ActCaller) -> tuple[str, str]:
    """Receipts of this call have ids from the first of these up to the second. See ``worker/gate/entries``."""
    prefix = f"r-{caller.root.hex()[:12]}-{caller.position}"
    return f"{prefix}-", f"{prefix}."


def chosen(held: Iterable[tuple[int, ReceiptRow]], own: Iterable[ReceiptRow], caller: ActCaller) -> ReceiptRow | None:
    """The receipt that a call relies on: its newest success, of those that it has ``held`` since, and its ``own``.

    In a retried run other calls had its place before.
    """
    mine = [(row.opened_at, row) for row in own if (row.root, row.position) == (caller.root, caller.position)]
    found = [(at, row) for at, row in (*held, *mine) if row.state == "succeeded"]
    return max(found, key=lambda each: (each[0], each[1].round, each[1].id))[1] if found else None
