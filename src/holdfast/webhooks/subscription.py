"""A subscription: an address of somebody else that is told, signed, of what happens in a tenant.

What it is told of are sealed entries of the tenant's audit, from a kept place on. Each becomes a delivery: an item that
is due until the address has taken it, or until it was tried for days.

| a delivery is | event | then it is |
|---|---|---|
| pending | the address answers 2xx | delivered |
| pending | it does not, and tries are left | pending, due later |
| pending | it does not, and none is left; or the subscription is over | failed |
| delivered, failed | a person sends it again | pending, due now |
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final, Literal, TypeVar

import msgspec

from holdfast.errors import InvalidRequest, StoreCorrupt
from holdfast.store.items import ItemKey, ItemRow

SUBSCRIPTION: Final = "subscription"
PLACE: Final = "subscription_place"
"""The kind of the item that says how far a subscription has come in the audit."""
DELIVERY: Final = "delivery"

ACTIVE: Final = "active"
DISABLED: Final = "disabled"

DeliveryStatus = Literal["pending", "delivered", "failed"]

RUN_EVENTS: Final = ("started", "completed", "failed", "cancelled", "parked", "paused", "resumed", "retried")
TASK_EVENTS: Final = (
    "opened",
    "claimed",
    "released",
    "assigned",
    "delegated",
    "reminded",
    "escalated",
    "completed",
    "expired",
    "cancelled",
)
EVENT_TYPES: Final = (*(f"run.{each}" for each in RUN_EVENTS), *(f"task.{each}" for each in TASK_EVENTS))
PING: Final = "ping"
"""The type of an event that is sent by hand, to see whether it arrives."""

MINUTE: Final = 60
HOUR: Final = 3600
RETRY_SECONDS: Final = (
    5,
    5 * MINUTE,
    30 * MINUTE,
    2 * HOUR,
    5 * HOUR,
    10 * HOUR,
    14 * HOUR,
    20 * HOUR,
    24 * HOUR,
)
"""How long after each failed try the next one is: the schedule of Standard Webhooks, three days in all."""

_MARK: Final = "~"
_MOST: Final = 10**16 - 1

T = TypeVar("T", bound=msgspec.Struct)


class WebhookSubscription(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a subscription's item says. ``since`` is when it was last enabled: nothing older is told."""

    url: str
    events: tuple[str, ...]
    since: int
    made_by: str
    workflows: tuple[str, ...] = ()
    name: str = ""
    secret_name: str = ""
    disabled: str = ""  # why it is

    @property
    def status(self) -> str:
        return DISABLED if self.disabled else ACTIVE

    def tells_no_more_than(self, before: WebhookSubscription) -> bool:
        """Whether it reports the same to the same address, or nothing any more."""
        is_same = (self.url, self.events, self.workflows) == (before.url, before.events, before.workflows)
        return is_same and bool(self.disabled or not before.disabled)

    def hears(self, type: str) -> bool:
        """Whether it is told of events of this type. Patterns are as in ``task.*``."""
        return any(fnmatchcase(type, pattern) for pattern in self.events)

    def wants(self, type: str, workflow: str) -> bool:
        """Whether it is told of this."""
        if not self.hears(type):
            return False
        return not self.workflows or any(fnmatchcase(workflow, pattern) for pattern in self.workflows)


class AuditPlace(msgspec.Struct, frozen=True):
    """The last entry of the audit that a subscription was told of, or that is not for it; by its sequence."""

    sequence: int


class Delivery(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One event for one subscription. ``body`` is sent as it is, in every try."""

    type: str
    body: str
    made_at: int
    attempts: int = 0
    tries: int = 0  # since it was made, or last sent again by hand
    last_at: int | None = None
    last_status: int | None = None
    last_problem: str = ""
    delivered_at: int | None = None


def subscription_key(tenant: str, id: str) -> ItemKey:
    return ItemKey(tenant, SUBSCRIPTION, id)


def place_key(tenant: str, id: str) -> ItemKey:
    return ItemKey(tenant, PLACE, id)


def delivery_key(tenant: str, subscription: str, message: str) -> ItemKey:
    """Subscriptions' ids have no mark in them, so the deliveries of one are neighbours."""
    return ItemKey(tenant, DELIVERY, f"{subscription}{_MARK}{message}")


def parts_of(key: ItemKey) -> tuple[str, str]:
    """The subscription and the message of a delivery."""
    subscription, _, message = key.id.rpartition(_MARK)
    return subscription, message


def message_id(at: int, digest: str) -> str:
    """The ``webhook-id`` of an event. Ids count down with time, so that lists by id show the newest first."""
    return f"msg_{_MOST - at:016d}{digest[:16]}"


def check_events(given: object) -> tuple[str, ...]:
    """Types of events, or patterns of them. Raises InvalidRequest."""
    if not isinstance(given, list | tuple) or not given:
        raise InvalidRequest(f"events are a list such as ['run.failed', 'task.*'], not {given!r:.60}")
    for each in given:
        if not isinstance(each, str) or not any(fnmatchcase(type, each) for type in EVENT_TYPES):
            raise InvalidRequest(f"{each!r:.60} is no event: there are {', '.join(EVENT_TYPES)}; and * for several")
    return tuple(dict.fromkeys(given))


def read(row: ItemRow, kind: type[T]) -> T:
    """What an item says. Raises StoreCorrupt."""
    try:
        return msgspec.json.decode(row.body, type=kind)
    except msgspec.MsgspecError as error:
        raise StoreCorrupt(f"the {row.kind} {row.id!r} of tenant {row.tenant!r} cannot be read: {error}") from error


def write(struct: msgspec.Struct) -> bytes:
    return msgspec.json.encode(struct)
