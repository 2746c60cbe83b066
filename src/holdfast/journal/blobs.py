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


def _payload_of(event: e.Event) -> tuple[str, Payload] | None:
    """The event's payload and the field that holds it; no event has two."""
    for field in ("input", "result", "payload"):
        value = getattr(event, field, None)
        payload = value.value if isinstance(value, Ok) else value
        if isinstance(payload, Payload):
            return field, payload
    return None


def _with(event: e.Event, field: str, payload: Payload) -> e.Event:
    value = Ok(payload) if isinstance(getattr(event, field), Ok) else payload
    return msgspec.structs.replace(event, **{field: value})


def offload(event: e.Event, blobs: dict[bytes, bytes]) -> e.Event:
    """The event with a large payload moved into ``blobs``."""
    found = _payload_of(event)
    if found is None or len(found[1].data) <= THRESHOLD_BYTES:
        return event
    field, payload = found
    digest = digest_of(payload.data)
    blobs[digest] = payload.data
    return _with(event, field, Payload(b"", payload.codec, digest))


def reference(event: e.Event) -> bytes | None:
    """The digest of the blob that the event refers to."""
    found = _payload_of(event)
    return None if found is None else found[1].blob


def hydrate(event: e.Event, blobs: Mapping[bytes, bytes]) -> e.Event:
    """The event with its payload brought back; as it is where the blob is not at hand."""
    found = _payload_of(event)
    if found is None or found[1].blob is None or found[1].blob not in blobs:
        return event
    field, payload = found
    return _with(event, field, Payload(blobs[payload.blob or b""], payload.codec))
