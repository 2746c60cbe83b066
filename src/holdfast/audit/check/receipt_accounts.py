"""The rules by which the store's receipts and the audit's entries must agree.

A receipt is used to give a recorded success instead of acting again, and to reverse an act. But a receipt is a row, and
only the entries are sealed. So the two are compared:

- A decision allowed the receipt's call: in its run, at its position, for its proposal, when the receipt was opened.
- A receipt that is not pending is in an entry, with every field. For an unknown outcome the last entry counts.
- Where an entry records a success, the receipt is there and succeeded. Where an entry records the end of an attempt,
  that attempt is not pending.
- Each key in an entry has a receipt: the one that the entry names, or that of a later attempt or of another call.
- A reversed receipt and the receipt of the act that reversed it name each other. Of one whose act was undone, an entry
  records the undo that it names, and each undo that an entry records is named by its receipt.

An entry belongs to the run whose call learned the outcome, which may be another than the receipt's. Some fields are in
no entry: the token of an attempt, the time at which an unknown outcome was closed, and, while a receipt is pending, its
key and arguments.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator

from holdfast.audit import records as r
from holdfast.journal.promise import PromiseId
from holdfast.store.receipts import ReceiptRow
from holdfast.tasks.answers import HAPPENED


class Account:
    """One receipt, and how much of it the entries confirm that were taken in so far."""

    __slots__ = ("_ended", "_fits", "_opened", "_vouched", "receipt")

    def __init__(self, receipt: ReceiptRow) -> None:
        self.receipt = receipt
        self._opened: list[str] | None = None  # the fields that differ from the nearest decision
        self._ended: list[str] | None = None  # the fields that differ from the nearest entry of its end
        self._fits = False  # a decision allowed it by its task
        self._vouched = False  # a person answered its task with "happened"

    def take(self, record: r.Record) -> None:
        """Take in an entry that may be about it."""
        receipt = self.receipt
        match record:
            case r.Decided(effect="allow"):
                self._opened = _nearer(self._opened, _opening(receipt, record))
                self._fits = self._fits or record.task == receipt.task
            case r.Asked(verdict=verdict):
                self._vouched = self._vouched or verdict == HAPPENED
            case r.Receipted(state=state) if state != "reused":
                self._ended = _nearer(self._ended, _ending(receipt, record))

    @property
    def problem(self) -> str | None:
        """What the audit does not confirm of the receipt, in a sentence; None where it confirms all of it."""
        receipt = self.receipt
        if receipt.state != "pending":
            if self._ended is None:
                return f"receipt {receipt.id}: it is {receipt.state}, and the audit has no entry of it."
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
    """Some receipts, which take in the audit together."""

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
        """The accounts that are not wholly confirmed."""
        return [account for account in self._all if account.problem is not None]


def contradiction(record: r.Receipted, row: ReceiptRow | None) -> str | None:
    """Why the stored receipt with an entry's id cannot be the one that the entry records; None where it can be.

    A receipt that failed, or whose outcome was unknown, may have been replaced by another attempt since.
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
    """Whether the stored receipt with the entry's id has the entry's key."""
    return row is not None and row.key == record.key


def lost_key(id: str) -> str:
    """The problem of an entry whose key no receipt has."""
    return f"receipt {id}: the audit has an entry of it, and neither it nor another one has its idempotency key."


def reversal(receipt: ReceiptRow, by: ReceiptRow) -> str | None:
    """Why the receipt cannot have been reversed by this one, which it names; None where it can."""
    if by.state == "succeeded" and by.reverses == receipt.id:
        return None
    return f"receipt {receipt.id}: it names another receipt as the one that reversed it, and that one did not."


def undo_of(record: r.Record) -> tuple[str, str] | None:
    """The receipt whose act was undone, and the name of the undo; None for an entry that records no such thing."""
    if not isinstance(record, r.Operated) or record.act != r.UNDO or record.reason != r.UNDONE:
        return None
    return record.details.get("receipt", ""), record.details.get("undo", "")


def not_undone(id: str) -> str:
    """The problem of a receipt that names an undo which no entry records."""
    return f"receipt {id}: it says that its act was undone, and the audit has no entry of that."


def is_unmarked(row: ReceiptRow | None, record: r.Receipted) -> bool:
    """Whether an entry records that it reversed this earlier success, and the success is not marked as reversed."""
    if row is None or row.state != "succeeded" or row.reversed_by is not None:
        return False
    return row.closed_at is not None and row.closed_at <= record.started_at


def unmarked(receipt: ReceiptRow) -> str:
    """The problem of a reversed success that is not marked as reversed."""
    return f"receipt {receipt.id}: the audit says that it was reversed, and it is not marked as reversed."


def blob_problem(receipt: ReceiptRow, data: bytes | None) -> str | None:
    """The problem of a result that is stored outside the receipt; None where there is none."""
    if data is not None and hashlib.sha256(data).digest() == receipt.result_blob:
        return None
    return f"receipt {receipt.id}: its result {'is missing from the store' if data is None else 'was altered'}."


def _opening(receipt: ReceiptRow, record: r.Decided) -> list[str]:
    """The fields in which a receipt differs from what was allowed, in words."""
    return _differing(
        ("run", receipt.run, record.run),
        ("proposal", receipt.proposal.hex(), record.proposal),
        *_act(receipt, record),
        ("risk", receipt.risk, record.risk),
        ("actor", receipt.actor, record.actor),
    )


def _ending(receipt: ReceiptRow, record: r.Receipted) -> list[str]:
    """The fields in which a receipt differs from the entry of its end, in words."""
    # Only the end of an attempt closes the receipt. Entries of unknown outcomes and reused results do not.
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
        ("reversed receipt", receipt.reverses, record.reverses),
        ("cost", receipt.cost, record.cost),
        ("time of opening", receipt.opened_at, record.started_at),
        ("time of closing", receipt.closed_at, closed_at),
        ("actor", receipt.actor, record.actor),
        ("mark that its key counts once", receipt.once, record.once),
    )


def _act(receipt: ReceiptRow, record: r.Decided | r.Receipted) -> Iterator[tuple[str, object, object]]:
    """What is done to which target, in the receipt and in the entry."""
    yield "action", receipt.action, record.action
    yield "connector", receipt.connector, record.connector
    yield "operation", receipt.operation, record.operation
    yield "target", receipt.target, record.target
    yield "mark as writing", receipt.writes, record.writes


def _results(receipt: ReceiptRow) -> list[str]:
    """The hashes of its results. It has at most one result, in one of two places."""
    inside = [] if receipt.result is None else [hashlib.sha256(receipt.result).hexdigest()]
    return inside if receipt.result_blob is None else [*inside, receipt.result_blob.hex()]


def _has_outcome(receipt: ReceiptRow) -> bool:
    outcome = (receipt.result, receipt.result_blob, receipt.error, receipt.cost, receipt.closed_at)
    return any(each is not None for each in outcome) or receipt.abandoned


def _differing(*compared: tuple[str, object, object]) -> list[str]:
    return [field for field, one, other in compared if one != other]


def _nearer(before: list[str] | None, now: list[str]) -> list[str]:
    return now if before is None or len(now) < len(before) else before


def _differ(id: str, fields: list[str]) -> str:
    return f"receipt {id} differs from what the audit says of it in its {', '.join(fields)}."
