"""A webhook: an address at which others tell us something, and what is done then, in whose name.

Texts that begin with ``=`` are expressions over ``payload`` (the body), ``headers`` (by small letters) and ``delivery``
(its ``id``, and ``at``, when it came); others stand for themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.errors import InvalidRequest, StoreCorrupt
from holdfast.expressions.engine import CannotEvaluate, InvalidExpression
from holdfast.expressions.expression import Expression
from holdfast.expressions.shapes import BOOL, DYN, STRING, TIMESTAMP, ValueShape, map_of
from holdfast.expressions.turns import in_turn
from holdfast.runs.birth import ID_LIMIT
from holdfast.store.items import ItemKey, ItemRow
from holdfast.webhooks.signatures import Scheme

WEBHOOK: Final = "webhook"
"""The kind of the item, and the type of the trigger of what it starts."""
ANSWERED: Final = "webhook_answer"
"""The kind of the item that remembers what came of a delivery, where nothing else does."""
REMEMBERED_DAYS: Final = 30
"""How long it is remembered: a repetition that comes later is a new delivery."""

ACTIVE: Final = "active"
DISABLED: Final = "disabled"

_ROOTS: Final[Mapping[str, ValueShape]] = {
    "payload": DYN,
    "headers": DYN,
    "delivery": map_of({"id": STRING, "at": TIMESTAMP}),
}


class EmitEvent(
    msgspec.Struct, frozen=True, tag="emit", tag_field="do", omit_defaults=True, forbid_unknown_fields=True
):
    """Tell the tenant's templates of an event. ``data`` is the payload unless an expression says otherwise."""

    event: str
    data: str = ""


class StartTemplate(
    msgspec.Struct, frozen=True, tag="start", tag_field="do", omit_defaults=True, forbid_unknown_fields=True
):
    """Start an instance of a template. ``input`` is the payload unless an expression says otherwise."""

    template: str
    input: str = ""


class SignalRun(
    msgspec.Struct, frozen=True, tag="signal", tag_field="do", omit_defaults=True, forbid_unknown_fields=True
):
    """Send a signal to a run. ``value`` is the payload unless an expression says otherwise. With a ``key``, a text or
    an expression, only a definition that waits for this name and key gets it."""

    run: str
    signal: str
    value: str = ""
    key: str = ""


WebhookAct = EmitEvent | StartTemplate | SignalRun


def operation_of(act: WebhookAct) -> str:
    """The operation that a delivery does, by which the webhook's user is judged."""
    match act:
        case EmitEvent():
            return "events.emit"
        case StartTemplate():
            return "templates.start"
        case SignalRun():
            return "runs.signal"


class Webhook(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a webhook's item says. ``secret_name`` is a secret of the server; without one the secret is kept here."""

    does: WebhookAct
    user: str
    made_at: int
    name: str = ""
    scheme: Scheme = "standard"
    header: str = ""
    id_header: str = ""
    secret_name: str = ""
    filter: str = ""
    disabled: bool = False

    @property
    def status(self) -> str:
        return DISABLED if self.disabled else ACTIVE

    def does_more_than(self, before: Webhook) -> bool:
        """Whether it does something, or takes deliveries, that it did not before."""
        is_altered = (self.does, self.filter) != (before.does, before.filter)
        return is_altered or (before.disabled and not self.disabled)


class Incoming(NamedTuple):
    """A delivery whose sender is proved, as expressions see it."""

    id: str
    payload: Any
    headers: Mapping[str, str]
    at: datetime

    @property
    def variables(self) -> dict[str, Any]:
        return {
            "payload": self.payload,
            "headers": dict(self.headers),
            "delivery": {"id": self.id, "at": self.at},
        }


_decoder = msgspec.json.Decoder(Webhook)


def webhook_key(tenant: str, id: str) -> ItemKey:
    return ItemKey(tenant, WEBHOOK, id)


def read_webhook(row: ItemRow) -> Webhook:
    """The webhook of an item. Raises StoreCorrupt."""
    try:
        return _decoder.decode(row.body)
    except msgspec.MsgspecError as error:
        raise StoreCorrupt(f"the webhook {row.id!r} of tenant {row.tenant!r} cannot be read: {error}") from error


def write_webhook(webhook: Webhook) -> bytes:
    return msgspec.json.encode(webhook)


_TEXTS: Final = {"event", "template", "run", "signal"}


def check_texts(webhook: Webhook) -> Webhook:
    """The webhook, whose expressions can be used. Raises InvalidRequest with all that is wrong."""
    faults: list[str] = []
    if webhook.filter and not webhook.filter.startswith("="):
        faults.append("the filter is an expression, and begins with =")
    if webhook.filter.startswith("="):
        faults.extend(_faults("filter", webhook.filter, BOOL))
    for field in msgspec.structs.fields(webhook.does):
        text: str = getattr(webhook.does, field.name)
        if text.startswith("="):
            faults.extend(_faults(field.name, text, None))
        elif field.name in _TEXTS and not (0 < len(text) <= ID_LIMIT and text.isprintable()):
            faults.append(f"{field.name} is 1 to {ID_LIMIT} printable characters, or an expression that begins with =")
        elif field.name not in (*_TEXTS, "key") and text:
            faults.append(f"{field.name} is an expression, and begins with =")
    if faults:
        raise InvalidRequest("; ".join(faults))
    return webhook


def _faults(what: str, text: str, wanted: ValueShape | None) -> list[str]:
    try:
        Expression(text[1:], _ROOTS, wanted)
    except InvalidExpression as error:
        return [f"{what} `{text}` cannot be used: {error}"]
    return []


@lru_cache(maxsize=1024)
def _expression(text: str) -> Expression:
    return Expression(text, _ROOTS, lazily=True, at_once=True)


async def is_for(webhook: Webhook, incoming: Incoming) -> bool:
    """Whether something is done about a delivery. Raises InvalidRequest."""
    return not webhook.filter or await value_of(webhook.filter, incoming, "filter") is True


async def value_of(text: str, incoming: Incoming, what: str) -> Any:
    """What a text of a webhook means for a delivery; the payload where it is empty. Raises InvalidRequest."""
    if not text:
        return incoming.payload
    if not text.startswith("="):
        return text
    try:
        return await in_turn(_expression(text[1:]).evaluate, incoming.variables)
    except CannotEvaluate as error:
        raise InvalidRequest(f"the webhook's {what} has no value for this payload: {error}") from None


async def text_of(text: str, incoming: Incoming, what: str) -> str:
    """The same where a text is wanted. Raises InvalidRequest."""
    found = await value_of(text, incoming, what)
    if not isinstance(found, str) or not found or len(found) > ID_LIMIT:
        raise InvalidRequest(f"the webhook's {what} gives no text of 1 to {ID_LIMIT} characters for this payload")
    return found
