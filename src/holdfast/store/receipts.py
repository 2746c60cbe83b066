"""Receipts: an action's attempt and its outcome, as stores keep them."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from holdfast.store.values import Cursor

ReceiptState = Literal["pending", "succeeded", "failed", "unknown"]


class ReceiptRow(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """An action's attempt and its outcome. ``request`` and ``result`` are canonical CBOR, with secrets masked."""

    tenant: str
    key: str
    id: str
    run: str
    root: bytes
    position: int
    attempt: int
    token: str
    state: ReceiptState
    action: str
    connector: str
    operation: str
    target: str
    writes: bool
    risk: str
    proposal: bytes
    request: bytes
    opened_at: int
    actor: str | None = None
    reverse: str | None = None
    reverses: str | None = None
    reversed_by: str | None = None
    task: str | None = None
    result: bytes | None = None
    result_blob: bytes | None = None  # the digest of a result that is too large for the row
    error: str | None = None
    cost: dict[str, float | str] | None = None
    closed_at: int | None = None
    abandoned: bool = False  # its outcome is unknown and nobody waits for it: only another call may need it
    asked: str | None = None  # the task that asks for the outcome of one that is abandoned
    round: int = 1  # how often its key was used: each act that was taken back ends a round
    once: bool = False  # its key is used up with the first success, even if that is taken back

    @property
    def first_key(self) -> str:
        """The key of its key's first round."""
        return self.key if self.round == 1 else self.key.removesuffix(f"#{self.round}")

    @property
    def is_known(self) -> bool:
        """Whether its outcome is known."""
        return self.state in ("succeeded", "failed")

    @property
    def is_given_up(self) -> bool:
        """Whether its outcome is unknown, and a person has said that it stays so."""
        return self.state == "unknown" and self.abandoned and self.asked is None

    @property
    def cursor(self) -> Cursor:
        """Its place in a list, oldest first."""
        return Cursor(self.opened_at, self.tenant, self.id)


class TakenAct(NamedTuple):
    """A receipt that a run has taken to undo its act, and the name of the taking. See ``holding``."""

    name: str
    receipt: ReceiptRow
