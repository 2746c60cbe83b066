"""The store's protocol: changes that are applied or refused each on its own, and the questions that can be asked.

The laws every store keeps, judged by ``holdfast.testing.stores``:

- ``commit`` applies a batch of changes in one transaction and answers each. A refused change never harms its neighbours.
- An ``Advance`` is applied only at the expected version, generation and lease epoch; else it is ``Fenced``. Committed
  again after an unknown outcome it is recognised by its head hash and answered ``Advanced``; a ``Start`` that leases its
  run to a worker likewise, and answered ``Started``.
- What comes ``also`` with a change is applied if and only if the change is.
- Messages to a run take positions 1, 2, 3, … in its inbox, in commit order.
- A lease belongs to a worker. It ends when it is released, or when the worker is known to be dead or has not been heard
  of for its time to live; taking it over raises the run's epoch, which fences the last holder out.
- Times are microseconds since 1970. ``now`` is given by the caller, except for the life of workers: that is the store's own.

Every operation raises StoreUnavailable where the store does not answer, and OperatorError where a person must act.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol

import msgspec

Status = Literal["queued", "running", "waiting", "paused", "cancelling", "completed", "failed", "cancelled"]
Standing = Literal["queued", "running", "waiting", "completed", "failed", "cancelled"]
"""What a run's row says of its journal; pausing and cancelling are shown over it."""

ENDED: Final = frozenset({"completed", "failed", "cancelled"})


Blobs = Mapping[bytes, bytes]
"""Large payloads by the digest of their bytes."""


class Key(NamedTuple):
    """A run, by its owner and its id. Tenant leads every key."""

    tenant: str
    run: str


class Segment(msgspec.Struct, frozen=True):
    """A stretch of journal: the encoded events of one turn and the hash that chains them to all before."""

    first: int
    count: int
    events: bytes
    head: bytes
    at: int


class Message(msgspec.Struct, frozen=True):
    """Something for a run's inbox. With an ``id``, a second one of that id is recognised as a repetition."""

    kind: str
    body: bytes
    at: int
    id: str | None = None


class Received(NamedTuple):
    """A message with its place in the inbox."""

    position: int
    message: Message


class Work(msgspec.Struct, frozen=True):
    """An attempt of a queued step, to be leased by any worker that serves the queue."""

    key: Key
    position: int
    queue: str
    name: str
    attempt: int
    body: bytes
    priority: int = 0
    available_at: int = 0
    epoch: int = 1  # the number from which its leases are counted; each lease raises it


class Projection(msgspec.Struct, frozen=True):
    """What a run's row shows of its journal after a change."""

    standing: Standing
    wake_at: int | None = None
    waiting: str | None = None
    cancelling: bool = False
    error: str | None = None
    pause: str | None = None


# -- changes -----------------------------------------------------------------------------------------------------------


class Start(msgspec.Struct, frozen=True):
    """Create a run with its first segment. With ``owner`` it is leased to that worker from the start; without one, it is
    ready for any worker if it is ``queued``.

    Answered ``Started``, or ``Exists`` where the id is taken, with what is needed to tell whether it is the same start.
    """

    key: Key
    workflow: str
    fingerprint: bytes
    root: bytes
    segment: Segment
    projection: Projection
    parent: str | None = None
    parent_position: int | None = None
    priority: int = 0
    attributes: Mapping[str, str] = {}
    blobs: Blobs = {}
    owner: str | None = None
    also: tuple[Also, ...] = ()


class Advance(msgspec.Struct, frozen=True):
    """Append one turn to a run that this worker leases. Answered ``Advanced`` or ``Fenced``.

    ``consumed`` is the inbox position up to which messages were taken into this turn; they are deleted. With ``release``
    the lease is given up, unless more messages have arrived meanwhile and the run is not paused. An ended run is always released, and its inbox,
    work and heartbeats are deleted.
    """

    key: Key
    generation: int
    epoch: int
    version: int
    segment: Segment | None
    projection: Projection
    consumed: int
    release: bool
    blobs: Blobs = {}
    also: tuple[Also, ...] = ()
    renewal: Renewal | None = None


class Renewal(msgspec.Struct, frozen=True):
    """The first segment of a run's next generation: the same run with a fresh journal."""

    root: bytes
    segment: Segment
    blobs: Blobs = {}


