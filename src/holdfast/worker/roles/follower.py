"""The follower: it reads what happened in the audit of tenants that have subscriptions, and makes deliveries of it.

What is sealed in a tenant's audit has a place, without gaps, that never changes. So a subscription's place says exactly
what it was told of. The next deliveries and the next place are one commit: of two followers one succeeds, by the
place's version, and a crash in between loses nothing. No more is read than can be sent just now: what waits, waits in
the audit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from holdfast.errors import StoreCorrupt
from holdfast.kernel.execution import Entropy
from holdfast.runs.clock import Clock
from holdfast.runs.role import Role
from holdfast.store import protocol as p
from holdfast.store.committer import Committer
from holdfast.webhooks.occurrences import Occurrence, body_of, occurrence_of, worker_note
from holdfast.webhooks.subscription import (
    ACTIVE,
    DELIVERY,
    EVENT_TYPES,
    SUBSCRIPTION,
    AuditPlace,
    Delivery,
    WebhookSubscription,
    delivery_key,
    place_key,
    read,
    write,
)
from holdfast.worker.lifecycle import Lifecycle
from holdfast.worker.roles.deliverer import CLAIM_SECONDS, Deliverer

log = logging.getLogger("holdfast.follower")

PAGE: Final = 500
LOOK_SECONDS: Final = 4.0
"""So often subscriptions are looked for without a hint. It is less than a worker's knowledge of them is good for."""
SPACING_SECONDS: Final = 0.25
"""Hints come with every commit of other processes. More often than this they cause no look."""
KEEP_EVERY: Final = 2000
"""After so many entries that are not for a subscription its place is kept, so that nobody reads them again."""
PENDING_MOST: Final = 200
"""A subscription with so many deliveries that wait for another try gets no new ones: what waits, waits in the audit."""


_OF_RUNS: Final = tuple(type for type in EVENT_TYPES if type.startswith("run."))


class _Followed(NamedTuple):
    """How far a subscription has come: as kept at a version, and as read here."""

    version: int
    kept: int
    read: int


