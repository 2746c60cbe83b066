"""Webhooks: what others tell us, what they are told, and what could not be delivered."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.datastructures import FormData

from holdfast.errors import InvalidRequest
from holdfast.people.permissions import LEAST, in_scope
from holdfast.server.call import RouteCall
from holdfast.server.console.page import ConsoleForm, ConsolePage, Context, Done, ShownInstead
from holdfast.server.console.typed import reason_of, text_of
from holdfast.webhooks.subscription import EVENT_TYPES
from holdfast.webhooks.webhook import EmitEvent, SignalRun, StartTemplate, WebhookAct

SHOWN: Final = 20
"""How many deliveries of each state a page shows."""
SENT_AT_ONCE: Final = 100
SCHEMES: Final = {
    "standard": "Standard Webhooks",
    "github": "GitHub: X-Hub-Signature-256",
    "hmac": "HMAC-SHA256 of the body",
}


async def load(call: RouteCall[Any, None]) -> Context:
    client, tenant = call.client, call.tenant
    has_subscriptions = await _may(call, "subscriptions.see")
    found = [each async for each in client.subscriptions.list(tenant=tenant)] if has_subscriptions else []
    failed = {
        each.id: list(await client.subscriptions.deliveries(each.id, status="failed", limit=SHOWN, tenant=tenant))
        for each in found
    }
    return {
        "webhooks": [each async for each in client.webhooks.list(tenant=tenant)],
        "subscriptions": sorted(found, key=lambda each: (not failed[each.id] and not each.disabled, each.id)),
        "failed": failed,
        "shown": SHOWN,
        "sees_subscriptions": has_subscriptions,
        "schemes": SCHEMES,
        "types": EVENT_TYPES,
    }


async def _may(call: RouteCall[Any, None], operation: str) -> bool:
    caller = await call.client.whoami()
    return caller is None or (caller.level >= LEAST[operation] and in_scope(operation, caller.scope))


async def load_webhook(call: RouteCall[Any, None]) -> Context:
    found = await call.client.webhooks.show(call.path["webhook"], tenant=call.tenant)
    address = f"{str(call.request.base_url).rstrip('/')}{found.path}"
    return {"webhook": found, "does": msgspec.to_builtins(found.does), "hook_url": address, "schemes": SCHEMES}


async def load_subscription(call: RouteCall[Any, None]) -> Context:
    id, subscriptions = call.path["subscription"], call.client.subscriptions
    found = await subscriptions.show(id, tenant=call.tenant)
    states: tuple[Any, ...] = ("failed", "pending", "delivered")
    deliveries = {
        state: list(await subscriptions.deliveries(id, status=state, limit=SHOWN, tenant=call.tenant))
        for state in states
    }
    return {"subscription": found, "deliveries": deliveries, "shown": SHOWN}


# -- webhooks in -------------------------------------------------------------------------------------------------------


def _does(typed: FormData) -> WebhookAct:
    kind, target, value = (text_of(typed, name) for name in ("does", "target", "value"))
    match kind:
        case "start":
            return StartTemplate(target, value)
        case "emit":
            return EmitEvent(target, value)
        case "signal":
            return SignalRun(target, text_of(typed, "signal"), value)
    raise InvalidRequest("choose what it does: start a template, emit an event or signal a run.")


def _user(typed: FormData) -> str | None:
    """In whose name it is to act; None if the form names no user."""
    return text_of(typed, "user") or None


async def _myself(call: RouteCall[Any, None]) -> str | None:
    """The name of an operator; everybody else is known to the client."""
    return call.by if await call.client.whoami() is None else None


async def create_webhook(call: RouteCall[Any, None], typed: FormData) -> ShownInstead:
    scheme: Any = text_of(typed, "scheme") or "standard"
    made = await call.client.webhooks.create(
        text_of(typed, "id"),
        _does(typed),
        user=_user(typed) or await _myself(call),
        scheme=scheme,
        header=text_of(typed, "header"),
        filter=text_of(typed, "filter"),
        **_why(call, typed),
    )
    return _secret(f"webhook {made.webhook.id}", made.secret, ("webhooks", "in", made.webhook.id))


async def disable_webhook(call: RouteCall[Any, None], typed: FormData) -> Done:
    await call.client.webhooks.change(call.path["webhook"], disabled=True, **_why(call, typed))
    return _back(call, "webhook", "It refuses every delivery until it is enabled.")


async def enable_webhook(call: RouteCall[Any, None], typed: FormData) -> Done | ShownInstead:
    id = call.path["webhook"]
    changed = await call.client.webhooks.change(id, disabled=False, user=_user(typed), **_why(call, typed))
    if changed.secret is not None:  # another user has enabled it: it acts in their name, and the secret before it ends
        return _secret(f"webhook {id}", changed.secret, ("webhooks", "in", id))
    return _back(call, "webhook", "It takes deliveries again.")


async def rotate_webhook(call: RouteCall[Any, None], typed: FormData) -> ShownInstead:
    id, overlap = call.path["webhook"], _overlap(typed)
    made = await call.client.webhooks.rotate(id, user=_user(typed), **overlap, **_why(call, typed))
    return _secret(f"webhook {id}", made.secret, ("webhooks", "in", id))


# -- subscriptions -----------------------------------------------------------------------------------------------------


async def create_subscription(call: RouteCall[Any, None], typed: FormData) -> ShownInstead:
    made = await call.client.subscriptions.create(
        text_of(typed, "id"),
        text_of(typed, "url"),
        _names(typed, "events"),
        workflows=_names(typed, "workflows"),
        **_why(call, typed),
    )
    id = made.subscription.id
    return _secret(f"subscription {id}", made.secret, ("webhooks", "out", id))


async def disable(call: RouteCall[Any, None], typed: FormData) -> Done:
    await call.client.subscriptions.disable(call.path["subscription"], **_why(call, typed))
    return _back(call, "subscription", "It is told nothing until it is enabled.")


async def enable(call: RouteCall[Any, None], typed: FormData) -> Done:
    await call.client.subscriptions.enable(call.path["subscription"], **_why(call, typed))
    return _back(call, "subscription", "It is told of what happens from now on.")


async def rotate(call: RouteCall[Any, None], typed: FormData) -> ShownInstead:
    id, overlap = call.path["subscription"], _overlap(typed)
    made = await call.client.subscriptions.rotate(id, **overlap, **_why(call, typed))
    return _secret(f"subscription {id}", made.secret, ("webhooks", "out", id))


async def ping(call: RouteCall[Any, None], _: FormData) -> Done:
    await call.client.subscriptions.ping(call.path["subscription"], tenant=call.tenant, by=call.by)
    return _back(call, "subscription", "A ping is on its way.")


async def resend(call: RouteCall[Any, None], typed: FormData) -> Done:
    """Send one delivery again, or all that failed, at most a hundred at a time."""
    id, subscriptions, why = call.path["subscription"], call.client.subscriptions, _why(call, typed)
    messages = [text_of(typed, "message")]
    if messages == [""]:
        failed = await subscriptions.deliveries(id, status="failed", limit=SENT_AT_ONCE, tenant=call.tenant)
        messages = [each.id for each in failed]
    for message in messages:
        await subscriptions.resend(id, message, **why)
    return _back(call, "subscription", f"{len(messages)} {'is' if len(messages) == 1 else 'are'} sent again.")


# -- what both share ---------------------------------------------------------------------------------------------------


def _names(typed: FormData, name: str) -> list[str]:
    return text_of(typed, name).replace(",", " ").split()


def _overlap(typed: FormData) -> dict[str, Any]:
    """The old secret ends now where that is asked for; else it counts for a day."""
    return {"overlap_seconds": 0.0} if typed.get("now") is not None else {}


def _why(call: RouteCall[Any, None], typed: FormData) -> dict[str, Any]:
    return {"tenant": call.tenant, "by": call.by, "reason": reason_of(typed)}


def _secret(what: str, secret: str | None, back: tuple[str, ...]) -> ShownInstead:
    return ShownInstead(template="secret.html", context={"what": what, "secret": secret, "back": back})


def _back(call: RouteCall[Any, None], kind: str, words: str) -> Done:
    return Done(path=("webhooks", "in" if kind == "webhook" else "out", call.path[kind]), words=words)


WEBHOOKS = ConsolePage(
    path="/webhooks",
    operation="webhooks.see",
    words="What others tell us and are told, and what could not be delivered.",
    load=load,
    template="webhooks.html",
    data="/v1/webhooks",
)
WEBHOOK = ConsolePage(
    path="/webhooks/in/{webhook}",
    operation="webhooks.see",
    words="A webhook: its address, what it does, and in whose name.",
    load=load_webhook,
    template="webhook.html",
    data="/v1/webhooks/{webhook}",
)
SUBSCRIPTION = ConsolePage(
    path="/webhooks/out/{subscription}",
    operation="subscriptions.see",
    words="A subscription: what it is told, and its deliveries, failed ones first.",
    load=load_subscription,
    template="subscription.html",
    data="/v1/subscriptions/{subscription}",
)


def _in(name: str, words: str, act: Any) -> ConsoleForm:
    path = f"/webhooks/in/{{webhook}}/{name}"
    return ConsoleForm(path=path, operation="webhooks.change", words=words, act=act, page=WEBHOOK)


def _out(name: str, words: str, act: Any) -> ConsoleForm:
    path = f"/webhooks/out/{{subscription}}/{name}"
    return ConsoleForm(path=path, operation="subscriptions.change", words=words, act=act, page=SUBSCRIPTION)


PAGES = (WEBHOOKS, WEBHOOK, SUBSCRIPTION)
FORMS = (
    ConsoleForm(
        path="/webhooks/in", operation="webhooks.change", words="Make a webhook.", act=create_webhook, page=WEBHOOKS
    ),
    ConsoleForm(
        path="/webhooks/out",
        operation="subscriptions.change",
        words="Tell an address of events.",
        act=create_subscription,
        page=WEBHOOKS,
    ),
    _in("disable", "Refuse every delivery.", disable_webhook),
    _in("enable", "Take deliveries again.", enable_webhook),
    _in("rotate", "Give it a new secret.", rotate_webhook),
    _out("disable", "Tell it nothing more.", disable),
    _out("enable", "Tell it of what happens from now on.", enable),
    _out("rotate", "Give it a new secret.", rotate),
    _out("ping", "Send it an event to see whether it arrives.", ping),
    _out("resend", "Send a delivery again, or all that failed.", resend),
)
