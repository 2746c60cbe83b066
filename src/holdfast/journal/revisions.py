"""Revisions: signals that give a run other code. The digest of the code stands in the name of the payload's codec.

So a view, and evidence without values, know which code it is without the value, which may be a large blob.
"""

from __future__ import annotations

from typing import Final

from holdfast.journal import events as e
from holdfast.journal.payload import Payload

_CODED: Final = "cbor;code="


def coded(data: bytes, digest: str) -> Payload:
    """The payload of a revision."""
    return Payload(data, f"{_CODED}{digest}")


def code_of(event: e.Event) -> str | None:
    """The digest of the code that an event of a revision gives; None for any other event."""
    if isinstance(event, e.SignalDelivered | e.SignalReceived) and event.signal_name == e.REVISION:
        return event.payload.codec.removeprefix(_CODED)
    return None


def is_coded(codec: str) -> bool:
    """Whether the codec names code; the value is plain CBOR."""
    return codec.startswith(_CODED)
