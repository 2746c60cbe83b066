"""The data of a memory store: the tables of the other stores as dictionaries of immutable rows.

Rows are frozen and replaced, never changed, so a row that a caller has does not change. Every write of a run goes
through ``put``, which maintains the two indexes for claims.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from holdfast.store.protocol import (
    EVIDENCE,
    ActCaller,
    AuditEntry,
    Block,
    CellRow,
    ChainEnd,
    CheckpointRow,
    Code,
    DeadRow,
    Declined,
    DefinitionRow,
    File,
    HolderState,
    ItemKey,
    ItemRow,
    Key,
    Message,
    ReceiptRow,
    RootRow,
    Run,
    Segment,
    SigningKey,
    StepProgress,
    TaskRow,
    Work,
    WorkerRow,
)


class Offer(NamedTuple):
    """Queued work, the worker that leases it, and whether this attempt is done but its run has not withdrawn it yet."""

    work: Work
    owner: str | None
    done: bool = False


class Watcher(NamedTuple):
    """A hint, and the loop on which it is called; without a loop it is called at once."""

    hint: Callable[[], None]
    loop: asyncio.AbstractEventLoop | None


class HeldRow(NamedTuple):
    """An event that is held for a cell; None where it is held no more. ``version`` is that in front of the turn."""

    event: bytes | None
    version: int


class Holder(NamedTuple):
    """The user of blobs: a run, a receipt or a task, by its id."""

    tenant: str
    kind: Literal["run", "receipt", "task"]
    id: str


@dataclass
class Tables:
    """All data of one store, shared by its handles. ``lock`` is held for one operation, never over an await."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    identity: str = field(default_factory=lambda: uuid.uuid4().hex)
    runs: dict[Key, Run] = field(default_factory=dict)
    segments: dict[Key, dict[int, list[Segment]]] = field(default_factory=dict)
    cells: dict[Key, dict[bytes, CellRow]] = field(default_factory=dict)
    deleted_cells: dict[Key, dict[bytes, int]] = field(default_factory=dict)  # the version in front of the turn
    held_events: dict[Key, dict[bytes, dict[int, HeldRow]]] = field(default_factory=dict)
    cell_roots: dict[Key, list[RootRow]] = field(default_factory=dict)
    cell_nodes: dict[Key, dict[bytes, bytes]] = field(default_factory=dict)
    dead_letters: dict[tuple[str, str, int, int], DeadRow] = field(default_factory=dict)
    checkpoints: dict[Key, CheckpointRow] = field(default_factory=dict)
    write_counts: dict[Key, int] = field(default_factory=dict)
    inbox: dict[Key, dict[int, Message]] = field(default_factory=dict)
    deliveries: dict[Key, dict[str, int]] = field(default_factory=dict)
    work: dict[Key, dict[int, Offer]] = field(default_factory=dict)
    progress: dict[Key, dict[int, StepProgress]] = field(default_factory=dict)
    blobs: dict[tuple[str, bytes], bytes] = field(default_factory=dict)
    blob_users: dict[tuple[str, bytes], set[Holder]] = field(default_factory=dict)
    blob_uses: dict[Holder, set[bytes]] = field(default_factory=dict)
    code: dict[tuple[str, bytes], Code] = field(default_factory=dict)
    definitions: dict[tuple[str, str, int], DefinitionRow] = field(default_factory=dict)  # by tenant, name, version
    items: dict[ItemKey, ItemRow] = field(default_factory=dict)
    caps: dict[ItemKey, ItemRow] = field(default_factory=dict)  # those of the items that are set caps
    workers: dict[str, WorkerRow] = field(default_factory=dict)
    receipts: dict[tuple[str, str], ReceiptRow] = field(default_factory=dict)  # by tenant and idempotency key
    orphans: dict[tuple[str, str], str] = field(default_factory=dict)  # tasks, by tenant and receipt's id
    holders: dict[tuple[str, str], dict[ActCaller, tuple[HolderState, int]]] = field(default_factory=dict)  # by receipt
    takings: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)  # name and run, by receipt's id
    tasks: dict[tuple[str, str], TaskRow] = field(default_factory=dict)  # by tenant and id
    audit: list[AuditEntry] = field(default_factory=list)  # the entry of sequence n is at index n - 1
    noted: set[tuple[str, str]] = field(default_factory=set)  # the entries that have an id, by tenant and id
    blocks: dict[str, list[Block]] = field(default_factory=dict)
    signing_keys: dict[int, SigningKey] = field(default_factory=dict)
    chain_ends: dict[int, list[ChainEnd]] = field(default_factory=dict)  # by the number of the key they came with
    files: dict[Key, dict[tuple[int, str], File]] = field(default_factory=dict)
    retired: set[Key] = field(default_factory=set)  # ids under which evidence is kept, and those of their parents
    declined: dict[Key, dict[str, tuple[int, Declined]]] = field(default_factory=dict)  # by worker, with the generation
    triggers: dict[tuple[str, bytes], Key] = field(default_factory=dict)  # the runs that triggers have started
    trigger_keys: dict[Key, bytes] = field(default_factory=dict)
    ready: dict[Key, None] = field(default_factory=dict)
    sleeping: dict[Key, None] = field(default_factory=dict)
    watchers: dict[int, Watcher] = field(default_factory=dict)

    def put(self, run: Run) -> None:
        """Write a run's row. ``ready`` and ``sleeping`` are the unleased runs that need a worker now or later."""
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
        """Keep a blob under its digest while it has a user."""
        self.blobs.setdefault((holder.tenant, digest), data)
        self.blob_users.setdefault((holder.tenant, digest), set()).add(holder)
        self.blob_uses.setdefault(holder, set()).add(digest)

    def keep(self, file: File) -> None:
        """Keep a file. A child's id is its parent's, a ~ and more: its evidence retires the ids of its parents, too."""
        kept = file.about
        self.files.setdefault(kept.key, {})[kept.generation, kept.name] = file
        if kept.name == EVIDENCE:
            names = kept.key.run.split("~")
            self.retired.update(Key(kept.key.tenant, "~".join(names[:end])) for end in range(1, len(names) + 1))

    def clear(self, key: Key) -> None:
        """Delete the data that only an unfinished run needs: its inbox, work and progress."""
        for table in (self.inbox, self.work, self.progress):
            table.pop(key, None)

    def forget(self, key: Key) -> None:
        """Delete a run with all that belongs to it, and the blobs that no other run uses. The gate's data stay."""
        self.clear(key)
        holder = Holder(key.tenant, "run", key.run)
        for digest in self.blob_uses.pop(holder, set()):
            users = self.blob_users[key.tenant, digest]
            users.discard(holder)
            if not users:
                del self.blob_users[key.tenant, digest], self.blobs[key.tenant, digest]
        for table in (self.segments, self.checkpoints, self.deliveries, self.ready, self.sleeping, self.write_counts):
            table.pop(key, None)
        for belonging in (self.cells, self.deleted_cells, self.held_events, self.cell_roots, self.cell_nodes):
            belonging.pop(key, None)
        if (trigger := self.trigger_keys.pop(key, None)) is not None:
            del self.triggers[key.tenant, trigger]
        del self.runs[key]

    def hint(self) -> None:
        """Notify every watcher of a change. A watcher whose loop is closed is skipped."""
        try:
            running: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        for watcher in list(self.watchers.values()):
            if watcher.loop is None:
                watcher.hint()
            elif watcher.loop is running:
                running.call_soon(watcher.hint)
            elif not watcher.loop.is_closed():
                watcher.loop.call_soon_threadsafe(watcher.hint)


def _mark(index: dict[Key, None], key: Key, wanted: bool) -> None:
    if wanted:
        index[key] = None
    else:
        index.pop(key, None)
