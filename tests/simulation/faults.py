"""A store that fails on purpose, one handle per worker, and the record of what it reached."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NoReturn

from msgspec.structs import replace

from holdfast.errors import StoreUnavailable
from holdfast.journal.codec import decode_segment
from holdfast.journal.events import Entry, InvokeCompleted, InvokeRetrying, InvokeScheduled
from holdfast.journal.forms import FORM
from holdfast.journal.payload import Payload
from holdfast.journal.promise import PromiseId
from holdfast.kernel.outstanding import Pending
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.store.outage import Outage
from tests.simulation.chronicle import Chronicle
from tests.simulation.rules import Rules
from tests.simulation.situations import Situations

_WRITES: Final = frozenset({"commit", "claim", "claim_work", "decline", "register", "beat", "unregister", "rescue"})
_READS: Final = frozenset(
    {"get", "load", "messages", "segments", "arrivals", "leased", "work_of", "progress_of", "blob"}
)


_GATE_WRITES: Final = frozenset({"seal", "add_signing_key", "keep_artefacts"})
_GATE_READS: Final = frozenset(
    {"governed", "unsealed", "blocks", "entries", "signing_keys", "evidence_due", "receipt", "receipts", "task"}
    | {"receipt_of_key"}
)


LATENCY_SECONDS: Final = 0.0005
LISTED_WAITS: Final = 20
"""A row lists no more waits than this."""


class Graves:
    """Where the coroutines of dead processes wait for ever.

    The futures are kept. A coroutine that waits for an unreferenced future is garbage, and Python would run its
    ``finally`` at the next collection. Then a seed would not give the same simulation every time.
    """

    def __init__(self) -> None:
        self._futures: list[asyncio.Future[NoReturn]] = []

    async def rest(self) -> NoReturn:
        future: asyncio.Future[NoReturn] = asyncio.get_running_loop().create_future()
        self._futures.append(future)
        return await future


class Faults:
    """How likely each fault is. ``healed`` ends them all."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.healed = False
        self.die_before = source.choice((0.0, 0.004, 0.015))
        self.die_after = source.choice((0.0, 0.004, 0.015))
        self.lose_answer = source.choice((0.0, 0.01, 0.05))
        self.refuse = source.choice((0.0, 0.01, 0.05))
        self.slow = source.choice((0.0, 0.05, 0.2))
        self.lose_hint = source.choice((0.0, 0.1, 0.6))
        self.double_hint = source.choice((0.0, 0.2))
        self.die_acting = 0.0
        self.swift_reads = False  # they take no time, so that a read can overtake a write
        self.writes, self.reads = _WRITES, _READS
        self.outages = [(start, start + source.uniform(0.5, 8)) for start in _moments(source)]

    def govern(self) -> None:
        """The gate's own operations fail, too, and workers die while they act."""
        self.writes |= _GATE_WRITES
        self.reads |= _GATE_READS
        self.die_acting = self.source.choice((0.0, 0.05, 0.2))
        self.swift_reads = self.source.random() < 0.5

    def happens(self, probability: float) -> bool:
        return not self.healed and self.source.random() < probability

    def out(self, time: float) -> bool:
        return not self.healed and any(start <= time < end for start, end in self.outages)


def _moments(source: random.Random) -> list[float]:
    return [source.uniform(1, 60) for _ in range(source.choice((0, 0, 1, 2)))]


