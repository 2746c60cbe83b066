"""The deliverer: it sends what subscriptions are told, and sees that it arrives.

A delivery that is due is taken by one worker, which moves its due time on before it sends: where the worker dies, the
delivery is due again, for any worker. So an event is sent at least once, each time with the same id and body. What came
of a try is one commit. An address that fails for as long as a delivery is tried is told no more. What was over
for a month is deleted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from holdfast.errors import HoldfastError, KeyLocked, SecretMissing, StoreCorrupt, TransportFailed
from holdfast.kernel.execution import Entropy
from holdfast.runs.clock import Clock
from holdfast.runs.observer import Observer
from holdfast.runs.role import Role
from holdfast.store import protocol as p
from holdfast.store.committer import Committer
from holdfast.store.patience import TROUBLE
from holdfast.transports.http.call import HttpCall
from holdfast.transports.http.urls import read_url
from holdfast.transports.secret_keeper import SecretKeeper
from holdfast.webhooks.named_secrets import hook_secret
from holdfast.webhooks.occurrences import worker_note
from holdfast.webhooks.signatures import signed_headers
from holdfast.webhooks.subscription import (
    DELIVERY,
    Delivery,
    WebhookSubscription,
    delivery_key,
    parts_of,
    read,
    subscription_key,
    write,
)
from holdfast.webhooks.tries import GONE, Next, Tried, after_try
from holdfast.webhooks.vault import opened, secret_key

log = logging.getLogger("holdfast.deliverer")

TRY_SECONDS: Final = 15.0
"""How long an address may take to answer."""
CLAIM_SECONDS: Final = 60.0
"""So long a delivery is the business of the worker that took it. It is more than a try and its commit take."""
EACH_AT_ONCE: Final = 16
"""How many deliveries to one address are under way at once, in this worker."""
BATCH: Final = 100
LOOK_SECONDS: Final = 5.0
STOP_SECONDS: Final = 2.0


class Deliverer(Role):
    """Sends deliveries. ``freed`` is called when there is room for more."""

    name = "deliverer"

    def __init__(
        self,
        store: p.Store,
        committer: Committer,
        clock: Clock,
        entropy: Entropy,
        secrets: SecretKeeper,
        freed: Callable[[], None],
        observer: Observer | None = None,
    ) -> None:
        super().__init__()
        self._observer = observer
        self._store = store
        self._committer = committer
        self._clock = clock
        self._entropy = entropy
        self._named = secrets
        self._freed = freed
        self._under_way: dict[p.ItemKey, asyncio.Task[None]] = {}

    def room(self, subscription: p.ItemKey) -> int:
        """How many deliveries of a subscription may be begun now."""
        first = delivery_key(subscription.tenant, subscription.id, "").id
        return EACH_AT_ONCE - sum(
            key.tenant == subscription.tenant and key.id.startswith(first) for key in self._under_way
        )

    def take(self, row: p.ItemRow) -> None:
        """Send a delivery that this worker has taken."""
        task = asyncio.get_running_loop().create_task(self._deliver(row), name=f"holdfast-delivery-{row.id}")
        self._under_way[row.key] = task
        task.add_done_callback(lambda _: self._done(row.key))

    def _done(self, key: p.ItemKey) -> None:
        self._under_way.pop(key, None)
        self._freed()

    async def idle(self) -> None:
        """Wait until nothing is under way here."""
        while self._under_way:
            await asyncio.wait(list(self._under_way.values()))

    async def stop(self) -> None:
        await super().stop()
        if self._under_way:
            _, left = await asyncio.wait(list(self._under_way.values()), timeout=STOP_SECONDS)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def round(self) -> float | None:
        now = self._clock.now()
        is_left = False
        due = await self._store.due_items(DELIVERY, now, BATCH)
        await self._delete([row for row in due if row.status != "pending"], now)
        for row in (row for row in due if row.status == "pending"):
            subscription = subscription_key(row.tenant, parts_of(row.key)[0])
            if row.key in self._under_way or self.room(subscription) <= 0:
                is_left = True
            elif (taken := await self._taken(row)) is not None:
                self.take(taken)
        following = await self._store.next_due_item(DELIVERY)
        if is_left:
            return 1.0
        if following is None:
            return LOOK_SECONDS
        return min(LOOK_SECONDS, max(0.05, (following - self._clock.now()) / 1e6))

    async def _taken(self, row: p.ItemRow) -> p.ItemRow | None:
        """The delivery, taken; None where another worker has, or it was changed."""
        now = self._clock.now()
        due = now + round(CLAIM_SECONDS * 1e6)
        taken = replace(row, version=row.version + 1, due_at=due, changed_at=now)
        return taken if await self._commit(row, "take_delivery", now, "", p.PutItem(taken)) else None

    async def _delete(self, over: Sequence[p.ItemRow], now: int) -> None:
        """Delete deliveries that were over long ago. Where another worker is faster, nothing happens here."""
        for tenant in sorted({row.tenant for row in over}):
            rows = [row for row in over if row.tenant == tenant]
            id = f"delivery:{self._entropy.randbytes(12).hex()}"
            noted = worker_note(tenant, "delete_deliveries", now, {"count": str(len(rows))}, id)
            drops = tuple(p.DropItem(row.key, row.version) for row in rows)
            await self._committer.commit(p.Operate(noted, drops))

    # -- one delivery --------------------------------------------------------------------------------------------------

    async def _deliver(self, row: p.ItemRow) -> None:
        """Try it once, and keep what came of it. Whatever is not kept is tried again when it is due."""
        try:
            key = subscription_key(row.tenant, parts_of(row.key)[0])
            found = await self._store.item(key)
            delivery = read(row, Delivery)
            if found is None or (subscription := read(found, WebhookSubscription)).disabled:
                tried = Tried(None, "its subscription is disabled", is_over=True)
                await self._keep(row, after_try(delivery, tried, self._clock.now(), 0.0), tried, None)
                return
            tried = await self._tried(subscription, found, parts_of(row.key)[1], delivery)
            jitter = int.from_bytes(self._entropy.randbytes(2)) / 65536
            after = after_try(delivery, tried, self._clock.now(), jitter)
            if self._observer is not None:
                self._observer.delivery_tried(after.status)
            await self._keep(row, after, tried, found)
        except TROUBLE as error:
            log.debug("what came of delivery %s was not kept, it is tried again: %s", row.id, error)
        except HoldfastError as error:
            log.warning("delivery %s of tenant %s: %s", row.id, row.tenant, error)
        except Exception:
            log.exception("delivery %s of tenant %s met an error; it is tried again", row.id, row.tenant)

    async def _tried(
        self, subscription: WebhookSubscription, row: p.ItemRow, message: str, delivery: Delivery
    ) -> Tried:
        now = self._clock.now()
        body = delivery.body.encode()
        try:
            keys = await self._secrets(subscription, row, now)
            headers = signed_headers(keys, message, now // 1_000_000, body)
            status = await _sent(subscription.url, headers, delivery.body)
        except (SecretMissing, KeyLocked, StoreCorrupt) as error:
            return Tried(None, f"it cannot be signed here: {error}")
        except TransportFailed as error:
            return _refusal(error)
        return Tried(status)

    async def _secrets(self, subscription: WebhookSubscription, row: p.ItemRow, now: int) -> tuple[str, ...]:
        if subscription.secret_name:
            return (await hook_secret(self._named, self._store, "subscription", row.tenant, subscription.secret_name),)
        kept = await self._store.item(secret_key(row.tenant, "out", row.id))
        if kept is None:
            raise SecretMissing(f"subscription {row.id} has no secret: rotate it")
        return tuple(opened(kept).at(now))

    # -- what came of it -----------------------------------------------------------------------------------------------

    async def _keep(self, row: p.ItemRow, after: Next, tried: Tried, found: p.ItemRow | None) -> None:
        """Commit what came of a try; with it the subscription's end, where its address is given up."""
        now = self._clock.now()
        put = p.PutItem(replace(row, version=row.version + 1, body=write(after.delivery), status=after.status,
                                due_at=after.due_at, changed_at=now))  # fmt: skip
        act = {"delivered": "deliver_event", "pending": "retry_delivery", "failed": "fail_delivery"}[after.status]
        if found is not None and after.status == "failed" and await self._is_lost(found, after.delivery, tried):
            why = "it wants nothing more (410)" if tried.status == GONE else "nothing could be delivered for days"
            subscription = replace(read(found, WebhookSubscription), disabled=f"{why}: {tried.problem[:200]}")
            over = replace(found, version=found.version + 1, body=write(subscription), status=subscription.status,
                           changed_at=now)  # fmt: skip
            if await self._commit(row, "disable_subscription", now, subscription.disabled, put, p.PutItem(over)):
                log.warning("subscription %s of tenant %s is disabled: %s", found.id, found.tenant, why)
                return
        await self._commit(row, act, now, "" if after.status == "delivered" else tried.problem[:200], put)

    async def _is_lost(self, found: p.ItemRow, delivery: Delivery, tried: Tried) -> bool:
        """Whether nothing has arrived since the delivery was made, or the address wants nothing more."""
        if tried.status == GONE:
            return True
        first = delivery_key(found.tenant, found.id, "")
        rows = await self._store.items(DELIVERY, BATCH, tenant=found.tenant, status="delivered", after=first)
        times = [read(each, Delivery).delivered_at or 0 for each in rows if each.id.startswith(first.id)]
        return max(times, default=0) < delivery.made_at

    async def _commit(self, row: p.ItemRow, act: str, now: int, reason: str, *changes: p.PutItem) -> bool:
        """Commit a delivery's next version. False where another was first."""
        subscription, message = parts_of(row.key)
        id = f"delivery:{self._entropy.randbytes(12).hex()}"
        noted = worker_note(row.tenant, act, now, {"subscription": subscription, "message": message}, id, reason)
        answer = await self._committer.commit(p.Operate(noted, changes))
        return isinstance(answer, p.OperatedOn | p.Repeated)


def _refusal(error: TransportFailed) -> Tried:
    found = error.members.get("status")
    status = found if isinstance(found, int) else None
    moved = " (redirects are not followed)" if status is not None and status // 100 == 3 else ""
    return Tried(status, f"{error}{moved}", error.retry_after, is_over=status == GONE)


async def _sent(url: str, headers: dict[str, str], body: str) -> int:
    """Send it, and give the status of the answer. Raises TransportFailed."""
    from holdfast.transports.http.sender import send

    call = HttpCall(
        method="POST",
        url=url,
        connector=read_url(url, "the URL").host,
        operation="post",
        writes=True,
        risk="low",
        safe_to_retry=True,
        headers={**headers, "content-type": "application/json"},
        body=body,
        timeout=TRY_SECONDS,
    )
    return (await send(call, None)).status
