"""Checkpoints beside the journals, as statements over sets."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.store import protocol as p
from holdfast.store.postgres.writer import Writer


async def keep(writer: Writer, changes: Sequence[p.Advance]) -> None:
    """Keep the checkpoints of these turns; delete those of runs that need none any more."""
    kept, dropped = [], []
    for change in changes:
        segment = change.segment
        if change.checkpoint and segment is not None:
            version = segment.first + segment.count
            kept.append((*change.key, change.generation, version, segment.head, change.checkpoint))
        else:
            dropped.append(change.key)
    if kept:
        await writer.fetch_columns("keep_checkpoints", kept, width=6)
    if dropped:
        await drop(writer, dropped)


async def drop(writer: Writer, keys: Sequence[p.Key]) -> None:
    await writer.fetch_columns("drop_checkpoints", keys, width=2)
