"""The secrets that webhooks and subscriptions name, and the rule that no name serves both.

A delivery that a subscription signs would be accepted by a webhook that checks with the same secret. A table lets a
name have one use. Without a table the tenant's own items are looked through.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, Literal

from holdfast.errors import SecretRefused
from holdfast.store import protocol as p
from holdfast.transports.secret_keeper import SecretKeeper
from holdfast.transports.secrets import SecretUse, one_spelling
from holdfast.webhooks.subscription import SUBSCRIPTION, WebhookSubscription
from holdfast.webhooks.subscription import read as read_subscription
from holdfast.webhooks.webhook import WEBHOOK, read_webhook

HookUse = Literal["webhook", "subscription"]

PAGE: Final = 500


async def hook_secret(secrets: SecretKeeper, store: p.Store, use: HookUse, tenant: str, name: str) -> str:
    """The value that a tenant's webhook checks with, or its subscription signs with. Raises SecretMissing."""
    if not secrets.has_table and (other := await used_otherwise(store, use, tenant, name)):
        raise SecretRefused(f"the secret {name} is no {use}'s, because the {other} has it: give one of them another")
    return await secrets.value(name, SecretUse(tenant, use))


async def used_otherwise(store: p.Store, use: HookUse, tenant: str, name: str) -> str:
    """The tenant's subscription that signs with the name of a webhook, or its webhook that checks with the name of a
    subscription; empty where there is none."""
    other: HookUse = "subscription" if use == "webhook" else "webhook"
    async for row in named_items(store, other, tenant):
        if one_spelling(name_of(row)) == one_spelling(name):
            return f"{other} {row.id}"
    return ""


async def named_items(store: p.Store, use: HookUse, tenant: str | None = None) -> AsyncIterator[p.ItemRow]:
    """The webhooks, or subscriptions, of a tenant or of all, whose secret has a name."""
    kind = WEBHOOK if use == "webhook" else SUBSCRIPTION
    after: p.ItemKey | None = None
    while page := await store.items(kind, PAGE, tenant=tenant, after=after):
        for row in page:
            if name_of(row):
                yield row
        after = page[-1].key


def name_of(row: p.ItemRow) -> str:
    """The name of the secret of a webhook or a subscription."""
    return (
        read_webhook(row).secret_name
        if row.kind == WEBHOOK
        else read_subscription(row, WebhookSubscription).secret_name
    )
