"""Large payloads live beside the journal, addressed by content. Every path that writes or reads events goes through
here."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec

from holdfast.journal import events as e
from holdfast.journal.forms import FORM
from holdfast.journal.payload import Ok, Payload

THRESHOLD_BYTES: Final = 32 * 1024


def digest_of(data: bytes) -> bytes:
    """The name of a blob."""
    return hashlib.sha256(data).digest()


_FIELDS: Final = ("input", "result", "payload", "carried", "former", "signals")
"""The fields of events that hold a payload, or an outcome with one."""


def _payloads(event: e.Event) -> list[tuple[str, Payload]]:
    """The event's payloads, and the fields that hold them."""
    found = []
    for field in _FIELDS:
        value = getattr(event, field, None)
        payload = value.value if isinstance(value, Ok) else value
        if isinstance(payload, Payload):
            found.append((field, payload))
    return found


def _with(event: e.Event, field: str, payload: Payload) -> e.Event:
    value = Ok(payload) if isinstance(getattr(event, field), Ok) else payload
    return msgspec.structs.replace(event, **{field: value})


def offload(event: e.Event, blobs: dict[bytes, bytes]) -> e.Event:
    """The event with large payloads moved into ``blobs``."""
    for field, payload in _payloads(event):
        if len(payload.data) > THRESHOLD_BYTES:
            digest = digest_of(payload.data)
            blobs[digest] = payload.data
            event = _with(event, field, Payload(b"", payload.codec, digest))
    return event


def references(event: e.Event) -> list[bytes]:
    """The digests of the blobs that the event refers to."""
    return [payload.blob for _, payload in _payloads(event) if payload.blob is not None]


def needed(event: e.Event) -> list[bytes]:
    """The digests of the blobs that replay needs of the event. What it only compares comes from the program itself, see
    ``fill``; of a form newer code may ask with other terms, so its task is made of the recorded ones."""
    if isinstance(event, e.ExecutionCompleted) or (isinstance(event, e.InvokeScheduled) and event.kind != FORM):
        return []
    return references(event)


def fill(recorded: e.Event, issued: e.Event) -> e.Event:
    """The recorded event with the large payloads of the issued one, where they are the same by their digests."""
    large = (payload.data for _, payload in _payloads(issued) if len(payload.data) > THRESHOLD_BYTES)
    return hydrate(recorded, {digest_of(data): data for data in large})


def hydrate(event: e.Event, blobs: Mapping[bytes, bytes]) -> e.Event:
    """The event with its payloads brought back; a payload whose blob is not given stays a reference."""
    for field, payload in _payloads(event):
        if payload.blob is not None and payload.blob in blobs:
            event = _with(event, field, Payload(blobs[payload.blob], payload.codec))
    return event
