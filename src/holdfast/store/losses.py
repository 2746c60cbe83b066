"""Acknowledged changes that a failover has lost: what is kept of each, so that it can be done again.

A process that remembers what was acknowledged to it compares that with a new primary, see ``postgres.acknowledged``.
What is missing becomes items of the new primary, for whoever looks there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from holdfast.store.changes import Start
from holdfast.store.items import ItemRow
from holdfast.store.values import Deliver, Key, Message, Origin

LOST: Final = "lost"
"""The kind of these items, and their status until they were done again."""

REPEATED: Final = "repeated"

LARGEST_BYTES: Final = 4096
"""A larger start or message is only named, and not kept: thousands of them are remembered."""

LossKind = Literal["start", "signal", "event", "answer"]


class LostStart(msgspec.Struct, frozen=True, gc=False, tag="start"):
    """A start, with the first segment of its journal."""

    workflow: str
    fingerprint: bytes
    root: bytes
    events: bytes
    priority: int
    attributes: Mapping[str, str]
    origin: Origin
    program_kind: str
    code_digest: bytes | None
    trigger_key: bytes | None


class LostMessage(msgspec.Struct, frozen=True, gc=False, tag="message"):
    """A message to a run."""

    message: Message
    place: int | None


class Loss(msgspec.Struct, frozen=True, gc=False):
    """One lost change. ``id`` is that of the signal, event or task; a start has none but its run's. ``again`` is the
    change itself, where it is known and can be repeated."""

    tenant: str
    kind: LossKind
    run: str
    id: str | None
    acknowledged_at: int
    by: str = ""
    noticed_at: int = 0
    again: LostStart | LostMessage | None = None

    @property
    def key(self) -> Key:
        return Key(self.tenant, self.run)

    @property
    def machine(self) -> str | None:
        """The machine whose lane the run is."""
        return self.run.rpartition(":")[0].rpartition("lane:")[2] if self.kind == "event" else None

    @property
    def given_id(self) -> str | None:
        """The id as its sender gave it. That of an event names its machine besides."""
        if self.kind != "event" or self.id is None:
            return self.id
        return self.id.removeprefix("event:").removesuffix(f":{self.machine}")

    @property
    def place(self) -> str:
        """It in words: ``start order-1``, ``event e-7 to machine orders``."""
        if self.kind == "start":
            return f"start {self.run}"
        to = f"machine {self.machine}" if self.kind == "event" else f"run {self.run}"
        return f"{self.kind} {self.given_id} to {to}" if self.id is not None else f"{self.kind} to {to}"

    def item(self) -> ItemRow:
        """The item that is kept of it."""
        body = msgspec.json.encode(self)
        return ItemRow(self.tenant, LOST, loss_id(self.kind, self.run, self.id), 1, body, LOST, None, self.noticed_at)


def loss_id(kind: LossKind, run: str, id: str | None = None) -> str:
    """The id of a lost change's item: two processes that report one change make one item."""
    return f"{kind} {run}" if id is None else f"{kind} {run} {id}"


def loss_of(item: ItemRow) -> Loss:
    return msgspec.json.decode(item.body, type=Loss)


def lost_start(change: Start, at: int) -> Loss:
    again = None
    if len(change.segment.events) <= LARGEST_BYTES and not change.blobs:
        again = LostStart(
            change.workflow,
            change.fingerprint,
            change.root,
            change.segment.events,
            change.priority,
            change.attributes,
            change.origin,
            change.program_kind,
            change.code_digest,
            change.trigger_key,
        )
    return Loss(change.key.tenant, "start", change.key.run, None, at, again=again)


def lost_message(change: Deliver, at: int) -> Loss:
    message = change.message
    again = (
        LostMessage(message, change.place) if message.id is not None and len(message.body) <= LARGEST_BYTES else None
    )
    kind: LossKind = "signal" if change.place is None else "event"
    return Loss(change.key.tenant, kind, change.key.run, message.id, at, again=again)
