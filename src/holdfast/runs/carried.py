"""Reading the blobs of the signals that a run carries: some ahead for a worker, which asks for more, or all of them."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from holdfast.errors import StoreCorrupt
from holdfast.journal import events as e
from holdfast.journal.payload import SIGNALS, Payload
from holdfast.kernel.signal_nodes import at_hand, below
from holdfast.store import protocol as p

AHEAD: Final = 64
"""How many blobs are read with a run: 4,000 signals of one name. Each time that this was too few, twice as many."""

MARK: Final = SIGNALS.encode()
"""What a journal that begins with carried signals has in its first segment."""

_AT_ONCE: Final = 64


async def read_ahead(
    store: p.Store, tenant: str, signals: Payload, nodes: dict[bytes, bytes], most: int, wanted: bytes | None = None
) -> None:
    """Add to ``nodes`` the blob that is ``wanted``, then up to ``most`` others: those below it come first, and large
    payloads only where nothing else is left."""
    missing = at_hand(signals, nodes)[1]
    first = [] if wanted is None or wanted in nodes else [wanted]
    waiting = deque([*first, *(blob for blob in missing.nodes if blob != wanted)])
    large = deque(blob for blob in missing.payloads if blob != wanted)
    is_large = set(missing.payloads)
    left = most + len(first)
    while left > 0 and (waiting or large):
        queue, is_node = (waiting, True) if waiting else (large, False)
        batch = [queue.popleft() for _ in range(min(left, len(queue), _AT_ONCE if is_node else 1))]
        left -= len(batch)
        blobs = await _read(store, tenant, batch)
        nodes.update(blobs)
        for blob in batch if is_node else ():
            if blob in is_large:
                continue
            under = below(blobs[blob])
            is_large.update(under.payloads)
            waiting.extendleft(each for each in reversed(under.nodes) if each not in nodes)
            large.extend(each for each in under.payloads if each not in nodes)


async def read_all(
    store: p.Store, tenant: str, signals: Payload | None, known: Mapping[bytes, bytes] = MappingProxyType({})
) -> dict[bytes, bytes]:
    """All blobs of the signals that a start carries, of which some are ``known``. Raises StoreCorrupt where one is
    missing or was altered."""
    nodes = dict(known)
    missing: list[bytes] = []
    while signals is not None:
        lacking = at_hand(signals, nodes)[1]
        missing = [*lacking.nodes, *lacking.payloads]
        if not missing:
            break
        nodes.update(await _read(store, tenant, missing))
    return nodes


def carried_by(entries: Sequence[e.Entry]) -> Payload | None:
    """The signals that a journal begins with."""
    first = entries[0].event if entries else None
    return first.signals if isinstance(first, e.ExecutionStarted) else None


async def _read(store: p.Store, tenant: str, blobs: Sequence[bytes]) -> dict[bytes, bytes]:
    found = await store.blobs(tenant, blobs)
    for blob in blobs:
        data = found.get(blob)
        if data is None or hashlib.sha256(data).digest() != blob:
            raise StoreCorrupt(
                f"blob {blob.hex()[:12]}… of the signals that a run carries is "
                f"{'missing' if data is None else 'altered'}: restore the database from a backup."
            )
    return found