class FaultyStore:
    """One worker's handle on the store: slow, refusing, losing answers, or the place where the worker dies."""

    def __init__(
        self, store: Recorder, faults: Faults, reached: Counter[str], graves: Graves, die: Callable[[], None]
    ) -> None:
        self._store = store
        self._faults = faults
        self._reached = reached
        self._graves = graves
        self._die = die
        self.dead = False
        self.frozen_until = 0.0
        self.outage = Outage()

    def twin(self) -> FaultyStore:
        return self

    async def open(self, *, migrate: bool = True) -> None:
        return None

    async def close(self) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._store, name)
        if name in self._faults.writes:
            return lambda *args, **named: self._write(name, partial(operation, **named), args)
        if name == "load":
            return self._load
        if name in self._faults.reads:
            return lambda *args, **named: self._read(partial(operation, **named), args)
        return operation

    async def _load(self, keys: Sequence[p.Key], *, whole: bool = False) -> dict[p.Key, p.Loaded]:
        """Checkpoints are only a cache: some are lost or damaged before they are read."""
        for key in self._store.checkpointed(keys):
            if self._faults.source.random() < 0.2:
                self._reached["checkpoint lost"] += 1
                self._store.lose_checkpoint(key)
            elif self._faults.source.random() < 0.1:
                self._reached["checkpoint damaged"] += 1
                self._store.damage_checkpoint(key)
        loaded: dict[p.Key, p.Loaded] = await self._read(partial(self._store.load, whole=whole), (keys,))
        self._reached["checkpoint loaded"] += sum(found.checkpoint is not None for found in loaded.values())
        return loaded

    async def _read(self, operation: Any, args: tuple[Any, ...]) -> Any:
        await self._pass_time(0.0 if self._faults.swift_reads else LATENCY_SECONDS)
        self._maybe_refuse()
        return await operation(*args)

    async def _write(self, name: str, operation: Any, args: tuple[Any, ...]) -> Any:
        await self._pass_time()
        self._maybe_refuse()
        if self._faults.happens(self._faults.die_before):
            self._reached[f"died before {name}"] += 1
            await self._stop()
        answer = await operation(*args)
        if self._faults.happens(self._faults.die_after):
            self._reached[f"died after {name}"] += 1
            await self._stop()
        await self._pass_time()
        if self._faults.happens(self._faults.lose_answer):
            self._reached[f"lost the answer of {name}"] += 1
            if name == "commit":
                self._store.answer_lost(*args)
            raise StoreUnavailable("the answer was lost")
        if name == "commit":
            alongside = [reply for each in answer for reply in getattr(each, "attached", ())]
            self._reached.update(type(reply).__name__ for reply in [*answer, *alongside])
        return answer

    async def _pass_time(self, latency_seconds: float = LATENCY_SECONDS) -> None:
        if self.dead:
            await self._graves.rest()
        if self.frozen_until > (now := asyncio.get_running_loop().time()) and not self._faults.healed:
            await asyncio.sleep(self.frozen_until - now)
        if self._faults.happens(self._faults.slow):
            self._reached["slow"] += 1
            await asyncio.sleep(self._faults.source.uniform(0.01, 3))
        else:
            await asyncio.sleep(latency_seconds)
        if self.dead:
            await self._graves.rest()

    def _maybe_refuse(self) -> None:
        if self._faults.out(asyncio.get_running_loop().time()):
            self._reached["outage"] += 1
            raise StoreUnavailable("the store is out")
        if self._faults.happens(self._faults.refuse):
            self._reached["refused"] += 1
            raise StoreUnavailable("the store did not answer")

    async def _stop(self) -> None:
        self._die()
        await self._graves.rest()

    def watch(self, hint: Callable[[], None]) -> Callable[[], None]:
        def faulty() -> None:
            if self.dead or self._faults.happens(self._faults.lose_hint):
                return
            hint()
            if self._faults.happens(self._faults.double_hint):
                asyncio.get_running_loop().call_later(self._faults.source.uniform(0, 2), hint)

        return self._store.watch(faulty)


class SimulatedStore(MemoryStore):
    """The true store, which all processes use."""

    def answer_lost(self, batch: Sequence[p.Change]) -> None:
        """The worker that committed this does not know that it was applied."""

    def checkpointed(self, keys: Sequence[p.Key]) -> list[p.Key]:
        """Those that have a checkpoint."""
        return [key for key in keys if key in self._tables.checkpoints]

    def lose_checkpoint(self, key: p.Key) -> None:
        del self._tables.checkpoints[key]

    def damage_checkpoint(self, key: p.Key) -> None:
        present = self._tables.checkpoints[key]
        self._tables.checkpoints[key] = replace(present, data=present.data[:-1])


