"""Webhooks: addresses at which others tell this engine something."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from holdfast.client.views.webhooks import ChangedWebhook, MadeWebhook, WebhookInfo
from holdfast.server.call import RouteCall
from holdfast.server.fields import Name, Reason, Text
from holdfast.server.route import Nothing, Route
from holdfast.webhooks.signatures import Scheme
from holdfast.webhooks.webhook import WebhookAct

OverlapSeconds = Annotated[
    float, msgspec.Meta(ge=0, le=2_592_000, description="How long the secret before it still counts.")
]
SecretText = Annotated[str, msgspec.Meta(max_length=500, description="A secret; without one a new one is made.")]


class WebhookBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is changed of a webhook. What it does is an event to emit, a template to start, or a signal to send; texts
    that begin with `=` are expressions over `payload`, `headers` and `delivery`."""

    does: WebhookAct | None = None
    user: Name | None = None
    filter: Text | None = None
    name: Text | None = None
    disabled: bool | None = None
    reason: Reason = ""


class NewWebhook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A webhook to be made. `user` is in whose name it acts; by default yours."""

    id: Name
    does: WebhookAct
    user: Name | None = None
    scheme: Scheme = "standard"
    header: Text = ""
    id_header: Text = ""
    secret: SecretText | None = None
    secret_name: Text = ""
    filter: Text = ""
    name: Text = ""
    reason: Reason = ""


class RotateBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new secret."""

    secret: SecretText | None = None
    overlap_seconds: OverlapSeconds = 86_400.0
    reason: Reason = ""


class RotateWebhookBody(RotateBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new secret. `user` is in whose name the webhook acts from then on; by default yours."""

    user: Name | None = None


async def list_webhooks(call: RouteCall[Nothing, None]) -> list[WebhookInfo]:
    return [each async for each in call.client.webhooks.list(tenant=call.tenant)]


async def create(call: RouteCall[Nothing, NewWebhook]) -> MadeWebhook:
    said = _said(call.body)
    return await call.client.webhooks.create(said.pop("id"), said.pop("does"), tenant=call.tenant, by=call.by, **said)


async def show(call: RouteCall[Nothing, None]) -> WebhookInfo:
    return await call.client.webhooks.show(call.path["webhook"], tenant=call.tenant)


async def change(call: RouteCall[Nothing, WebhookBody]) -> ChangedWebhook:
    said = _said(call.body)
    return await call.client.webhooks.change(call.path["webhook"], tenant=call.tenant, by=call.by, **said)


async def rotate(call: RouteCall[Nothing, RotateWebhookBody]) -> MadeWebhook:
    said = _said(call.body)
    return await call.client.webhooks.rotate(call.path["webhook"], tenant=call.tenant, by=call.by, **said)


def _said(body: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(body, name) for name in body.__struct_fields__}


WEBHOOK: Final = "/v1/webhooks/{webhook}"

ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/webhooks",
        operation="webhooks.see",
        words="List the tenant's webhooks. No secret is shown.",
        handler=list_webhooks,
        answer=list[WebhookInfo],
    ),
    Route(
        method="POST",
        path="/v1/webhooks",
        operation="webhooks.change",
        words="Make a webhook. Its secret is in this answer, and never again.",
        handler=create,
        body=NewWebhook,
        answer=MadeWebhook,
        status=201,
    ),
    Route(
        method="GET",
        path=WEBHOOK,
        operation="webhooks.see",
        words="Show a webhook.",
        handler=show,
        answer=WebhookInfo,
    ),
    Route(
        method="PATCH",
        path=WEBHOOK,
        operation="webhooks.change",
        words="Change what is given; the rest stays. A disabled webhook refuses every delivery. Who changes what a "
        "webhook does, its filter, or enables it, becomes its user. If what it does or its user changes, the answer "
        "has a new secret, which is never shown again, and the one before it has ended.",
        handler=change,
        body=WebhookBody,
        answer=ChangedWebhook,
    ),
    Route(
        method="POST",
        path=f"{WEBHOOK}/rotate",
        operation="webhooks.change",
        words="Give a webhook a new secret, which is in this answer, and never again. It acts in your name from then "
        "on; the secret before it counts for the overlap only if its user stays.",
        handler=rotate,
        body=RotateWebhookBody,
        answer=MadeWebhook,
    ),
)
