"""``app.subscriptions``: addresses that are told, signed, of what happens in a tenant; and what became of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from holdfast.client.items import Change, all_items, change_item, found
from holdfast.client.operators import UNNAMED
from holdfast.client.people.permission import operation, require_later
from holdfast.client.views.webhooks import (
    DeliveryInfo,
    MadeSubscription,
    SubscriptionInfo,
    delivery_info,
    subscription_info,
)
from holdfast.client.webhooks.secrets import OVERLAP_SECONDS, check_use, chosen, kept, rotated
from holdfast.errors import DeliveryNotFound, InvalidRequest, NameTaken, SubscriptionNotFound
from holdfast.runs.birth import check_new_id, check_text
from holdfast.store import protocol as p
from holdfast.transports.http.urls import read_url
from holdfast.webhooks import subscription as s
from holdfast.webhooks.occurrences import body_of
from holdfast.webhooks.signatures import new_secret

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

PAGE = 100


class Subscriptions:
    """The subscriptions of one engine's tenants."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app

    @operation("subscriptions.change")
    async def create(
        self,
        id: str,
        url: str,
        events: Sequence[str],
        *,
        workflows: Sequence[str] = (),
        secret: str | None = None,
        secret_name: str = "",
        name: str = "",
        tenant: str | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> MadeSubscription:
        """Tell an address of these events, as ``run.failed`` or ``task.*``; of the given workflows, or of all. Patterns
        of names may have ``*`` in them.

        Its secret is shown only now: a new one, or the given one. With ``secret_name`` it is a secret of the workers,
        and is not kept. It is told of what happens from ten seconds on. Raises NameTaken and InvalidRequest.
        """
        app, tenant = self._app, self._app.tenant_of(tenant)
        key = s.subscription_key(tenant, check_new_id(id, "the subscription's id"))
        text = chosen("standard", secret, secret_name)
        await check_use(app, "subscription", tenant, secret_name)
        made = s.WebhookSubscription(
            url=read_url(url, "the URL").text,
            events=s.check_events(events),
            workflows=_patterns(workflows),
            since=app.clock.now(),
            made_by=app.person_of(by) or UNNAMED,
            name=check_text(name, "the name"),
            secret_name=secret_name,
        )

        await self._require(id, made)

        async def make(present: p.ItemRow | None) -> Change:
            if present is not None:
                raise NameTaken(
                    f"there is a subscription {id!r} in tenant {tenant!r}: change it, or choose another id."
                )
            return _change(made, await kept(app, tenant, "out", id, text))

        row = await change_item(app, key, "create_subscription", make, by=by, reason=reason)
        return MadeSubscription(subscription=subscription_info(row), secret=text)

    @operation("subscriptions.see")
    async def list(self, *, tenant: str | None = None) -> AsyncIterator[SubscriptionInfo]:
        """A tenant's subscriptions, by id."""
        async for row in all_items(self._app, s.SUBSCRIPTION, tenant=self._app.tenant_of(tenant)):
            yield subscription_info(row)

    @operation("subscriptions.see")
    async def show(self, id: str, *, tenant: str | None = None) -> SubscriptionInfo:
        """One subscription. Raises SubscriptionNotFound."""
        return subscription_info(await self._row(id, self._app.tenant_of(tenant)))

    @operation("subscriptions.change")
    async def change(
        self,
        id: str,
        *,
        url: str | None = None,
        events: Sequence[str] | None = None,
        workflows: Sequence[str] | None = None,
        name: str | None = None,
        tenant: str | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> SubscriptionInfo:
        """Change what is given; the rest stays. What waits to be delivered goes to the new address. Raises
        SubscriptionNotFound and InvalidRequest."""
        given: dict[str, Any] = {
            "url": None if url is None else read_url(url, "the URL").text,
            "events": None if events is None else s.check_events(events),
            "workflows": None if workflows is None else _patterns(workflows),
            "name": name,
        }
        changes = {field: value for field, value in given.items() if value is not None}
        return await self._changed(id, "change_subscription", changes, tenant, by, reason)

    @operation("subscriptions.change")
    async def disable(
        self, id: str, *, tenant: str | None = None, by: str | None = None, reason: str = ""
    ) -> SubscriptionInfo:
        """Tell it nothing more; what waits to be delivered fails. Raises SubscriptionNotFound."""
        why = reason or "disabled by request"
        return await self._changed(id, "disable_subscription", {"disabled": why}, tenant, by, reason)

    @operation("subscriptions.change")
    async def enable(
        self, id: str, *, tenant: str | None = None, by: str | None = None, reason: str = ""
    ) -> SubscriptionInfo:
        """Tell it of what happens from now on: not of what happened meanwhile. Raises SubscriptionNotFound."""
        changes = {"disabled": "", "since": self._app.clock.now()}
        return await self._changed(id, "enable_subscription", changes, tenant, by, reason)

    @operation("subscriptions.change")
    async def rotate(
        self,
        id: str,
        *,
        secret: str | None = None,
        overlap_seconds: float = OVERLAP_SECONDS,
        tenant: str | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> MadeSubscription:
        """Give it a new secret, which is shown only now, or the given one. For the overlap every delivery is signed
        with the one before it, too. Raises SubscriptionNotFound, and InvalidRequest where its secret has a name."""
        app, tenant = self._app, self._app.tenant_of(tenant)
        texts: list[str] = []

        async def change(present: p.ItemRow | None) -> Change:
            subscription = s.read(found(present, _missing(id, tenant)), s.WebhookSubscription)
            if subscription.secret_name:
                raise InvalidRequest(f"its secret is {subscription.secret_name} of the workers: change it there")
            text = chosen("standard", secret, "") or new_secret("standard")
            texts.append(text)
            taken = await self._taken(id, subscription)
            return _change(taken, await rotated(app, tenant, "out", id, text, overlap_seconds))

        key = s.subscription_key(tenant, id)
        row = await change_item(app, key, "rotate_subscription", change, by=by, reason=reason)
        return MadeSubscription(subscription=subscription_info(row), secret=texts[-1])

    # -- deliveries ----------------------------------------------------------------------------------------------------

    @operation("subscriptions.see")
    async def deliveries(
        self,
        id: str,
        *,
        status: s.DeliveryStatus | None = None,
        limit: int = PAGE,
        after: str | None = None,
        tenant: str | None = None,
    ) -> Sequence[DeliveryInfo]:
        """The deliveries of a subscription, the newest first; ``after`` is the id of the last one that was seen. Raises
        SubscriptionNotFound."""
        tenant = self._app.tenant_of(tenant)
        await self._row(id, tenant)
        first = s.delivery_key(tenant, id, "")
        behind = s.delivery_key(tenant, id, after or "")
        rows = await self._app.store.items(s.DELIVERY, limit, tenant=tenant, status=status, after=behind)
        return [delivery_info(row) for row in rows if row.id.startswith(first.id)]

    @operation("subscriptions.see")
    async def delivery(self, id: str, message: str, *, tenant: str | None = None) -> DeliveryInfo:
        """One delivery, by its ``webhook-id``. Raises DeliveryNotFound."""
        key = s.delivery_key(self._app.tenant_of(tenant), id, message)
        return delivery_info(found(await self._app.store.item(key), _no_delivery(id, message)))

    @operation("subscriptions.change")
    async def resend(
        self, id: str, message: str, *, tenant: str | None = None, by: str | None = None, reason: str = ""
    ) -> DeliveryInfo:
        """Send a delivery again, with the same id and body; a worker does so within seconds, and tries as often as for
        a new one. Raises DeliveryNotFound."""
        now = self._app.clock.now()

        def change(present: p.ItemRow | None) -> Change:
            delivery = s.read(found(present, _no_delivery(id, message)), s.Delivery)
            return Change(s.write(replace(delivery, tries=0)), "pending", now, {"subscription": id})

        key = s.delivery_key(self._app.tenant_of(tenant), id, message)
        return delivery_info(await change_item(self._app, key, "resend_delivery", change, by=by, reason=reason))

    @operation("subscriptions.change")
    async def ping(self, id: str, *, tenant: str | None = None, by: str | None = None) -> DeliveryInfo:
        """Send an event of the type ``ping``, to see whether it arrives. Raises SubscriptionNotFound."""
        app, tenant, now = self._app, self._app.tenant_of(tenant), self._app.clock.now()
        await self._row(id, tenant)
        delivery = s.Delivery(type=s.PING, body=body_of(s.PING, now, {"tenant": tenant}), made_at=now)
        key = s.delivery_key(tenant, id, s.message_id(now, app.token().replace("-", "")[::-1]))
        change = Change(s.write(delivery), "pending", now, {"subscription": id})
        return delivery_info(await change_item(app, key, "ping_subscription", lambda _: change, by=by))

    async def _row(self, id: str, tenant: str) -> p.ItemRow:
        return found(await self._app.store.item(s.subscription_key(tenant, id)), _missing(id, tenant))

    async def _changed(
        self, id: str, act: str, changes: dict[str, Any], tenant: str | None, by: str | None, reason: str
    ) -> SubscriptionInfo:
        tenant = self._app.tenant_of(tenant)

        async def change(present: p.ItemRow | None) -> Change:
            subscription = s.read(found(present, _missing(id, tenant)), s.WebhookSubscription)
            after = replace(subscription, **changes)
            return _change(after if after.tells_no_more_than(subscription) else await self._taken(id, after))

        key = s.subscription_key(tenant, id)
        return subscription_info(await change_item(self._app, key, act, change, by=by, reason=reason))

    async def _taken(self, id: str, subscription: s.WebhookSubscription) -> s.WebhookSubscription:
        """The subscription as the caller's, who altered it. Raises NotPermitted."""
        await self._require(id, subscription)
        caller = self._app.caller
        return subscription if caller is None else replace(subscription, made_by=caller.user)

    async def _require(self, id: str, subscription: s.WebhookSubscription) -> None:
        """The caller may see what it reports. Raises NotPermitted."""
        seen = {f"{type.partition('.')[0]}s.see" for type in s.EVENT_TYPES if subscription.hears(type)}
        await require_later(self._app, f"subscription {id}", sorted(seen))


def _change(subscription: s.WebhookSubscription, beside: tuple[p.PutItem, ...] = ()) -> Change:
    host = read_url(subscription.url, "the URL").host  # the rest of a URL may be a secret
    details = {"host": host, "events": ",".join(subscription.events)}
    return Change(s.write(subscription), subscription.status, details=details, beside=beside)


def _missing(id: str, tenant: str) -> SubscriptionNotFound:
    return SubscriptionNotFound(f"there is no subscription {id!r} in tenant {tenant!r}.")


def _no_delivery(id: str, message: str) -> DeliveryNotFound:
    return DeliveryNotFound(f"subscription {id!r} has no delivery {message!r:.80}.")


def _patterns(workflows: object) -> tuple[str, ...]:
    if not isinstance(workflows, list | tuple) or not all(isinstance(each, str) and each for each in workflows):
        raise InvalidRequest(f"workflows are a list of names, such as ['claims.*'], not {workflows!r:.60}")
    return tuple(dict.fromkeys(workflows))
