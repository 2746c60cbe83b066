"""Repairs: a journal is never edited, so a repaired run continues from a prefix of its journal.

``fork`` makes a new run of it. A retry makes a new generation of the same run, see ``retries``. Both leave the old
journal as it is. A fork does all again that its origin did after the place where they part: what the origin's retries
have kept is not there for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from holdfast.client.operators import operator_note
from holdfast.client.runs.inherited_acts import holds_of_fork
from holdfast.client.runs.run_ids import chosen_run_id
from holdfast.errors import EngineError, InvalidRequest, RunConflict
from holdfast.journal import events as e
from holdfast.journal.codec import GENESIS
from holdfast.journal.promise import PromiseId
from holdfast.programs.function.reversal import REVERSE
from holdfast.runs import journals
from holdfast.runs.addresses import has_dots
from holdfast.runs.birth import check_id, idempotency_key
from holdfast.runs.carried import read_all
from holdfast.runs.kinds.table import is_gated
from holdfast.runs.lanes import refuse_lane
from holdfast.runs.reroot import reroot
from holdfast.runs.segments import seal
from holdfast.store import protocol as p
from holdfast.templates.template import RESERVED

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast


class Repairs:
    """Forks for one engine."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app

    async def _fork_id(self, key: p.Key, chosen: str | None) -> str:
        """The id of a fork: it names its origin, unless that has an id that no new run gets."""
        if chosen:
            return await chosen_run_id(self._app.store, key.tenant, chosen)
        origin = "" if has_dots(key.run) else f"{key.run.replace('~', '.')}-"
        return check_id(f"{origin}fork-{self._app.token()}", "the id")

    async def fork(self, key: p.Key, sequence: int, chosen: str | None, by: str | None, reason: str = "") -> p.Key:
        """A new run with the journal before ``sequence``; the audit records who made it, in the same commit."""
        refuse_lane(key.run, "fork")
        run = await journals.row_of(self._app.store, key)
        if run.workflow == REVERSE:
            raise InvalidRequest(f"run {key.run} takes an act back, and a fork of it would do so again: retry it.")
        if not 1 <= sequence <= run.version:
            raise InvalidRequest(f"run {key.run} has sequences 0 to {run.version - 1}: fork from 1 to {run.version}.")
        entries = [entry async for entry in journals.read(self._app.store, run) if entry.sequence < sequence]
        if isinstance(entries[-1].event, e.TERMINAL):
            entries.pop()
        entries = _without_former(entries)
        # Open calls belong to the new run, whose caps count first attempts.
        for promise in open_calls(entries, is_gated):
            entries = _without_attempts(entries, promise)
        fresh = p.Key(key.tenant, await self._fork_id(key, chosen))
        root = PromiseId.of_run(started_of(entries).component_digest, None, idempotency_key(fresh))
        blobs = await read_all(self._app.store, key.tenant, started_of(entries).signals)
        own = e.Inherited(sequence, started_of(entries).idempotency_key, run.root)
        segment = seal(_stamped(with_parts(entries, own), root, idempotency_key(fresh)), 0, GENESIS, blobs)
        # The fork is later than all that it inherits, even where the clocks of workers were ahead.
        made_at = max(self._app.clock.now(), 1 + max(entry.timestamp for entry in entries))
        segment = msgspec.structs.replace(segment, at=made_at)
        details = {"sequence": str(sequence), "fork": fresh.run}
        by = self._app.person_of(by)
        holds = await holds_of_fork(self._app.store, run, entries, fresh, root, made_at)
        start = p.Start(
            key=fresh,
            workflow=run.workflow,
            program_kind=run.program_kind,
            code_digest=run.code_digest,
            fingerprint=run.fingerprint,
            root=root.root,
            segment=segment,
            projection=p.Projection("queued", governed=bool(holds)),
            priority=run.priority,
            attributes={**_without_template(run.attributes), "forked_from": key.run},
            origin=p.Origin(run.workspace, by or run.actor, run.trigger_type, run.trigger_ref),
            blobs=blobs,
            attached=(operator_note(self._app, key.tenant, "fork", by, key.run, reason, details), *holds),
        )
        answer = await self._app.committer.commit(start)
        if not isinstance(answer, p.Started) and not await self._is_made(start):
            raise RunConflict(f"the id {fresh.run!r} is taken: choose another.")
        self._app.wake_sealer()
        self._app.hint()
        return fresh

    async def _is_made(self, start: p.Start) -> bool:
        """Whether this fork was made and only the answer was lost: then the first segment has its time and hash."""
        first = await self._app.store.segments(start.key, 0, 0, 1)
        return [(each.head, each.at) for each in first] == [(start.segment.head, start.segment.at)]


def started_of(entries: list[e.Entry]) -> e.ExecutionStarted:
    first = entries[0].event
    if not isinstance(first, e.ExecutionStarted):
        raise EngineError("the journal does not begin with ExecutionStarted")
    return first


def with_parts(entries: list[e.Entry], own: e.Inherited | None = None) -> list[e.Entry]:
    """The kept entries of a journal, whose start says which of them come from other runs; ``own`` are from this one."""
    started = started_of(entries)
    if own is None and not started.inherited:
        return entries
    parts: list[e.Inherited] = []
    for part in (*started.inherited, *(() if own is None else (own,))):
        until = sum(entry.sequence < part.until for entry in entries)
        if until > (parts[-1].until if parts else 0):
            parts.append(msgspec.structs.replace(part, until=until))
    first = msgspec.structs.replace(started, inherited=tuple(parts))
    return [e.Entry(entries[0].sequence, entries[0].timestamp, first), *entries[1:]]


def _stamped(entries: list[e.Entry], root: PromiseId, key: str) -> list[tuple[int, e.Event]]:
    return [(entry.timestamp, reroot(entry.event, root, key)) for entry in entries]


def open_calls(entries: list[e.Entry], wanted: Callable[[str], bool]) -> list[PromiseId]:
    """The calls of the wanted kinds that have not ended."""
    called: dict[PromiseId, None] = {}
    for entry in entries:
        match entry.event:
            case e.InvokeScheduled(promise_id=promise, kind=kind) if wanted(kind):
                called[promise] = None
            case e.InvokeCompleted(promise_id=promise):
                called.pop(promise, None)
            case _:
                continue
    return list(called)


def _without_template(attributes: Mapping[str, str]) -> dict[str, str]:
    """A fork is a run of its own: no template started it."""
    return {name: text for name, text in attributes.items() if name not in RESERVED}


def _without_former(entries: list[e.Entry]) -> list[e.Entry]:
    """The journal without what retries have carried into it: a fork does all again that comes after."""
    first = entries[0]
    started = e.Entry(first.sequence, first.timestamp, msgspec.structs.replace(started_of(entries), former=None))
    return [started, *entries[1:]]


def _without_attempts(entries: list[e.Entry], promise: PromiseId) -> list[e.Entry]:
    """The journal without the attempts of one call: its next attempt is its first."""
    return [
        entry
        for entry in entries
        if not (isinstance(entry.event, (e.InvokeStarted, e.InvokeRetrying)) and entry.event.promise_id == promise)
    ]