class Renew(msgspec.Struct, frozen=True):
    """Begin the next generation of a run that has ended, and make it ready. Answered ``Renewed`` or ``Fenced``."""

    key: Key
    generation: int
    renewal: Renewal
    projection: Projection
    at: int


class Deliver(msgspec.Struct, frozen=True):
    """Put a message into a run's inbox and make the run ready. Answered ``Delivered``, ``Repeated``, ``Unknown`` or ``Gone``."""

    key: Key
    message: Message


class Enqueue(msgspec.Struct, frozen=True):
    """Offer work to a queue. The same attempt offered again changes nothing, even when it is done; a later attempt
    takes its place. Answered ``Enqueued``."""

    work: Work


class Withdraw(msgspec.Struct, frozen=True):
    """Delete work, leased, done or free. Answered ``Withdrawn``."""

    key: Key
    position: int


class FinishWork(msgspec.Struct, frozen=True):
    """Mark leased work done and tell its run. Answered ``Delivered``, or ``Fenced`` where the lease was lost.

    The work stays, done, until its run withdraws it: so a worker that takes the run over between the two and offers the
    work again cannot have it done twice.
    """

    key: Key
    position: int
    epoch: int
    message: Message


class Beat(msgspec.Struct, frozen=True):
    """Keep what a long step last said of its progress. Answered ``Enqueued``."""

    key: Key
    position: int
    details: bytes
    at: int


Also = Start | Deliver | Enqueue | Withdraw
Change = Start | Advance | Renew | Deliver | Enqueue | Withdraw | FinishWork | Beat


# -- answers -----------------------------------------------------------------------------------------------------------


class Started(msgspec.Struct, frozen=True):
    epoch: int
    also: tuple[Answer, ...] = ()


class Exists(msgspec.Struct, frozen=True):
    """The id is taken."""

    workflow: str
    fingerprint: bytes


class Advanced(msgspec.Struct, frozen=True):
    """Applied. ``arrived`` is the inbox's last position, ``pause`` the reason why the run must not go on, if any."""

    arrived: int
    pause: str | None
    released: bool
    also: tuple[Answer, ...] = ()


class Fenced(msgspec.Struct, frozen=True):
    """Refused: the lease was lost, or someone else has changed it since."""


class Renewed(msgspec.Struct, frozen=True):
    generation: int


class Delivered(msgspec.Struct, frozen=True):
    position: int


class Repeated(msgspec.Struct, frozen=True):
    """A message of that id was delivered before."""


class Unknown(msgspec.Struct, frozen=True):
    """There is no such run."""


class Gone(msgspec.Struct, frozen=True):
    """The run has ended."""


class Enqueued(msgspec.Struct, frozen=True):
    pass


class Withdrawn(msgspec.Struct, frozen=True):
    pass


Answer = Started | Exists | Advanced | Fenced | Renewed | Delivered | Repeated | Unknown | Gone | Enqueued | Withdrawn


# -- rows --------------------------------------------------------------------------------------------------------------


class Run(msgspec.Struct, frozen=True):
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

    @property
    def status(self) -> Status:
        """The one word shown to people."""
        if self.standing in ENDED:
            return self.standing
        if self.pause is not None:
            return "paused"
        return "cancelling" if self.cancelling else self.standing


class Worker(msgspec.Struct, frozen=True):
    """A registered worker."""

    id: str
    host: str
    pid: int
    workflows: tuple[str, ...]
    queues: tuple[str, ...]
    started_at: int
    expires_at: int


class Claim(msgspec.Struct, frozen=True):
    """What a claim gave: runs leased to this worker, and when the next timer is due."""

    runs: list[Run]
    next_wake_at: int | None


class WorkClaim(msgspec.Struct, frozen=True):
    """Work leased to this worker, and when the next free work of those queues becomes available."""

    work: list[Work]
    next_available_at: int | None


class Leased(msgspec.Struct, frozen=True):
    """Everything leased to one worker."""

    runs: list[Run]
    work: list[Work]


class Loaded(msgspec.Struct, frozen=True):
    """A run's journal with its blobs, and its inbox."""

    segments: list[Segment]
    blobs: dict[bytes, bytes]
    messages: list[Received]


class Query(msgspec.Struct, frozen=True):
    """Which runs to list: all conditions hold. Newest first."""

    tenant: str | None = None
    status: Status | None = None
    workflow: str | None = None
    attributes: Mapping[str, str] = {}
    parent: str | None = None
    created_after: int | None = None
    created_before: int | None = None


