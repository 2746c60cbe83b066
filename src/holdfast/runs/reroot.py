"""A journal's events under another root: forks and new generations are made of them."""

from __future__ import annotations

import msgspec

from holdfast.journal import events as e
from holdfast.journal.codec import decode_segment, encode_segment
from holdfast.journal.promise import PromiseId


def reroot(event: e.Event, root: PromiseId, idempotency_key: str) -> e.Event:
    """The same event in the journal of another run, which has no parent. Only the start event names the run."""
    if isinstance(event, e.ExecutionStarted):
        return msgspec.structs.replace(event, parent_id=None, idempotency_key=idempotency_key)
    (entry,) = decode_segment(encode_segment([(0, event)], 0), root, 0)
    return entry.event
