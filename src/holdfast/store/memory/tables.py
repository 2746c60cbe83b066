"""What a memory store holds: the tables of the other stores as dictionaries of immutable rows.

Rows are frozen and replaced, never changed, so a row that was given out stays as it was. Every write of a run goes
through ``put``, which keeps the two indexes that claiming reads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from holdfast.store.protocol import (
    EVIDENCE,
    AuditEntry,
    Block,
    ChainEnd,
    CheckpointRow,
    Code,
    Declined,
    File,
    Key,
    Message,
    Progress,
    ReceiptRow,
    Run,
    Segment,
    SigningKey,
    TaskRow,
    Work,
    WorkerRow,
)


class Offer(NamedTuple):
    """Queued work, who leases it, and whether this attempt is over and its run has not taken that in yet."""

    work: Work
    owner: str | None
    done: bool = False


class Watcher(NamedTuple):
    """A hint, and the loop it is to be called on; without one it is called at once."""

    hint: Callable[[], None]
    loop: asyncio.AbstractEventLoop | None


class Holder(NamedTuple):
    """Who keeps blobs: a run or a receipt, by its id."""

    tenant: str
    kind: Literal["run", "receipt"]
    id: str


@dataclass
class Tables:
    """All data of one store, shared by its handles. ``lock`` is held for one operation, never over an await."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    runs: dict[Key, Run] = field(default_factory=dict)
    segments: dict[Key, dict[int, list[Segment]]] = field(default_factory=dict)
    checkpoints: dict[Key, CheckpointRow] = field(default_factory=dict)
    write_counts: dict[Key, int] = field(default_factory=dict)
    inbox: dict[Key, dict[int, Message]] = field(default_factory=dict)
    deliveries: dict[Key, dict[str, int]] = field(default_factory=dict)
    work: dict[Key, dict[int, Offer]] = field(default_factory=dict)
    progress: dict[Key, dict[int, Progress]] = field(default_factory=dict)
    blobs: dict[tuple[str, bytes], bytes] = field(default_factory=dict)
    blob_users: dict[tuple[str, bytes], set[Holder]] = field(default_factory=dict)
    blob_uses: dict[Holder, set[bytes]] = field(default_factory=dict)
    code: dict[tuple[str, bytes], Code] = field(default_factory=dict)
    workers: dict[str, WorkerRow] = field(default_factory=dict)
    receipts: dict[tuple[str, str], ReceiptRow] = field(default_factory=dict)  # by tenant and idempotency key
    tasks: dict[tuple[str, str], TaskRow] = field(default_factory=dict)  # by tenant and id
    audit: list[AuditEntry] = field(default_factory=list)  # the entry of sequence n stands at n - 1
    noted: set[tuple[str, str]] = field(default_factory=set)  # the entries that have an id, by tenant and id
    blocks: dict[str, list[Block]] = field(default_factory=dict)
    signing_keys: dict[int, SigningKey] = field(default_factory=dict)
    chain_ends: dict[int, list[ChainEnd]] = field(default_factory=dict)  # by the number of the key they came with
    files: dict[Key, dict[tuple[int, str], File]] = field(default_factory=dict)
    retired: set[Key] = field(default_factory=set)  # ids under which evidence is kept, and those of their parents
    declined: dict[Key, dict[str, tuple[int, Declined]]] = field(default_factory=dict)  # by worker, with the generation
    ready: dict[Key, None] = field(default_factory=dict)
    sleeping: dict[Key, None] = field(default_factory=dict)
    watchers: dict[int, Watcher] = field(default_factory=dict)

    def put(self, run: Run) -> None:
        """Write a run's row. ``ready`` and ``sleeping`` are the runs that nobody leases and that want a worker."""
        self.runs[run.key] = run
        free = run.owner is None and run.ended_at is None
        _mark(self.ready, run.key, free and run.ready_at is not None)
        _mark(self.sleeping, run.key, free and run.wake_at is not None)

    def owned_by(self, worker: str) -> list[Run]:
        return [run for run in self.runs.values() if run.owner == worker]

    def offers(self) -> Iterator[Offer]:
        """All work that is not done."""
        return (offer for offers in self.work.values() for offer in offers.values() if not offer.done)

    def offer(self, work: Work, owner: str | None, *, done: bool = False) -> None:
        self.work.setdefault(work.key, {})[work.position] = Offer(work, owner, done)

    def use_blob(self, holder: Holder, digest: bytes, data: bytes) -> None:
        """Keep a blob under its digest for as long as somebody uses it."""
        self.blobs.setdefault((holder.tenant, digest), data)
        self.blob_users.setdefault((holder.tenant, digest), set()).add(holder)
        self.blob_uses.setdefault(holder, set()).add(digest)

    def keep(self, file: File) -> None:
        """Keep a file. A child's id is its parent's, a ~ and more: evidence of it retires its parents, too."""
        kept = file.about
        self.files.setdefault(kept.key, {})[kept.generation, kept.name] = file
        if kept.name == EVIDENCE:
            names = kept.key.run.split("~")
            self.retired.update(Key(kept.key.tenant, "~".join(names[:end])) for end in range(1, len(names) + 1))

    def clear(self, key: Key) -> None:
        """Delete what only a run that goes on needs: its inbox, work and progress."""
        for table in (self.inbox, self.work, self.progress):
            table.pop(key, None)

    def forget(self, key: Key) -> None:
        """Delete a run with all that belongs to it, and the blobs that no other run uses. What the gate keeps stays."""
        self.clear(key)
        holder = Holder(key.tenant, "run", key.run)
        for digest in self.blob_uses.pop(holder, set()):
            users = self.blob_users[key.tenant, digest]
            users.discard(holder)
            if not users:
                del self.blob_users[key.tenant, digest], self.blobs[key.tenant, digest]
        for table in (self.segments, self.checkpoints, self.deliveries, self.ready, self.sleeping, self.write_counts):
            table.pop(key, None)
        del self.runs[key]

    def hint(self) -> None:
        """Tell every watcher that something has changed. A loop closed with its watch on is passed over."""
        try:
            here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        for watcher in list(self.watchers.values()):
            if watcher.loop is None:
                watcher.hint()
            elif watcher.loop is here:
                here.call_soon(watcher.hint)
            elif not watcher.loop.is_closed():
                watcher.loop.call_soon_threadsafe(watcher.hint)


def _mark(index: dict[Key, None], key: Key, wanted: bool) -> None:
    if wanted:
        index[key] = None
    else:
        index.pop(key, None)
