"""The end of sessions, tokens and answers to webhooks: some time after they are over, their items are deleted.

The audit keeps what was done with them. What is deleted is noted there, too: one entry for all that a worker deletes of
a tenant at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from holdfast.client.operators import operator_note
from holdfast.client.people.binding import TOKEN_USE
from holdfast.errors import EngineError
from holdfast.people.sessions import SESSION
from holdfast.people.tokens import TOKEN
from holdfast.store import protocol as p
from holdfast.webhooks.webhook import ANSWERED

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

ENGINE: Final = "engine"
"""Who deletes them, in the audit."""
_ACTS: Final = {TOKEN: "delete_tokens", SESSION: "delete_sessions", ANSWERED: "delete_webhook_answers"}


class ItemRetention:
    """Deletes what is long over in one engine."""

    def __init__(self, engine: Holdfast) -> None:
        self._engine = engine

    async def delete(self, rows: Sequence[p.ItemRow]) -> None:
        """Delete items of one kind and tenant, all that are still as they were: a duty of workers."""
        engine, (tenant, kind, _) = self._engine, rows[0].key
        drops = [p.DropItem(row.key, row.version) for row in rows]
        if kind == TOKEN:
            uses = [await engine.whole_store.item(p.ItemKey(tenant, TOKEN_USE, row.id)) for row in rows]
            drops += [p.DropItem(use.key, use.version) for use in uses if use is not None]
        ids = {"tokens": ",".join(row.id for row in rows)} if kind == TOKEN else {}
        note = operator_note(engine, tenant, _ACTS[kind], ENGINE, None, "", {"count": str(len(rows)), **ids})
        answer = await engine.committer.commit(p.Operate(note, tuple(drops)))
        if not isinstance(answer, p.OperatedOn | p.Repeated | p.Fenced):  # fenced: another worker was faster
            raise EngineError(f"the deletion of {kind}s was answered {answer!r}")
        engine.wake_sealer()