class Progress(msgspec.Struct, frozen=True):
    """What a long step last said."""

    position: int
    details: bytes
    at: int


class Facts(msgspec.Struct, frozen=True):
    """The store as ``holdfast doctor`` shows it."""

    kind: str
    version: str
    schema: int
    runs: dict[str, int]
    inbox: int
    work: int
    blobs: int
    size_bytes: int | None


class Store(Protocol):
    """Where runs live."""

    async def open(self, *, migrate: bool = True) -> None:
        """Connect, and bring the schema up to date under a lock. Raises SchemaTooNew, StoreReadOnly, StoreCorrupt."""
        ...

    def twin(self) -> Store:
        """Another handle on the same store, not opened yet, for use on another event loop."""
        ...

    async def close(self) -> None:
        """Let go of everything. Safe to call twice, and before open."""
        ...

    async def commit(self, batch: Sequence[Change]) -> list[Answer]:
        """Apply the changes in order, in one transaction, and answer each."""
        ...

    # -- leases

    async def register(self, worker: Worker, ttl_seconds: float) -> None:
        """Make a worker known, alive for ``ttl_seconds``."""
        ...

    async def beat(self, worker: str, ttl_seconds: float) -> bool:
        """Prolong a worker's life. False where it is not known any more: all of its leases are lost."""
        ...

    async def unregister(self, worker: str, now: int) -> None:
        """Forget a worker and hand back all that it leases. Nothing is counted against the runs."""
        ...

    async def rescue(self, now: int) -> list[str]:
        """Forget workers that are known dead or have expired, take their leases back, and name the workers.

        Leases of workers that are not registered are taken back too: one may have claimed after it was forgotten.
        """
        ...

    async def claim(self, worker: str, workflows: Sequence[str], limit: int, now: int) -> Claim:
        """Wake the runs whose timers are due, then lease ready runs: highest priority first, then oldest."""
        ...

    async def claim_work(self, worker: str, wanted: Mapping[str, int], now: int) -> WorkClaim:
        """Lease free work that is available, at most so many per queue: highest priority first, then oldest."""
        ...

    async def leased(self, worker: str) -> Leased:
        """Everything leased to this worker: what it must ask when a claim's answer was lost."""
        ...

    async def arrivals(self, worker: str) -> list[Run]:
        """The runs leased to this worker that have messages not consumed, or were paused."""
        ...

    # -- reading

    async def get(self, keys: Sequence[Key]) -> list[Run]:
        """The rows of those runs that exist."""
        ...

    async def load(self, keys: Sequence[Key]) -> dict[Key, Loaded]:
        """The whole journals (of the present generation) and inboxes of those runs."""
        ...

    async def messages(self, keys: Sequence[Key]) -> dict[Key, list[Received]]:
        """The inboxes alone."""
        ...

    async def segments(self, key: Key, generation: int, first: int, limit: int) -> list[Segment]:
        """Up to ``limit`` segments of a generation that hold sequences from ``first`` on."""
        ...

    async def blob(self, tenant: str, digest: bytes) -> bytes | None:
        """A blob's bytes."""
        ...

    async def find(self, query: Query, limit: int, after: Run | None = None) -> list[Run]:
        """A page of runs, newest first, beginning behind ``after``."""
        ...

    async def work_of(self, key: Key) -> list[tuple[Work, str | None]]:
        """A run's queued work that is not done, and which worker leases each."""
        ...

    async def progress_of(self, key: Key) -> list[Progress]:
        """What a run's long steps last said."""
        ...

    async def workers(self) -> list[Worker]:
        """The registered workers."""
        ...

    async def facts(self) -> Facts:
        """Counts and sizes."""
        ...

    # -- operating

    async def pause(self, key: Key, reason: str, now: int) -> bool:
        """Keep a run from going on. False where there is no such run or it has ended."""
        ...

    async def unpause(self, key: Key, now: int) -> bool:
        """Let a run go on, from now."""
        ...

    async def prune(self, ended_before: int, limit: int) -> int:
        """Delete up to ``limit`` runs that ended before then, with all that belongs to them; gives how many."""
        ...

    def watch(self, hint: Callable[[], None]) -> Callable[[], None]:
        """Call ``hint`` whenever another process may have changed something; gives a function that ends the watch.

        A hint may come late, twice, for nothing, or not at all: it only saves waiting.
        """
        ...
