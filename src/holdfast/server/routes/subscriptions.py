"""Subscriptions: addresses that this engine tells of what happens."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from holdfast.client.views.webhooks import DeliveryInfo, MadeSubscription, SubscriptionInfo
from holdfast.server.call import RouteCall
from holdfast.server.fields import Limit, Name, Reason, ReasonBody, Text
from holdfast.server.route import Nothing, Route
from holdfast.server.routes.webhooks import RotateBody, SecretText
from holdfast.webhooks.subscription import DeliveryStatus

EventPatterns = Annotated[
    list[Name], msgspec.Meta(min_length=1, max_length=50, description="As `run.failed`, `task.*`.")
]
WorkflowPatterns = Annotated[
    list[Name], msgspec.Meta(max_length=100, description="Names of workflows; `*` for several.")
]


class SubscriptionBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is changed of a subscription."""

    url: Text | None = None
    events: EventPatterns | None = None
    workflows: WorkflowPatterns | None = None
    name: Text | None = None
    reason: Reason = ""


class NewSubscription(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A subscription to be made."""

    id: Name
    url: Text
    events: EventPatterns
    workflows: WorkflowPatterns = []
    secret: SecretText | None = None
    secret_name: Text = ""
    name: Text = ""
    reason: Reason = ""


class DeliveryQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which deliveries, the newest first; `after` is the id of the last one that was seen."""

    status: DeliveryStatus | None = None
    limit: Limit = 100
    after: Text | None = None


async def list_subscriptions(call: RouteCall[Nothing, None]) -> list[SubscriptionInfo]:
    return [each async for each in call.client.subscriptions.list(tenant=call.tenant)]


async def create(call: RouteCall[Nothing, NewSubscription]) -> MadeSubscription:
    said = _said(call)
    made = call.client.subscriptions.create(said.pop("id"), said.pop("url"), said.pop("events"), **said)
    return await made


async def show(call: RouteCall[Nothing, None]) -> SubscriptionInfo:
    return await call.client.subscriptions.show(_id(call), tenant=call.tenant)


async def change(call: RouteCall[Nothing, SubscriptionBody]) -> SubscriptionInfo:
    return await call.client.subscriptions.change(_id(call), **_said(call))


async def disable(call: RouteCall[Nothing, ReasonBody]) -> SubscriptionInfo:
    return await call.client.subscriptions.disable(_id(call), **_said(call))


async def enable(call: RouteCall[Nothing, ReasonBody]) -> SubscriptionInfo:
    return await call.client.subscriptions.enable(_id(call), **_said(call))


async def rotate(call: RouteCall[Nothing, RotateBody]) -> MadeSubscription:
    return await call.client.subscriptions.rotate(_id(call), **_said(call))


async def ping(call: RouteCall[Nothing, ReasonBody]) -> DeliveryInfo:
    return await call.client.subscriptions.ping(_id(call), tenant=call.tenant, by=call.by)


async def deliveries(call: RouteCall[DeliveryQuery, None]) -> list[DeliveryInfo]:
    query = call.query
    found = call.client.subscriptions.deliveries(
        _id(call), status=query.status, limit=query.limit, after=query.after, tenant=call.tenant
    )
    return list(await found)


async def delivery(call: RouteCall[Nothing, None]) -> DeliveryInfo:
    return await call.client.subscriptions.delivery(_id(call), call.path["message"], tenant=call.tenant)


async def resend(call: RouteCall[Nothing, ReasonBody]) -> DeliveryInfo:
    return await call.client.subscriptions.resend(_id(call), call.path["message"], **_said(call))


def _id(call: RouteCall[Any, Any]) -> str:
    return call.path["subscription"]


def _said(call: RouteCall[Any, Any]) -> dict[str, Any]:
    body = call.body
    return {**{name: getattr(body, name) for name in body.__struct_fields__}, "tenant": call.tenant, "by": call.by}


SUBSCRIPTION: Final = "/v1/subscriptions/{subscription}"
DELIVERY: Final = f"{SUBSCRIPTION}/deliveries/{{message}}"


def _see(path: str, words: str, handler: Any, answer: Any, query: Any = Nothing) -> Route:
    return Route(
        method="GET",
        path=path,
        operation="subscriptions.see",
        words=words,
        handler=handler,
        query=query,
        answer=answer,
    )


def _change(path: str, words: str, handler: Any, answer: Any = SubscriptionInfo, body: Any = ReasonBody) -> Route:
    return Route(
        method="POST",
        path=path,
        operation="subscriptions.change",
        words=words,
        handler=handler,
        body=body,
        answer=answer,
    )


ROUTES: Final = (
    _see(
        "/v1/subscriptions", "List the subscriptions. No secret is shown.", list_subscriptions, list[SubscriptionInfo]
    ),
    Route(
        method="POST",
        path="/v1/subscriptions",
        operation="subscriptions.change",
        words="Tell an address of events. Its secret is in this answer, and never again.",
        handler=create,
        body=NewSubscription,
        answer=MadeSubscription,
        status=201,
    ),
    _see(SUBSCRIPTION, "Show a subscription.", show, SubscriptionInfo),
    Route(
        method="PATCH",
        path=SUBSCRIPTION,
        operation="subscriptions.change",
        words="Change what is given; the rest stays.",
        handler=change,
        body=SubscriptionBody,
        answer=SubscriptionInfo,
    ),
    _change(f"{SUBSCRIPTION}/disable", "Tell it nothing more. What waits to be delivered fails.", disable),
    _change(f"{SUBSCRIPTION}/enable", "Tell it of what happens from now on.", enable),
    _change(
        f"{SUBSCRIPTION}/rotate",
        "Give it a new secret, which is in this answer, and never again. For the overlap both sign.",
        rotate,
        MadeSubscription,
        RotateBody,
    ),
    _change(f"{SUBSCRIPTION}/ping", "Send an event of the type `ping`, to see whether it arrives.", ping, DeliveryInfo),
    _see(f"{SUBSCRIPTION}/deliveries", "List its deliveries.", deliveries, list[DeliveryInfo], DeliveryQuery),
    _see(DELIVERY, "Show a delivery and what came of its last try.", delivery, DeliveryInfo),
    _change(f"{DELIVERY}/resend", "Send a delivery again, with the same id and body.", resend, DeliveryInfo),
)
