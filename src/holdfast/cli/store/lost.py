"""``lost``: what failovers have lost of what was acknowledged, and how it is done again."""

from __future__ import annotations

from typing import Any

import cbor2
import click

from holdfast.cli import exits, options, output, session
from holdfast.client.engine import Holdfast
from holdfast.client.runs.lost import repeat, settle
from holdfast.client.views.times import clock, iso, moment
from holdfast.errors import InvalidRequest
from holdfast.runs.losses import losses_in
from holdfast.store.losses import Loss, LostMessage


@click.command()
@click.option("--again", is_flag=True, help="Repeat all that are known, with the same ids.")
@click.option("--done", is_flag=True, help="Take all from the list: they were repeated, or are not wanted.")
@options.any_tenant
@options.steered_by
@options.store
def lost(again: bool, done: bool, tenant: str | None, who: str, store: str | None, as_json: bool) -> int:
    """List starts, signals, events and answers that were acknowledged before a failover and are not in the store.

    A repetition finds what somebody else has repeated. Answers of people, and what is larger than 4 KB, are only
    listed. Exit code 1 while something is left.
    """
    if again and done:
        raise InvalidRequest("--again repeats what is listed and --done forgets it: choose one.")

    async def work(app: Holdfast) -> tuple[list[Loss], list[Loss]]:
        found = await losses_in(app.store, app.clock.now(), tenant)
        found.sort(key=lambda loss: loss.acknowledged_at)  # a run is started before it is signalled
        settled: list[Loss] = []
        for loss in found:
            if done:
                await settle(app, loss, who)
            if done or (again and await session.patiently(app, repeat(app, loss, who))):
                settled.append(loss)
        return found, settled

    found, settled = session.on_store(session.url_of(store), work)
    left = [loss for loss in found if loss not in settled]
    if as_json:
        output.emit({"lost": [_record(loss) for loss in left], "settled": [_record(loss) for loss in settled]})
    else:
        _show(left, settled, again=again)
    return exits.NO if left else exits.GOOD


def _show(left: list[Loss], settled: list[Loss], *, again: bool) -> None:
    if settled:
        output.say(f"{len(settled)} {'done again' if again else 'taken from the list'}")
    if not left:
        output.note("nothing that was acknowledged is known to be lost")
        return
    rows: list[list[output.Part]] = [
        [loss.tenant, loss.place, _key(loss) or "", clock(moment(loss.acknowledged_at)), loss.by, _repeatable(loss)]
        for loss in left
    ]
    output.table(["tenant", "lost", "key", "acknowledged", "by", "known"], rows)


def _repeatable(loss: Loss) -> str:
    return "yes" if loss.again is not None else "no"


def _key(loss: Loss) -> str | None:
    """The key of the cell that an event was for."""
    if loss.kind != "event" or not isinstance(loss.again, LostMessage):
        return None
    _, envelope, *_ = cbor2.loads(loss.again.message.body)
    fields = cbor2.loads(envelope)
    found = cbor2.loads(fields[1]) if len(fields) > 1 and isinstance(fields[1], bytes) else None
    return None if found is None else str(found)


def _record(loss: Loss) -> dict[str, Any]:
    return {
        "tenant": loss.tenant,
        "kind": loss.kind,
        "run": None if loss.machine else loss.run,
        "machine": loss.machine,
        "key": _key(loss),
        "id": loss.given_id,
        "acknowledged_at": iso(moment(loss.acknowledged_at)),
        "by": loss.by,
        "noticed_at": iso(moment(loss.noticed_at)),
        "known": loss.again is not None,
    }
