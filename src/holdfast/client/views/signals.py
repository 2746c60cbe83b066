"""Signals that a run has not received: in its inbox, or in its journal and not asked for yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.client.views.masking import veil_of
from holdfast.client.views.records import payload_value
from holdfast.client.views.times import iso
from holdfast.journal import events as e
from holdfast.journal.payload import Payload
from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import SignalArrived
from holdfast.runs import messages
from holdfast.store.protocol import Message, Run, Store


class WaitingSignal(msgspec.Struct, frozen=True):
    """A signal that nobody has received. ``delivered`` says whether a turn has taken it into the journal."""

    name: str
    payload: Payload
    at: int
    delivered: bool

    @property
    def value(self) -> Any:
        return payload_value(self.payload)


async def unreceived(store: Store, run: Run, entries: Iterable[e.Entry]) -> list[WaitingSignal]:
    """The signals that the run has not received, in the order in which they came. Secrets are masked."""
    waiting: dict[tuple[str, int], WaitingSignal] = {}
    for entry in entries:
        event = entry.event
        if isinstance(event, e.SignalDelivered):
            found = WaitingSignal(event.signal_name, event.payload, entry.timestamp, True)
            waiting[event.signal_name, event.delivery_id] = found
        elif isinstance(event, e.SignalReceived):
            waiting.pop((event.signal_name, event.delivery_id), None)
    inbox = (await store.messages([run.key])).get(run.key, [])
    veil = await veil_of(store, run)
    all_found = [*waiting.values(), *_in_inbox(run, [each.message for each in inbox])]
    return [msgspec.structs.replace(signal, payload=veil.payload(signal.payload)) for signal in all_found]


def _in_inbox(run: Run, found: Iterable[Message]) -> list[WaitingSignal]:
    signals = [(message, messages.read(message, PromiseId(run.root))) for message in found if message.kind == "signal"]
    return [
        WaitingSignal(arrival.name, arrival.payload, message.at, False)
        for message, arrival in signals
        if isinstance(arrival, SignalArrived)
    ]


def signal_record(signal: WaitingSignal) -> dict[str, Any]:
    """A signal as ``--json`` writes it."""
    return {"name": signal.name, "value": signal.value, "at": iso(signal.at), "in_journal": signal.delivered}
