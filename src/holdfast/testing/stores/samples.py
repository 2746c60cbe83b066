"""Runs, turns, messages and work for the tests of a store. A test sets only the fields that matter to it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

import cbor2

from holdfast.store import protocol as p

NOW: Final = 1_700_000_000_000_000
SECOND: Final = 1_000_000
TENANT: Final = "acme"
WORKFLOW: Final = "greet"
SERVES: Final = p.Serves((WORKFLOW,))
"""A worker that serves that workflow, a function, and nothing else."""

QUEUED: Final = p.Projection("queued")
RUNNING: Final = p.Projection("running")
WAITING: Final = p.Projection("waiting", waiting="signal answer")
COMPLETED: Final = p.Projection("completed")


def key(run: str = "one", tenant: str = TENANT) -> p.Key:
    return p.Key(tenant, run)


def segment(first: int = 0, count: int = 2, *, at: int = NOW, mark: str = "", blobs: Iterable[bytes] = ()) -> p.Segment:
    """A part of a journal with unique bytes and hash; ``mark`` makes a different one at the same place.

    It names its blobs, as events do.
    """
    events = b" ".join((f"{first}+{count}{mark}".encode(), *map(cbor2.dumps, blobs)))
    return p.Segment(first, count, events, hashlib.sha256(events).digest(), at)


def start(
    run: str = "one",
    *,
    tenant: str = TENANT,
    workflow: str = WORKFLOW,
    projection: p.Projection = QUEUED,
    at: int = NOW,
    priority: int = 0,
    attributes: Mapping[str, str] = {},
    parent: str | None = None,
    blobs: Mapping[bytes, bytes] = {},
    owner: str | None = None,
    attached: tuple[p.Attachable, ...] = (),
    program_kind: str = p.FUNCTION,
    code_digest: bytes | None = None,
    trigger_key: bytes | None = None,
) -> p.Start:
    return p.Start(
        key=p.Key(tenant, run),
        workflow=workflow,
        fingerprint=f"{workflow} {run}".encode(),
        root=f"root of {run}".encode(),
        segment=segment(at=at, blobs=blobs),
        projection=projection,
        parent=parent,
        parent_position=None if parent is None else 7,
        priority=priority,
        attributes=attributes,
        blobs=blobs,
        owner=owner,
        program_kind=program_kind,
        code_digest=code_digest,
        attached=attached,
        trigger_key=trigger_key,
    )


def turn(
    run: p.Run,
    projection: p.Projection = RUNNING,
    *,
    count: int = 1,
    at: int = NOW,
    consumed: int | None = None,
    release: bool = False,
    mark: str = "",
    blobs: Mapping[bytes, bytes] = {},
    attached: tuple[p.Attachable, ...] = (),
    renewal: p.Renewal | None = None,
) -> p.Advance:
    """The next turn of a run with this row; ``count=0`` makes a turn without events."""
    return p.Advance(
        key=run.key,
        generation=run.generation,
        epoch=run.epoch,
        version=run.version,
        segment=segment(run.version, count, at=at, mark=mark, blobs=blobs) if count else None,
        projection=projection,
        consumed=run.consumed if consumed is None else consumed,
        release=release,
        blobs=blobs,
        attached=attached,
        renewal=renewal,
    )


def renewal(generation: int = 1, *, blobs: Mapping[bytes, bytes] = {}) -> p.Renewal:
    return p.Renewal(f"root of generation {generation}".encode(), segment(mark=f" of {generation}", blobs=blobs), blobs)


def message(body: str = "hello", *, id: str | None = None, at: int = NOW) -> p.Message:
    return p.Message("signal", body.encode(), at, id)


def deliver(run: str = "one", body: str = "hello", *, id: str | None = None, at: int = NOW) -> p.Deliver:
    return p.Deliver(key(run), message(body, id=id, at=at))


def work(
    position: int = 1,
    run: str = "one",
    *,
    queue: str = "mail",
    priority: int = 0,
    available_at: int = NOW,
    attempt: int = 1,
    body: str = "letter",
) -> p.Work:
    return p.Work(key(run), position, queue, "send", attempt, body.encode(), priority, available_at)


def worker(id: str = "ann", *, started_at: int = NOW) -> p.WorkerRow:
    lacking = (p.UnavailableDefinition("claims", 2, "claims.yaml:4:7: there is no step 'x'"),)
    return p.WorkerRow(id, "host", 42, (WORKFLOW,), ("mail",), started_at, 0, unavailable=lacking)


async def commit(store: p.Store, change: p.Change) -> p.Answer:
    """Commit one change alone."""
    (answer,) = await store.commit([change])
    return answer


async def row(store: p.Store, run: str = "one") -> p.Run:
    """A run's row as the store has it now."""
    (found,) = await store.get([key(run)])
    return found


async def begun(store: p.Store, change: p.Start) -> p.Run:
    """Start a run that must not exist yet."""
    answer = await commit(store, change)
    assert isinstance(answer, p.Started), answer
    (found,) = await store.get([change.key])
    return found


async def leased(store: p.Store, run: str = "one", owner: str = "ann") -> p.Run:
    """Start a run that a worker leases from the start."""
    return await begun(store, start(run, owner=owner))


async def advanced(store: p.Store, change: p.Advance) -> p.Advanced:
    """Commit a turn that must be applied."""
    answer = await commit(store, change)
    assert isinstance(answer, p.Advanced), answer
    return answer


async def ended(
    store: p.Store, run: str = "one", *, at: int = NOW, blobs: Mapping[bytes, bytes] = {}, parent: str | None = None
) -> p.Run:
    """Start a run and let it complete."""
    first = await begun(store, start(run, owner="ann", blobs=blobs, parent=parent))
    await advanced(store, turn(first, COMPLETED, at=at))
    return await row(store, run)


async def claimed(
    store: p.Store, limit: int = 100, *, worker: str = "ann", workflow: str = WORKFLOW, now: int = NOW
) -> list[str]:
    """The ids of the runs that a claim gives."""
    claim = await store.claim(worker, p.Serves((workflow,)), limit, now)
    return [run.key.run for run in claim.runs]
