"""What the workers of an engine do about items when they are due, by the kind of the item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from holdfast.client.people.refusals import REFUSALS, Refusals
from holdfast.client.retention import ItemRetention
from holdfast.client.templates.emitter import Emitter
from holdfast.people.sessions import SESSION
from holdfast.people.tokens import TOKEN
from holdfast.runs.duty import Duty
from holdfast.templates.routes import EVENT
from holdfast.webhooks.webhook import ANSWERED

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast


def duties_of(engine: Holdfast) -> Mapping[str, Duty]:
    """The duties of an engine that is bound to nobody."""
    retention = ItemRetention(engine)
    return {
        EVENT: Emitter(engine).finish,
        REFUSALS: Refusals(engine).settle,
        ANSWERED: retention.delete,
        SESSION: retention.delete,
        TOKEN: retention.delete,
    }
