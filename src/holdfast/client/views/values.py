"""Values that journals, tasks and receipts hold: as Python has them, and as ``--json`` writes them.

JSON has an object with a key that begins with ``$`` for what it lacks: ``{"$base64": …}`` for bytes, ``{"$blob": …}``
for a value that could not be read.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

import cbor2
import msgspec

from holdfast.errors import InvalidRequest
from holdfast.journal.attribution import is_given
from holdfast.journal.payload import CBOR, CONTINUED, Payload
from holdfast.journal.revisions import is_coded
from holdfast.journal.secrecy import is_call, visible_call


class UnreadableValue(msgspec.Struct, frozen=True):
    """A value that cannot be decoded: its bytes and how they are coded, or the hash of a blob that was not read."""

    data: bytes
    codec: str = CBOR
    blob: str | None = None


def payload_value(payload: Payload) -> Any:
    """A payload's value; secret arguments of a call are masked. Nothing that is stored makes it fail."""
    if payload.blob is not None:
        return UnreadableValue(b"", payload.codec, payload.blob.hex())
    if is_call(payload.codec):
        payload = Payload(visible_call(payload).data)
    if payload.codec == CONTINUED:
        return {"$continued": call_value(Payload(payload.data))}
    if payload.codec != CBOR and not is_given(payload.codec) and not is_coded(payload.codec):
        return UnreadableValue(payload.data, payload.codec)
    return data_value(payload.data)


def data_value(data: bytes) -> Any:
    """The value that CBOR holds."""
    try:
        return cbor2.loads(data)
    except (cbor2.CBORError, ValueError):
        return UnreadableValue(data)


def call_value(payload: Payload) -> Any:
    """A call's arguments: ``{"args": […], "kwargs": {…}}``."""
    match payload_value(payload):
        case [list(args), dict(kwargs)]:
            return {"args": args, "kwargs": kwargs}
        case other:
            return other


def plain(value: Any) -> Any:
    """Any decoded value as JSON has it."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {"$float": str(value)}
        case bytes() | bytearray() | memoryview():
            return {"$base64": base64.b64encode(bytes(value)).decode()}
        case Mapping():
            return {key if isinstance(key, str) else str(key): plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(item) for item in value]
        case UnreadableValue(data=data, codec=codec, blob=blob):
            if blob is not None:
                return {"$blob": blob}
            return {**plain(data), **({} if codec == CBOR else {"codec": codec})}
        case other:
            isoformat = getattr(other, "isoformat", None)
            return isoformat() if callable(isoformat) else str(other)


def read_plain(value: Any) -> Any:
    """The value that ``plain`` wrote: bytes and special numbers from the objects that stand for them."""
    match value:
        case {"$base64": str(text)} if len(value) == 1:
            try:
                return base64.b64decode(text, validate=True)
            except ValueError as error:
                raise InvalidRequest(f"$base64 holds no base64: {error}") from error
        case {"$float": "nan" | "inf" | "-inf" as text} if len(value) == 1:
            return float(text)
        case dict():
            return {name: read_plain(item) for name, item in value.items()}
        case list():
            return [read_plain(item) for item in value]
        case _:
            return value


def compact(value: Any) -> str:
    """What ``plain`` gave, on one line; a text as it is."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def quoted(value: Any) -> str:
    """What ``plain`` gave, on one line: a line break in a text cannot make a line that looks like one of ours."""
    return value if isinstance(value, str) and value.isprintable() else json.dumps(value, ensure_ascii=False)
