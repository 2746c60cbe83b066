"""What a person does to runs, with its note: judged first, under the locks of its runs, then made whole."""

from __future__ import annotations

from holdfast.store import protocol as p
from holdfast.store.postgres.writer import Writer


async def refusal(writer: Writer, change: p.Operate) -> p.Answer | None:
    """Why nothing of it may be made, if so. Its runs stay locked: what was judged holds until the commit."""
    keys = sorted({each.key for each in change.changes})
    await writer.fetch_columns("lock_runs", keys, width=2)
    name = change.note.tenant, change.note.id
    noted_here = any((entry.tenant, entry.id) == name for _, entry in writer.noted)  # earlier in this batch
    if noted_here or await writer.fetch("is_noted", *name):
        return p.Repeated()
    for each in change.changes:
        found = await writer.fetch("generation_of", *each.key)
        if (answer := await _refusal(writer, each, tuple(found[0]) if found else None)) is not None:
            return answer
    return None


async def _refusal(
    writer: Writer, change: p.Deliver | p.Pause | p.Unpause | p.Renew, found: tuple[int, bool] | None
) -> p.Answer | None:
    if isinstance(change, p.Renew):
        return None if found == (change.generation, True) else p.Fenced()
    if found is None:
        return p.Unknown()
    if isinstance(change, p.Deliver) and await _is_delivered(writer, change):
        return p.Repeated()
    return p.Gone() if found[1] else None


async def _is_delivered(writer: Writer, change: p.Deliver) -> bool:
    if change.message.id is None:
        return False
    return bool(await writer.fetch("is_delivered", *change.key, change.message.id))


async def set_pauses(writer: Writer, change: p.Operate) -> None:
    """Pause what is to be paused, and let go on what is to go on."""
    for each in change.changes:
        if isinstance(each, p.Pause):
            await writer.fetch("pause", *each.key, each.reason, each.at)
        elif isinstance(each, p.Unpause):
            await writer.fetch_hint("unpause", *each.key, each.at)
