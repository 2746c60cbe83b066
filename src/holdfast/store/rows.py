"""What a store tells when it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from holdfast.store.values import ENDED, Cursor, Key, Received, Segment, Standing, Status, Work

ASKS: Final = '"task":"'
"""What stands in ``Run.waiting`` where one of its waits is for a task: a quote inside a name is escaped there."""


class Run(msgspec.Struct, frozen=True, gc=False):
    """A run's row."""

    key: Key
    workflow: str
    root: bytes
    generation: int
    version: int
    head: bytes
    standing: Standing
    cancelling: bool
    pause: str | None
    priority: int
    attributes: dict[str, str]
    parent: str | None
    parent_position: int | None
    fingerprint: bytes
    owner: str | None
    epoch: int
    crashes: int
    ready_at: int | None
    wake_at: int | None
    waiting: str | None
    arrived: int
    consumed: int
    error: str | None
    created_at: int
    updated_at: int
    ended_at: int | None
    workspace: str = ""
    actor: str | None = None
    trigger_type: str | None = None
    trigger_ref: str | None = None
    begun_at: int | None = None  # when it was first leased: it has passed its tenant's caps
    governed: bool = False
    writes: int = 0
    evidence: bytes | None = None  # the sha256 of this generation's evidence

    @property
    def cursor(self) -> Cursor:
        """Its place in a list, newest first."""
        return Cursor(self.created_at, *self.key)

    @property
    def status(self) -> Status:
        """The one word shown to people."""
        if self.standing in ENDED:
            return self.standing
        if self.pause is not None:
            return "paused"
        return "cancelling" if self.cancelling else self.standing


class WorkerRow(msgspec.Struct, frozen=True, gc=False):
    """A registered worker."""

    id: str
    host: str
    pid: int
    workflows: tuple[str, ...]
    queues: tuple[str, ...]
    started_at: int
    expires_at: int


class ClaimedRuns(msgspec.Struct, frozen=True, gc=False):
    """What a claim gave: runs leased to this worker, and when the next timer is due."""

    runs: list[Run]
    next_wake_at: int | None


class ClaimedWork(msgspec.Struct, frozen=True, gc=False):
    """Work leased to this worker, and when the next free work of those queues becomes available."""

    work: list[Work]
    next_available_at: int | None


class Leased(msgspec.Struct, frozen=True, gc=False):
    """Everything leased to one worker."""

    runs: list[Run]
    work: list[Work]


class Loaded(msgspec.Struct, frozen=True, gc=False):
    """A run's journal with its blobs, and its inbox."""

    segments: list[Segment]
    blobs: dict[bytes, bytes]
    messages: list[Received]


class Query(msgspec.Struct, frozen=True, gc=False):
    """Which runs to list: all conditions hold. Newest first."""

    tenant: str | None = None
    status: Status | None = None
    workflow: str | None = None
    attributes: Mapping[str, str] = {}
    parent: str | None = None
    created_after: int | None = None
    created_before: int | None = None
    ended_after: int | None = None
    ended_before: int | None = None
    workspace: str | None = None
    actor: str | None = None
    standings: tuple[Standing, ...] = ()  # one of these; all where it is empty
    parked: bool | None = None  # whether the engine put it aside; a pause that a person asked for is none
    asks: bool | None = None  # whether it waits for a person's answer


class RunCount(msgspec.Struct, frozen=True, gc=False):
    """How many runs of a tenant have a status."""

    tenant: str
    status: Status
    count: int


class Declined(msgspec.Struct, frozen=True, gc=False):
    """A worker that has given a run back because its code does not fit the journal."""

    worker: str
    at: int
    reason: str


class Progress(msgspec.Struct, frozen=True, gc=False):
    """What a long step last said."""

    position: int
    details: bytes
    at: int


class Facts(msgspec.Struct, frozen=True, gc=False):
    """The store as ``holdfast doctor`` shows it."""

    kind: str
    version: str
    schema: int
    runs: dict[str, int]
    inbox: int
    work: int
    blobs: int
    size_bytes: int | None
