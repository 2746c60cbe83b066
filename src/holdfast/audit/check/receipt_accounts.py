"""Whether the store's receipts and the audit's entries tell one story.

From receipts a recorded success is given instead of acting again, and acts are taken back; but they are rows, and only
the entries are sealed. So the one is held against the other:

- A receipt is of a call that a decision allowed: in its run, at its place, for its proposal, when it was opened.
- One that is not pending is in an entry, with every field. Of an unknown outcome the last words count.
- What an entry says succeeded is there, and succeeded. No attempt that an entry tells the end of is pending.
- A key that an entry tells of has a receipt: the one that it names, or that of a later attempt or another call.
- What was taken back names the receipt of the act that did it, and that one names it.

An entry stands under the run whose call found the outcome out, which need not be the receipt's. No entry tells the
token of an attempt, nor when an unknown outcome was closed; and while it is pending, none tells its key and arguments.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator

from holdfast.audit import records as r
from holdfast.journal.promise import PromiseId
from holdfast.store.governance import ReceiptRow
from holdfast.tasks.answers import HAPPENED


class Account:
    """One receipt, and how much of it has been confirmed by what was heard of the audit so far."""

    __slots__ = ("_ended", "_fits", "_opened", "_vouched", "receipt")

    def __init__(self, receipt: ReceiptRow) -> None:
        self.receipt = receipt
        self._opened: list[str] | None = None  # what differs from the decision that comes nearest
        self._ended: list[str] | None = None  # what differs from the entry of its end that comes nearest
        self._fits = False  # its task is the one by which it was allowed
        self._vouched = False  # its task is one to which a person said that it happened

    def take(self, record: r.Record) -> None:
        """Take in an entry that may be about it."""
        receipt = self.receipt
        match record:
            case r.Decided(effect="allow"):
                self._opened = _nearer(self._opened, _opening(receipt, record))
                self._fits = self._fits or record.task == receipt.task
            case r.Asked(verdict=said):
                self._vouched = self._vouched or said == HAPPENED
            case r.Receipted(state=state) if state != "reused":
                self._ended = _nearer(self._ended, _ending(receipt, record))

    @property
    def problem(self) -> str | None:
        """What of the receipt the audit does not confirm, in a sentence; None where it confirms all of it."""
        receipt = self.receipt
        if receipt.state != "pending":
            if self._ended is None:
                return f"receipt {receipt.id}: it is {receipt.state}, and nothing in the audit tells of it."
            if self._ended:
                return _differ(receipt.id, self._ended)
        elif _has_outcome(receipt):
            return f"receipt {receipt.id}: it is pending, and an outcome is written in it."
        if self._opened is None:
            return f"receipt {receipt.id}: no decision in the audit allowed its act when it was opened."
        if self._opened:
            return _differ(receipt.id, self._opened)
        if self._fits or (self._vouched and receipt.state == "succeeded"):
            return None
        return _differ(receipt.id, ["task"])


class Accounts:
    """Some receipts, which hear the audit together."""

    def __init__(self, accounts: Iterable[Account]) -> None:
        self._all = list(accounts)
        self._about: defaultdict[Hashable, list[Account]] = defaultdict(list)
        for account in self._all:
            receipt = account.receipt
            self._about[receipt.id].append(account)
            self._about["task", receipt.task].append(account)
            call = str(PromiseId(receipt.root, (receipt.position,)))
            self._about[call, receipt.opened_at].append(account)

    def take(self, record: r.Record) -> None:
        """Take in an entry."""
        about: Hashable
        match record:
            case r.Decided(promise=call, at=at):
                about = (call, at)
            case r.Asked(task=task):
                about = ("task", task)
            case r.Receipted(receipt=id):
                about = id
            case _:
                return
        for account in self._about.get(about, ()):
            account.take(record)

    @property
    def open(self) -> list[Account]:
        """Those that are not wholly confirmed."""
        return [account for account in self._all if account.problem is not None]


def contradiction(record: r.Receipted, row: ReceiptRow | None) -> str | None:
    """Why the receipt that is there under an entry's id cannot be the one it tells of; None where it can be.

    A receipt that failed, or whose outcome nobody knew, may have given way to another attempt since.
    """
    if record.state in ("succeeded", "reused"):
        if row is None:
            return f"receipt {record.receipt}: the audit says that it succeeded, and it is gone."
        differing = _ending(row, record)
        return _differ(row.id, differing) if differing else None
    if row is None or row.opened_at != record.started_at:
        return None
    if row.state == "pending":
        return f"receipt {row.id}: it is pending, and the audit says that its attempt has ended."
    differing = _ending(row, record) if record.state == "failed" else []
    return _differ(row.id, differing) if differing else None


def holds_key(record: r.Receipted, row: ReceiptRow | None) -> bool:
    """Whether the key that an entry tells of is held by the receipt that is there under its id."""
    return row is not None and row.key == record.key


def lost_key(id: str) -> str:
    """The problem of an entry whose key nobody holds."""
    return f"receipt {id}: the audit tells of it, and neither it nor another one has its idempotency key."


def reversal(receipt: ReceiptRow, by: ReceiptRow | None) -> str | None:
    """Why the receipt cannot have been taken back by this one, which it names; None where it can."""
    if by is not None and by.state == "succeeded" and by.reverses == receipt.id:
        return None
    return f"receipt {receipt.id}: it is said to be taken back by another receipt, which did not do that."


def is_unmarked(row: ReceiptRow | None, record: r.Receipted) -> bool:
    """Whether an entry tells of taking back a success that was there before it, which does not show that."""
    if row is None or row.state != "succeeded" or row.reversed_by is not None:
        return False
    return row.closed_at is not None and row.closed_at <= record.started_at


def unmarked(receipt: ReceiptRow) -> str:
    """The problem of such a success."""
    return f"receipt {receipt.id}: the audit says that it was taken back, and it does not show that."


def blob_problem(receipt: ReceiptRow, data: bytes | None) -> str | None:
    """What is wrong with a result that is kept outside the receipt."""
    if data is not None and hashlib.sha256(data).digest() == receipt.result_blob:
        return None
    return f"receipt {receipt.id}: its result is {'missing from the store' if data is None else 'not what it was'}."


def _opening(receipt: ReceiptRow, record: r.Decided) -> list[str]:
    """What of a receipt is not what was allowed, in words."""
    return _differing(
        ("run", receipt.run, record.run),
        ("proposal", receipt.proposal.hex(), record.proposal),
        *_act(receipt, record),
        ("risk", receipt.risk, record.risk),
        ("actor", receipt.actor, record.actor),
    )


def _ending(receipt: ReceiptRow, record: r.Receipted) -> list[str]:
    """What of a receipt is not what the entry of its end says, in words."""
    # Only the end of an attempt closes it. Unknown outcomes are recorded again, and results used again, without that.
    closed_at = record.at if record.state in ("succeeded", "failed") else receipt.closed_at
    return _differing(
        ("state", receipt.state, "succeeded" if record.state == "reused" else record.state),
        ("idempotency key", receipt.key, record.key),
        ("attempt", receipt.attempt, record.attempt),
        *_act(receipt, record),
        ("arguments", r.of_bytes("arguments", receipt.request), record.request),
        ("result", _results(receipt), [] if record.response is None else [record.response.sha256]),
        ("error", receipt.error, record.error),
        ("reversing action", receipt.reverse, record.reverse),
        ("word on what it takes back", receipt.reverses, record.reverses),
        ("cost", receipt.cost, record.cost),
        ("time of opening", receipt.opened_at, record.started_at),
        ("time of closing", receipt.closed_at, closed_at),
        ("actor", receipt.actor, record.actor),
    )


def _act(receipt: ReceiptRow, record: r.Decided | r.Receipted) -> Iterator[tuple[str, object, object]]:
    """What is done to what, as the one and the other say it."""
    yield "action", receipt.action, record.action
    yield "connector", receipt.connector, record.connector
    yield "operation", receipt.operation, record.operation
    yield "target", receipt.target, record.target
    yield "word on whether it writes", receipt.writes, record.writes


def _results(receipt: ReceiptRow) -> list[str]:
    """The hashes of its results: it has one at most, in one of two places."""
    inside = [] if receipt.result is None else [hashlib.sha256(receipt.result).hexdigest()]
    return inside if receipt.result_blob is None else [*inside, receipt.result_blob.hex()]


def _has_outcome(receipt: ReceiptRow) -> bool:
    said = (receipt.result, receipt.result_blob, receipt.error, receipt.cost, receipt.closed_at)
    return any(each is not None for each in said) or receipt.abandoned


def _differing(*compared: tuple[str, object, object]) -> list[str]:
    return [word for word, one, other in compared if one != other]


def _nearer(before: list[str] | None, now: list[str]) -> list[str]:
    return now if before is None or len(now) < len(before) else before


def _differ(id: str, words: list[str]) -> str:
    return f"receipt {id} differs from what the audit says of it in its {', '.join(words)}."