class Recorder(SimulatedStore):
    """The true store. It notes every intent and completion at the moment at which it becomes durable."""

    def __init__(self, clock: Callable[[], int]) -> None:
        super().__init__(clock)
        self.intended: set[tuple[str, int]] = set()
        self._names: dict[PromiseId, str] = {}
        self.completed: set[str] = set()
        self.events: Counter[str] = Counter()
        self.retried: set[tuple[p.Key, int]] = set()  # generations that began with a part of the one before
        self.situations: Situations | None = None
        self.checkpoints: dict[tuple[p.Key, int], list[bytes]] = {}  # all that were written, by generation
        self.misfits: list[str] = []
        self.inherited: dict[p.Key, int] = {}  # how many entries a fork's journal began with
        self._roots: dict[tuple[p.Key, int], bytes] = {}

    def chronicled(self, rules: Rules) -> Chronicle:
        """Watch what the gate writes, from now on."""
        return Chronicle(self._tables, rules)

    async def commit(self, batch: Any) -> list[p.Answer]:
        owners = [run.owner if (run := self._tables.runs.get(_key(change))) else None for change in batch]
        answers = await super().commit(batch)
        for change, answer, owner in zip(batch, answers, owners, strict=True):
            self.note(change, answer)
            if isinstance(change, p.Advance) and isinstance(answer, p.Advanced):
                self._compare_tasks(change)
            if self.situations is not None:
                self.situations.committed(change, answer, owner)
        return answers

    def _compare_tasks(self, change: p.Advance) -> None:
        """A form is asked for exactly while its run waits for it; the answer may be on its way (N4)."""
        if change.projection.waiting is None:
            return
        waits = json.loads(change.projection.waiting)
        if len(waits) == LISTED_WAITS:
            return
        of_run = [task for task in self._tables.tasks.values() if (task.tenant, task.run) == tuple(change.key)]
        forms = [task for task in of_run if task.kind == FORM and task.generation == change.generation]
        awaited = {wait["position"] for wait in waits if wait["kind"] == FORM}
        open_ = {task.position for task in forms if task.status == "requested"}
        if not open_ <= awaited <= {task.position for task in forms}:
            self.misfits.append(f"run {change.key.run} waits for forms at {awaited}, and {open_} are open (N4)")

    def answer_lost(self, batch: Sequence[p.Change]) -> None:
        """The worker that committed this does not know that it was applied."""
        if self.situations is not None:
            self.situations.lost(batch)

    def note(self, change: p.Change, answer: p.Answer) -> None:
        """Note what a change intends and completes, by its answer."""
        match change, answer:
            case p.Start(), p.Started(attached=attached):
                self._roots[change.key, 0] = change.root
                if "forked_from" in change.attributes:
                    self.inherited[change.key] = change.segment.count
                self._read(change.key, 0, change.segment)
            case p.Advance(segment=segment), p.Advanced(attached=attached):
                if segment is not None:
                    self._read(change.key, change.generation, segment)
                if change.checkpoint:
                    self.checkpoints.setdefault((change.key, change.generation), []).append(change.checkpoint)
                if change.renewal is not None:
                    self._roots[change.key, change.generation + 1] = change.renewal.root
            case p.Renew(), p.Renewed(generation=generation):
                self._roots[change.key, generation] = change.renewal.root
                self.retried.add((change.key, generation))
                self._forget(change.key, generation - 1)
                self._read(change.key, generation, change.renewal.segment)
                return
            case p.Operate(changes=parts), p.OperatedOn():
                for part in parts:
                    if isinstance(part, p.Renew):
                        self.note(part, p.Renewed(part.generation + 1))
                return
            case _:
                return
        for extra, reply in zip(change.attached, attached, strict=True):
            self.note(extra, reply)

    def _read(self, key: p.Key, generation: int, segment: p.Segment) -> None:
        root = PromiseId(self._roots[key, generation])
        for entry in decode_segment(segment.events, root, segment.first):
            self.events[type(entry.event).__name__] += 1
            match entry.event:
                case InvokeScheduled(promise_id=promise) as call:
                    self._names[promise] = Pending(call, None, 0).request().name
                    self.intended.add((self._name(promise), 1))
                case InvokeRetrying(promise_id=promise, failed_attempt=attempt):
                    self.intended.add((self._name(promise), attempt + 1))
                case InvokeCompleted(promise_id=promise):
                    self.completed.add(self._name(promise))

    def _name(self, promise: PromiseId) -> str:
        """The key of a step's call: one that undoes, or was undone and is done again, has another."""
        return self._names.get(promise, str(promise))

    def _forget(self, key: p.Key, generation: int) -> None:
        """The run continues from a part of this journal: only that part says what was intended and completed."""
        journal = self._journal(key, generation)
        gone = {self._name(promise) for entry in journal if (promise := _promise(entry)) is not None}
        self.completed -= gone
        self.intended = {(promise, attempt) for promise, attempt in self.intended if promise not in gone}

    def roots_of(self, tenant: str) -> set[bytes]:
        """The root of every journal that a run of this tenant has had."""
        return {root for (key, _), root in self._roots.items() if key.tenant == tenant}

    def generations(self, key: p.Key) -> list[list[Entry]]:
        """Every journal that the run has had, oldest first."""
        return [self._journal(key, generation) for generation in sorted(self._tables.segments.get(key, {}))]

    def _journal(self, key: p.Key, generation: int) -> list[Entry]:
        root = PromiseId(self._roots[key, generation])
        segments = self._tables.segments[key][generation]
        return [entry for segment in segments for entry in decode_segment(segment.events, root, segment.first)]

    def segments_of(self, key: p.Key) -> dict[int, list[p.Segment]]:
        """The same journals as they are kept, by generation."""
        return self._tables.segments.get(key, {})

    def plain(self, tenant: str, payload: Payload) -> bytes:
        """A payload's bytes, from the journal or from a blob."""
        return payload.data if payload.blob is None else self._tables.blobs[tenant, payload.blob]

    def may_do(self, worker: str, key: p.Key, position: int, *, queued: bool) -> bool:
        """Whether this worker may do this step now: it leases the run or the queued step, or that was withdrawn."""
        if not queued:
            run = self._tables.runs.get(key)
            return run is not None and run.owner == worker
        offer = self._tables.work.get(key, {}).get(position)
        return offer is None or offer.owner == worker


def _key(change: p.Change) -> p.Key | None:
    return change.key if isinstance(change, p.Advance | p.Start) else None


def _promise(entry: Entry) -> PromiseId | None:
    event = entry.event
    return event.promise_id if isinstance(event, (InvokeScheduled, InvokeRetrying, InvokeCompleted)) else None
