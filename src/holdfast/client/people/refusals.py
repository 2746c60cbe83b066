"""Refusals in the audit: every one counts, and few of them are entries.

Of one cause, operation and user the first refusal is an entry at once. Those of the minute after it are only counted,
durably, in an item whose version each of them raises. The next entry says how many were left out; it comes with the
next refusal, or from a worker when the minute is over. So nobody can fill the audit by asking, and none is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.client.operators import operator_note
from holdfast.errors import EngineError, StoreCorrupt
from holdfast.people.caller import Caller
from holdfast.people.names import person
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

REFUSE: Final = "refuse"
REFUSALS: Final = "refusals"
"""The kind of the items."""
WINDOW_SECONDS: Final = 60
LEFT_OUT: Final = "left_out"
"""How many refusals of the same kind came since the entry before, without entries of their own."""

Cause = Literal["level", "scope", "tenant", "disabled", "token", "account"]


class CountedRefusals(msgspec.Struct, frozen=True):
    """What the item says. The audit has all refusals up to the version ``noted``."""

    user: str
    operation: str
    noted: int


class Refusals:
    """Keeps the refusals of one engine."""

    def __init__(self, engine: Holdfast) -> None:
        self._engine = engine

    async def note(
        self, caller: Caller, cause: Cause, operation: str, reason: str, details: Mapping[str, str] = {}
    ) -> None:
        """Keep that something was refused. Durable when this returns."""
        engine = self._engine
        key = p.ItemKey(caller.tenant, REFUSALS, f"{cause} {operation} {person(caller.user)}")
        while True:
            row = await engine.whole_store.item(key)
            if row is not None and 0 <= engine.clock.now() - row.changed_at < WINDOW_SECONDS * 1_000_000:
                due_at = row.changed_at + WINDOW_SECONDS * 1_000_000
                if isinstance(await engine.committer.commit(p.Tally(key, due_at)), p.Tallied):
                    return
            elif await self._write(key, row, CountedRefusals(caller.user, operation, 0), reason, details):
                return

    async def settle(self, rows: Sequence[p.ItemRow]) -> None:
        """Note those that were counted, where their minute is over: a duty of workers."""
        for row in rows:
            counted = _read(row)
            reason = f"{counted.operation} was refused as often more, in the minute after the entry before"
            await self._write(row.key, row, counted, reason, {})

    async def _write(
        self, key: p.ItemKey, row: p.ItemRow | None, about: CountedRefusals, reason: str, details: Mapping[str, str]
    ) -> bool:
        """Write an entry, with the number of those that have none. False where another refusal came in between."""
        engine, now = self._engine, self._engine.clock.now()
        left_out = 0 if row is None else row.version - _read(row).noted
        said = {"operation": about.operation, **details, **({LEFT_OUT: str(left_out)} if left_out else {})}
        version = 1 if row is None else row.version + 1
        body = msgspec.json.encode(msgspec.structs.replace(about, noted=version))
        entry = operator_note(engine, key.tenant, REFUSE, about.user, None, reason, said)
        put = p.PutItem(p.ItemRow(*key, version, body, "noted", None, now))
        answer = await engine.committer.commit(p.Operate(entry, (put,)))
        if not isinstance(answer, p.OperatedOn | p.Repeated | p.Fenced):
            raise EngineError(f"a refusal was answered {answer!r}")
        engine.wake_sealer()
        return not isinstance(answer, p.Fenced)


def _read(row: p.ItemRow) -> CountedRefusals:
    try:
        return msgspec.json.decode(row.body, type=CountedRefusals)
    except msgspec.MsgspecError as error:
        raise StoreCorrupt(f"the {row.kind} {row.id!r} of tenant {row.tenant!r} cannot be read: {error}") from error
