"""Large payloads live beside the journal, content-addressed, on every path: the codec's boundary is the only one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec

from holdfast.journal import events as e
from holdfast.journal.payload import Ok, Payload

THRESHOLD_BYTES: Final = 32 * 1024


def digest_of(data: bytes) -> bytes:
    """The name of a blob."""
    return hashlib.sha256(data).digest()


_FIELDS: Final = ("input", "result", "payload", "carried")
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


def hydrate(event: e.Event, blobs: Mapping[bytes, bytes]) -> e.Event:
    """The event with its payloads brought back; as it is where a blob is not at hand."""
    for field, payload in _payloads(event):
        if payload.blob is not None and payload.blob in blobs:
            event = _with(event, field, Payload(blobs[payload.blob], payload.codec))
    return event
