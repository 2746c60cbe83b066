"""Signals that a run has not received: they are in its inbox, or in its journal and no ``receive`` took them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from holdfast.client.views.mask import mask_of
from holdfast.client.views.times import iso, moment
from holdfast.client.views.values import payload_value, plain
from holdfast.journal import events as e
from holdfast.journal.payload import Payload
from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import SignalArrived
from holdfast.kernel.carried_signals import CarriedSignals
from holdfast.runs import messages
from holdfast.runs.carried import read_all
from holdfast.store.protocol import Message, Run, Store


class WaitingSignal(msgspec.Struct, frozen=True):
    """A signal that its run has not received. ``delivered`` is whether the journal has it already."""

    name: str
    value: Any
    at: datetime
    delivered: bool


class _Sent(NamedTuple):
    name: str
    payload: Payload
    at: int
    delivered: bool


async def unreceived(store: Store, run: Run, entries: Iterable[e.Entry]) -> list[WaitingSignal]:
    """The signals that the run has not received, in the order in which they came. Secrets are masked."""
    waiting: dict[tuple[str, int], _Sent] = {}
    for entry in entries:
        event = entry.event
        if isinstance(event, e.ExecutionStarted) and event.signals is not None:
            nodes = await read_all(store, run.key.tenant, event.signals)
            for name, number, payload in CarriedSignals(event.signals, nodes).signals():
                waiting[name, number] = _Sent(name, payload, entry.timestamp, delivered=True)
        elif isinstance(event, e.SignalDelivered) and event.signal_name != e.RETRY:  # which is never received
            sent = _Sent(event.signal_name, event.payload, entry.timestamp, delivered=True)
            waiting[event.signal_name, event.delivery_id] = sent
        elif isinstance(event, e.SignalReceived):
            waiting.pop((event.signal_name, event.delivery_id), None)
    inbox = (await store.messages([run.key])).get(run.key, [])
    mask = await mask_of(store, run)
    signals = [*waiting.values(), *_in_inbox(run, [each.message for each in inbox])]
    return [
        WaitingSignal(each.name, payload_value(mask.payload(each.payload)), moment(each.at), each.delivered)
        for each in signals
    ]


def _in_inbox(run: Run, inbox: Iterable[Message]) -> list[_Sent]:
    signals = [(message, messages.read(message, PromiseId(run.root))) for message in inbox if message.kind == "signal"]
    return [
        _Sent(arrival.name, arrival.payload, message.at, delivered=False)
        for message, arrival in signals
        if isinstance(arrival, SignalArrived)
    ]


def signal_record(signal: WaitingSignal) -> dict[str, Any]:
    """A signal as ``--json`` writes it."""
    return {"name": signal.name, "value": plain(signal.value), "at": iso(signal.at), "in_journal": signal.delivered}
