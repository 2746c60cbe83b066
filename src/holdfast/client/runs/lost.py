"""Doing again what a failover has lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.client.operators import operator_note
from holdfast.journal.codec import GENESIS, decode_segment
from holdfast.journal.promise import PromiseId
from holdfast.runs.segments import seal
from holdfast.store import protocol as p
from holdfast.store.losses import LOST, REPEATED, Loss, LostMessage, LostStart, loss_id

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast


async def repeat(app: Holdfast, loss: Loss, by: str | None) -> bool:
    """Do a lost change again, with the same id: where somebody has done so already, nothing more happens.

    False where it is not known, or where there is nothing any more that it could reach; then it stays listed.
    """
    now = app.clock.now()
    match loss.again:
        case LostStart() as start:
            change: p.Change = _start(loss, start, now)
        case LostMessage(message=message, place=place):
            change = p.Deliver(loss.key, replace(message, at=now), place=place)
        case _:
            return False
    answer = await app.committer.commit(change)
    if not isinstance(answer, p.Started | p.Exists | p.Delivered | p.Repeated):
        return False
    await settle(app, loss, by)
    app.hint()
    return True


async def settle(app: Holdfast, loss: Loss, by: str | None) -> None:
    """Take a lost change from the list: it was done again, or is not wanted any more. The audit notes it."""
    id = loss_id(loss.kind, loss.run, loss.id)
    row = await app.store.item(p.ItemKey(loss.tenant, LOST, id))
    if row is None or row.status != LOST:
        return
    over = replace(row, version=row.version + 1, status=REPEATED, changed_at=app.clock.now())
    note = operator_note(app, loss.tenant, "settle_lost", by, loss.run, "", {"kind": loss.kind, "id": loss.id or ""})
    await app.committer.commit(p.Operate(note, (p.PutItem(over),)))


def _start(loss: Loss, start: LostStart, now: int) -> p.Start:
    """The start with its first event alone: no turn of it was lost, because none is kept."""
    first = decode_segment(start.events, PromiseId(start.root), 0)[0].event
    blobs: dict[bytes, bytes] = {}
    return p.Start(
        key=loss.key,
        workflow=start.workflow,
        fingerprint=start.fingerprint,
        root=start.root,
        segment=seal([(now, first)], 0, GENESIS, blobs),
        projection=p.Projection("queued"),
        priority=start.priority,
        attributes=start.attributes,
        origin=start.origin,
        blobs=blobs,
        program_kind=start.program_kind,
        code_digest=start.code_digest,
        trigger_key=start.trigger_key,
    )
