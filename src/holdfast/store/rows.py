"""What a store tells when it is asked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from holdfast.store.values import ENDED, FUNCTION, Cursor, Key, Received, Segment, Serves, Standing, Status, Work

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
    program_kind: str = FUNCTION
    code_digest: bytes | None = None  # of its program's code, where the store keeps that

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
    kinds: tuple[str, ...] = ()

    @property
    def serves(self) -> Serves:
        return Serves(self.workflows, self.kinds)


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


class CheckpointRow(msgspec.Struct, frozen=True, gc=False):
    """A run's last checkpoint, and where its journal stood: the version, and the hash of the segment before it."""

    version: int
    head: bytes
    data: bytes


class Loaded(msgspec.Struct, frozen=True, gc=False):
    """A run's journal with the blobs that it names, and its inbox.

    With a ``checkpoint`` only the segments behind it are there, and no blobs: who needs some asks for these.
    """

    segments: list[Segment]
    blobs: dict[bytes, bytes]
    messages: list[Received]
    checkpoint: CheckpointRow | None = None


def named_in(segments: Sequence[Segment], digests: Iterable[bytes]) -> list[bytes]:
    """Those of a run's blobs that these segments name. What other generations and cut-off parts name is not read.

    Events are CBOR, in which a digest is a byte string. One pass finds all of a length, however many there are.
    """
    wanted = list(digests)
    named: set[bytes] = set()
    for length in {len(digest) for digest in wanted}:
        head = bytes([0x40 + length]) if length < 24 else bytes([0x58, length])
        strings = re.compile(re.escape(head) + rb"(?=(.{%d}))" % length, re.DOTALL)
        named |= {match[1] for segment in segments for match in strings.finditer(segment.events)}
    return [digest for digest in wanted if digest in named]


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
