"""How an event is written: the format of ``text/event-stream``."""

from __future__ import annotations

from typing import Final

PING: Final = b": still here\n\n"
BEGIN: Final = b"retry: 2000\n\n"


def event(kind: str, data: bytes, id: str | None = None) -> bytes:
    """One event. ``data`` is JSON on one line."""
    head = f"event: {kind}\n" if id is None else f"event: {kind}\nid: {id}\n"
    return head.encode() + b"data: " + data + b"\n\n"
