"""Which changes concern other processes: a hint goes to them with the commit of such a change, or after it."""

from __future__ import annotations

from typing import Final

from holdfast.store import protocol as p

SOON_MICROSECONDS: Final = 6_000_000
"""Workers poll every five seconds: only an earlier time needs a hint."""


def _wakes_soon(change: p.Advance) -> bool:
    """Whether the turn releases the run with a time that other, sleeping workers would see too late."""
    wake_at, segment = change.projection.wake_at, change.segment
    if not change.release or wake_at is None or segment is None:
        return False
    return wake_at - segment.at < SOON_MICROSECONDS


def concerns_others(change: p.Change) -> bool:
    """Whether another process may wait for this change: then the commit carries a hint."""
    match change:
        case p.Advance():
            if change.projection.standing in p.ENDED or _wakes_soon(change):
                return True
            return any(concerns_others(each) for each in change.attached)
        case p.Start():
            return change.owner is None or any(concerns_others(each) for each in change.attached)
        case (
            p.Withdraw()
            | p.Beat()
            | p.OpenReceipt()
            | p.CloseReceipt()
            | p.Hold()
            | p.SetHolds()
            | p.HoldFormer()
            | p.TakeBack()
            | p.SettleTaking()
            | p.Note()
            | p.KeepCode()
            | p.PutCells()
            | p.SetReference()
            | p.MarkSplit()
            | p.Tally()
        ):
            return False
        case _:
            return True
