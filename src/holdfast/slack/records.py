"""The record of a card: which message in Slack shows which task, and at which version. It is an item.

| status | event | next |
|---|---|---|
| none | claimed | busy |
| open | claimed, because the task has changed | busy |
| busy | shown, and the task is open | open |
| busy | shown, and the task is over | closed |
| busy | claimed again, because whoever did it is silent | busy |

A card is claimed before Slack is called, and settled afterwards. So of two processes one calls Slack, and what a crash
leaves undone is done by another one when the claim is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.client.operators import operator_note
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

CARD: Final = "slack_card"
BUSY: Final = "busy"
OPEN: Final = "open"
CLOSED: Final = "closed"
CLAIM_SECONDS: Final = 30
"""How long a claim is good. A call to Slack takes at most a third of that."""

ENGINE: Final = "slack"
"""Who acts in the audit."""


class SlackCard(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a card's item says. Without ``ts`` there is no message that is known. ``shown`` is the task's version."""

    channel: str
    ts: str = ""
    shown: int = 0


_decoder = msgspec.json.Decoder(SlackCard)


def card_key(tenant: str, task: str) -> p.ItemKey:
    return p.ItemKey(tenant, CARD, task)


def read_card(row: p.ItemRow) -> SlackCard:
    return _decoder.decode(row.body)


def is_free(row: p.ItemRow | None, now: int) -> bool:
    """Whether anybody may claim it."""
    return row is None or row.status == OPEN or (row.status == BUSY and (row.due_at or 0) <= now)


async def claim(app: Holdfast, key: p.ItemKey, present: p.ItemRow | None, channel: str) -> p.ItemRow | None:
    """Claim a card, which may not be there yet. Gives its next version; None where another process was faster."""
    now = app.clock.now()
    card = SlackCard(channel) if present is None else read_card(present)
    row = p.ItemRow(
        *key,
        1 if present is None else present.version + 1,
        msgspec.json.encode(card),
        BUSY,
        now + CLAIM_SECONDS * 1_000_000,
        now,
    )
    return await _put(app, row, "claim_slack_card", {"channel": card.channel})


async def settle(app: Holdfast, claimed: p.ItemRow, card: SlackCard, *, is_over: bool) -> p.ItemRow | None:
    """Keep what a message shows. None where the claim was lost meanwhile: another process shows it again."""
    status = CLOSED if is_over else OPEN
    row = p.ItemRow(*claimed.key, claimed.version + 1, msgspec.json.encode(card), status, None, app.clock.now())
    details = {"channel": card.channel, "message": card.ts, "shown": str(card.shown)}
    return await _put(app, row, "show_slack_card", details)


async def _put(app: Holdfast, row: p.ItemRow, act: str, details: dict[str, str]) -> p.ItemRow | None:
    note = operator_note(app, row.tenant, act, ENGINE, None, "", {"task": row.id, **details})
    answer = await app.committer.commit(p.Operate(note, (p.PutItem(row),)))
    if not isinstance(answer, p.OperatedOn | p.Repeated):
        return None
    app.wake_sealer()
    return row
