"""The rows that a store gives to its readers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from holdfast.store.values import ENDED, FUNCTION, Cursor, Key, Received, Segment, Serves, Standing, Status, Work

CLOCKS_APART: Final = 3_600_000_000

ASKS: Final = '"task":"'
"""The text in ``Run.waiting`` that shows a wait for a task. A name cannot contain it: quotes are escaped there."""


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
    reference: str | None = None  # what the business calls it
    split: str | None = None  # its mark: see ``splits``

    @property
    def cursor(self) -> Cursor:
        """Its place in a list, newest first."""
        return Cursor(self.created_at, *self.key)

    @property
    def status(self) -> Status:
        """The status that people see."""
        if self.standing in ENDED:
            return self.standing
        if self.pause is not None:
            return "paused"
        return "cancelling" if self.cancelling else self.standing


def story_id(run: Run) -> str:
    """The id of the audit's entry that must be there before an instance of a template is deleted.

    It names the time when the run was made, too: an id may be used again once its run is deleted.
    """
    return f"story:{run.created_at}:{run.generation}:{run.key.run}"


class UnavailableDefinition(msgspec.Struct, frozen=True, gc=False):
    """A definition that a process was given and could not accept. Name and version are as far as they could be read."""

    name: str
    version: int | None
    problem: str

    def __str__(self) -> str:
        called = self.name if self.version is None else f"{self.name}@{self.version}"
        return f"{called}: {self.problem}" if called else self.problem


class WorkerRow(msgspec.Struct, frozen=True, gc=False):
    """A registered worker. ``clock_ahead`` is by how much its clock is off the store's; 0 where it is not by much."""

    id: str
    host: str
    pid: int
    workflows: tuple[str, ...]
    queues: tuple[str, ...]
    started_at: int
    expires_at: int
    kinds: tuple[str, ...] = ()
    clock_ahead: int = 0
    unavailable: tuple[UnavailableDefinition, ...] = ()

    @property
    def serves(self) -> Serves:
        return Serves(self.workflows, self.kinds)


class ClaimedRuns(msgspec.Struct, frozen=True, gc=False):
    """The result of a claim: runs leased to this worker, and when the next timer is due.

    ``limited`` is whether any cap or weight held for it.
    """

    runs: list[Run]
    next_wake_at: int | None
    limited: bool = False


class ClaimedWork(msgspec.Struct, frozen=True, gc=False):
    """Work leased to this worker, and when the next free work of those queues becomes available."""

    work: list[Work]
    next_available_at: int | None


class Leased(msgspec.Struct, frozen=True, gc=False):
    """Everything leased to one worker."""

    runs: list[Run]
    work: list[Work]


class CheckpointRow(msgspec.Struct, frozen=True, gc=False):
    """A run's last checkpoint, with the journal's version and head hash at that point."""

    version: int
    head: bytes
    data: bytes


class Loaded(msgspec.Struct, frozen=True, gc=False):
    """A run's journal and its inbox. With a ``checkpoint`` only the segments behind it are there.

    A store gives no ``blobs``: the reader of the events knows which it needs, and asks for these.
    """

    segments: list[Segment]
    blobs: dict[bytes, bytes]
    messages: list[Received]
    checkpoint: CheckpointRow | None = None


class Query(msgspec.Struct, frozen=True, gc=False):
    """The conditions of a list of runs, newest first. All must hold."""

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
    parked: bool | None = None  # whether the engine parked it; a pause by a person does not count
    pause: str | None = None  # how the reason of its pause begins
    asks: bool | None = None  # whether it waits for a person's answer
    reference: str | None = None
    program_kind: str | None = None
    other_kind_than: str | None = None  # not of this kind of programs
    cancelled: bool | None = None  # whether it was cancelled, or its cancellation was requested


def latest_start(ended_before: int) -> int:
    """When a run that ended before this time was started at the latest: so a list need not look at newer ones.

    The two times are of different clocks, perhaps. They are taken to be less than an hour apart.
    """
    return ended_before + CLOCKS_APART


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


class StepProgress(msgspec.Struct, frozen=True, gc=False):
    """The last progress report of a long step."""

    position: int
    details: bytes
    at: int


class QueueLoad(msgspec.Struct, frozen=True, gc=False):
    """The attempts of a queue that are not done: those that wait for a worker, and those that one has leased."""

    queue: str
    waiting: int
    leased: int
    oldest_at: int | None  # since when the oldest of those that wait could be leased


class Workload(msgspec.Struct, frozen=True, gc=False):
    """What waits for workers, and what they have."""

    ready: int  # runs that could move, and that no worker has leased
    oldest_ready_at: int | None
    timer_at: int | None  # the earliest timer of a run that no worker has leased
    leases: dict[str, int]  # runs by the worker that has leased them
    queues: tuple[QueueLoad, ...]
    size_bytes: int | None  # of the whole store


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