class Follower(Role):
    """Looks for subscriptions, for the whole worker, and follows the audit for each where ``deliverer`` sends."""

    name = "follower"

    def __init__(
        self,
        store: p.Store,
        committer: Committer,
        clock: Clock,
        entropy: Entropy,
        lifecycle: Lifecycle,
        deliverer: Deliverer | None,
    ) -> None:
        super().__init__()
        self._store = store
        self._committer = committer
        self._clock = clock
        self._entropy = entropy
        self._lifecycle = lifecycle
        self._deliverer = deliverer
        self._subscriptions: dict[p.ItemKey, tuple[p.ItemRow, WebhookSubscription]] = {}
        self._followed: dict[p.ItemKey, _Followed] = {}
        self._heads: dict[p.ItemKey, tuple[int, int]] = {}
        self._rests_until = 0.0

    async def look(self) -> None:
        """See which subscriptions there are, so that the worker knows who is told of what."""
        found: dict[p.ItemKey, tuple[p.ItemRow, WebhookSubscription]] = {}
        after: p.ItemKey | None = None
        while page := await self._store.items(SUBSCRIPTION, PAGE, status=ACTIVE, after=after):
            found.update((row.key, (row, each)) for row in page if (each := _readable(row)) is not None)
            after = page[-1].key
        self._subscriptions = found
        self._followed = {key: at for key, at in self._followed.items() if key in found}
        self._heads = {key: at for key, at in self._heads.items() if key in found}
        self._lifecycle.learn(row.tenant for row, each in found.values() if any(map(each.hears, _OF_RUNS)))

    async def round(self) -> float | None:
        time = asyncio.get_running_loop().time
        if (rest := self._rests_until - time()) > 0:
            return rest
        self._rests_until = time() + SPACING_SECONDS
        await self.look()
        if not self._subscriptions or self._deliverer is None:
            return LOOK_SECONDS
        self._deliverer.wake()  # a person may have sent something again
        tenants = sorted({key.tenant for key in self._subscriptions})
        heads = {head.tenant: head.number for head in await self._store.heads(tenants)}
        for key, (row, subscription) in self._subscriptions.items():
            present = row.version, heads.get(key.tenant, -1)
            if self._heads.get(key) != present and await self._follow(self._deliverer, row, subscription):
                self._heads[key] = present
        return LOOK_SECONDS

    async def _follow(self, deliverer: Deliverer, row: p.ItemRow, subscription: WebhookSubscription) -> bool:
        """Read on for one subscription; whether all that is sealed was read."""
        while (room := deliverer.room(row.key)) > 0:
            at = self._followed.get(row.key) or await self._kept(row.key)
            after = None if at.read == 0 else p.AuditEntry(at.read, row.tenant, None, "", 0, b"")
            query = p.AuditQuery(row.tenant, since=subscription.since)
            page = await self._store.entries(query, PAGE, after)
            entries = [entry for entry in page if entry.position is not None]
            if not entries:
                return True
            found, last = await self._wanted(row.tenant, subscription, entries, room)
            if found and await self._is_full(row.key):
                return False
            at = self._followed[row.key] = at._replace(read=last)
            if (found or last - at.kept >= KEEP_EVERY) and not await self._keep_deliveries(deliverer, row, at, found):
                return False
        return False

    async def _is_full(self, key: p.ItemKey) -> bool:
        first = delivery_key(key.tenant, key.id, "")
        rows = await self._store.items(DELIVERY, PENDING_MOST, tenant=key.tenant, status="pending", after=first)
        return sum(row.id.startswith(first.id) for row in rows) >= PENDING_MOST

    async def _kept(self, key: p.ItemKey) -> _Followed:
        row = await self._store.item(place_key(key.tenant, key.id))
        if row is None:
            return _Followed(0, 0, 0)
        kept = read(row, AuditPlace).sequence
        return _Followed(row.version, kept, kept)

    async def _wanted(
        self, tenant: str, subscription: WebhookSubscription, entries: Sequence[p.AuditEntry], room: int
    ) -> tuple[list[Occurrence], int]:
        """What it is told of, at most as much as there is room for, and the last entry that was read."""
        found = [(entry.sequence, each) for entry in entries if (each := occurrence_of(entry)) is not None]
        unknown = {p.Key(tenant, each.run) for _, each in found if each.workflow is None}
        rows = {row.key.run: row for row in await self._store.get(sorted(unknown))} if unknown else {}
        named = [(at, _named(each, rows)) for at, each in found]
        wanted = [(at, each) for at, each in named if subscription.wants(each.type, each.workflow or "")]
        if len(wanted) > room:
            wanted = wanted[:room]
            return [each for _, each in wanted], wanted[-1][0]
        return [each for _, each in wanted], entries[-1].sequence

    async def _keep_deliveries(
        self, deliverer: Deliverer, row: p.ItemRow, at: _Followed, found: Sequence[Occurrence]
    ) -> bool:
        """Commit the deliveries with the place behind them, and have them sent. False where another was first."""
        now = self._clock.now()
        due = now + round(CLAIM_SECONDS * 1e6)
        made = [_delivery(row, each, due, now) for each in found]
        place = p.ItemRow(*place_key(row.tenant, row.id), at.version + 1, write(AuditPlace(at.read)), changed_at=now)
        details = {"subscription": row.id, "deliveries": str(len(made))}
        id = f"tell:{self._entropy.randbytes(12).hex()}"
        noted = worker_note(row.tenant, "tell_subscription", now, details, id)
        changes: list[p.Act] = [p.ExpectItem(row.key, row.version), p.PutItem(place), *map(p.PutItem, made)]
        answer = await self._committer.commit(p.Operate(noted, tuple(changes)))
        if not isinstance(answer, p.OperatedOn | p.Repeated):
            self._followed.pop(row.key, None)
            return False
        self._followed[row.key] = _Followed(place.version, at.read, at.read)
        for each in made:
            deliverer.take(each)
        return True


def _readable(row: p.ItemRow) -> WebhookSubscription | None:
    """The subscription of an item. One that was altered must not keep the others from being told."""
    try:
        return read(row, WebhookSubscription)
    except StoreCorrupt as error:
        log.warning("nothing is told: %s", error)
        return None


def _named(found: Occurrence, rows: Mapping[str, p.Run]) -> Occurrence:
    """The occurrence with the workflow of its run; of a deleted run that is not known any more."""
    if found.workflow is not None:
        return found
    run = rows.get(found.run)
    if run is None:
        return found._replace(workflow="")
    reference = {} if run.reference is None else {"reference": run.reference}
    return found._replace(workflow=run.workflow, data={**found.data, **reference})


def _delivery(row: p.ItemRow, found: Occurrence, due_at: int, now: int) -> p.ItemRow:
    data = {"tenant": row.tenant, "run": found.run, "workflow": found.workflow, **found.data}
    delivery = Delivery(type=found.type, body=body_of(found.type, found.at, data), made_at=now)
    return p.ItemRow(*delivery_key(row.tenant, row.id, found.message), 1, write(delivery), "pending", due_at, now)
