"""The history of the gate's tables: every receipt, task and run, at the moment at which it is written."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Generic, TypeVar

import cbor2

from holdfast.audit import records
from holdfast.store import protocol as p
from holdfast.store.memory.tables import Tables
from holdfast.tasks.answers import DID_NOT_HAPPEN, HAPPENED, verdict_of
from tests.simulation.rules import Rules

K = TypeVar("K")
V = TypeVar("V")

Place = tuple[str, str]
"""A tenant and an idempotency key."""


class Watched(dict[K, V], Generic[K, V]):
    """A table that reports every row written to it: the row before, and the new one."""

    def __init__(self, written: Callable[[V | None, V], None]) -> None:
        super().__init__()
        self._written = written

    def __setitem__(self, key: K, value: V) -> None:
        self._written(self.get(key), value)
        super().__setitem__(key, value)


class Chronicle:
    """The gate's history so far. ``broken`` lists the laws that a write broke."""

    def __init__(self, tables: Tables, rules: Rules) -> None:
        self.succeeded: set[Place] = set()
        self.failed: set[str] = set()  # tokens of attempts that are recorded as failed
        self.opened: Counter[p.Key] = Counter()  # how many receipts each run has opened
        self.closed: Counter[tuple[str, str, int]] = Counter()  # a receipt's id, state and attempt
        self.closings: defaultdict[tuple[str, str, int], set[object]] = defaultdict(set)  # what differs between them
        self.denied: set[str] = set()  # tokens of attempts that did not happen, as a person said
        self.results_by_task: dict[str, bytes | None] = {}  # the result of an act that happened, as a person said
        self.under_way: dict[str, set[p.Key]] = {}  # runs without a parent, by tenant
        self.broken: list[str] = []
        self.tables = tables
        self._rules = rules
        self._allowed: set[tuple[str, str]] = set()
        self._read = 0
        tables.receipts = Watched(self._receipt)
        tables.tasks = Watched(self._task)
        tables.runs = Watched(self._run)

    def _receipt(self, old: p.ReceiptRow | None, new: p.ReceiptRow) -> None:
        place = (new.tenant, new.key)
        if place in self.succeeded and (old is None or (old.state, old.token) != (new.state, new.token)):
            self.broken.append(f"the receipt of {new.key} succeeded, and then became {new.state}")
        if old is not None and old.reversed_by != new.reversed_by:
            if old.reversed_by is not None:
                self.broken.append(f"receipt {new.id} was reversed by {old.reversed_by}, and then by {new.reversed_by}")
            return
        if new.state == "pending":
            self.opened[p.Key(new.tenant, new.run)] += 1
        else:
            self.closed[new.id, new.state, new.attempt] += 1
            self.closings[new.id, new.state, new.attempt].add((new.token, new.error, new.closed_at))
        if new.state == "succeeded":
            self.succeeded.add(place)
        elif new.state == "failed":
            self.failed.add(new.token)

    def _task(self, old: p.TaskRow | None, new: p.TaskRow) -> None:
        if old is not None and old.status != "requested":
            self.broken.append(f"task {new.id} was {old.status}, and then became {new.status}")
        if new.kind == "outcome" and new.status in ("approved", "rejected"):
            if verdict_of(new) == DID_NOT_HAPPEN:
                self.denied.add(str(cbor2.loads(new.details)["token"]))
            elif verdict_of(new) == HAPPENED:
                self.results_by_task[new.id] = new.answers[-1].value

    def _run(self, old: p.Run | None, new: p.Run) -> None:
        """Count the runs without a parent that are under way: caps limit them."""
        if new.parent is not None:
            return
        tenant = new.key.tenant
        under_way = self.under_way.setdefault(tenant, set())
        if new.begun_at is not None and new.ended_at is None:
            under_way.add(new.key)
        else:
            under_way.discard(new.key)
        most = self._rules.caps_of(tenant).max_concurrency
        if most is not None and len(under_way) > most:
            self.broken.append(f"{len(under_way)} runs of {tenant} are under way, and the cap is {most}")

    def is_allowed(self, promise: str, proposal: str) -> bool:
        """Whether the audit has recorded by now that this proposal was allowed."""
        for entry in self.tables.audit[self._read :]:
            if entry.kind == "decision":
                record = records.decode(entry.body)
                assert isinstance(record, records.Decided)
                if record.effect == "allow":
                    self._allowed.add((record.promise, record.proposal))
        self._read = len(self.tables.audit)
        return (promise, proposal) in self._allowed
