"""Webhooks, subscriptions and deliveries as people and programs see them. Nothing here has a secret in it."""

from __future__ import annotations

import datetime

import msgspec

from holdfast.client.views.times import moment
from holdfast.runs.addresses import path_part
from holdfast.store.protocol import ItemRow
from holdfast.webhooks.signatures import Scheme
from holdfast.webhooks.subscription import Delivery, DeliveryStatus, WebhookSubscription, parts_of, read
from holdfast.webhooks.webhook import WebhookAct, read_webhook


class WebhookInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook. ``path`` is its address below that of the server; ``user`` is in whose name it acts."""

    id: str
    tenant: str
    name: str
    status: str
    path: str
    scheme: Scheme
    header: str
    id_header: str
    secret_name: str
    does: WebhookAct
    filter: str
    user: str
    made_at: datetime.datetime


class ChangedWebhook(WebhookInfo, frozen=True, kw_only=True):
    """A webhook after a change. ``secret`` is its new one, which is shown only now, if the change ended the one
    before it; else None."""

    secret: str | None = None


class MadeWebhook(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook and its new secret, which is shown only now; None where it is the server's by name."""

    webhook: WebhookInfo
    secret: str | None


class WebhookOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of a delivery: emitted, started, signalled, or ignored by the filter. ``runs`` are what it started or
    signalled; ``repeated`` means that it had come before."""

    webhook: str
    delivery: str
    did: str
    runs: tuple[str, ...] = ()
    event: str = ""
    repeated: bool = False


class SubscriptionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription. ``disabled`` is why it is told nothing; ``since`` is when it was last enabled."""

    id: str
    tenant: str
    name: str
    status: str
    disabled: str
    url: str
    events: tuple[str, ...]
    workflows: tuple[str, ...]
    secret_name: str
    made_by: str
    since: datetime.datetime


class MadeSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription and its new secret, which is shown only now; None where it is the workers' by name."""

    subscription: SubscriptionInfo
    secret: str | None


class DeliveryInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One event for one subscription, and what came of its last try. ``id`` is its ``webhook-id``."""

    id: str
    subscription: str
    tenant: str
    type: str
    status: DeliveryStatus
    attempts: int
    made_at: datetime.datetime
    due_at: datetime.datetime | None
    last_at: datetime.datetime | None
    last_status: int | None
    last_problem: str
    delivered_at: datetime.datetime | None
    body: str


def webhook_info(row: ItemRow) -> WebhookInfo:
    webhook = read_webhook(row)
    return WebhookInfo(
        id=row.id,
        tenant=row.tenant,
        name=webhook.name,
        status=webhook.status,
        path=webhook_path(row.tenant, row.id),
        scheme=webhook.scheme,
        header=webhook.header,
        id_header=webhook.id_header,
        secret_name=webhook.secret_name,
        does=webhook.does,
        filter=webhook.filter,
        user=webhook.user,
        made_at=moment(webhook.made_at),
    )


def changed_webhook(row: ItemRow, secret: str | None) -> ChangedWebhook:
    return ChangedWebhook(**msgspec.structs.asdict(webhook_info(row)), secret=secret)


def webhook_path(tenant: str, id: str) -> str:
    """The path at which a webhook's deliveries are taken."""
    return f"/hooks/{path_part(tenant)}/{path_part(id)}"


def subscription_info(row: ItemRow) -> SubscriptionInfo:
    found = read(row, WebhookSubscription)
    return SubscriptionInfo(
        id=row.id,
        tenant=row.tenant,
        name=found.name,
        status=found.status,
        disabled=found.disabled,
        url=found.url,
        events=found.events,
        workflows=found.workflows,
        secret_name=found.secret_name,
        made_by=found.made_by,
        since=moment(found.since),
    )


def delivery_info(row: ItemRow) -> DeliveryInfo:
    found = read(row, Delivery)
    subscription, message = parts_of(row.key)
    return DeliveryInfo(
        id=message,
        subscription=subscription,
        tenant=row.tenant,
        type=found.type,
        status=msgspec.convert(row.status, DeliveryStatus),
        attempts=found.attempts,
        made_at=moment(found.made_at),
        due_at=moment(row.due_at) if row.status == "pending" else None,
        last_at=moment(found.last_at),
        last_status=found.last_status,
        last_problem=found.last_problem,
        delivered_at=moment(found.delivered_at),
        body=found.body,
    )
