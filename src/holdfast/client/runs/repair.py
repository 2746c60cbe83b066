"""Repairs: a journal is never edited, so a repaired run continues from a prefix of its journal.

``fork`` makes a new run of it, ``retry`` a new generation of the same run. Both leave the old journal as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from holdfast.client.operators import operator_note
from holdfast.client.runs.inherited_acts import holds_of_fork
from holdfast.client.runs.retry_point import retry_point
from holdfast.client.runs.run_ids import chosen_run_id
from holdfast.errors import EngineError, InvalidRequest, RetryRefused, RunConflict, RunEnded
from holdfast.journal import events as e
from holdfast.journal.codec import GENESIS
from holdfast.journal.payload import Err, Outcome
from holdfast.journal.promise import PromiseId
from holdfast.programs.function.reversal import REVERSE
from holdfast.runs import journals
from holdfast.runs.addresses import has_dots
from holdfast.runs.birth import check_id, child_id, idempotency_key, lineage_of
from holdfast.runs.kinds.child import WORKFLOW
from holdfast.runs.kinds.table import is_gated
from holdfast.runs.lanes import refuse_lane
from holdfast.runs.reroot import reroot
from holdfast.runs.segments import seal
from holdfast.store import protocol as p
from holdfast.templates.template import RESERVED

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast


class RetryPlan(msgspec.Struct, frozen=True):
    """What a retry of a run does: the names of the calls that are done again, and the changes that begin it."""

    run: str
    again: tuple[str, ...]
    changes: list[p.Renew]


class Repairs:
    """Forks and retries for one engine."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app

    async def plan_retry(self, key: p.Key) -> RetryPlan:
        """What a retry of an ended run would do. Raises InvalidRequest or RetryRefused where it cannot be retried.

        The run begins a new generation from before its failure. So do the children that it waits for then: the one
        whose failure it was, and those that were cancelled with it.
        """
        changes, again = await self._renewals(key)
        return RetryPlan(key.run, again, changes)

    async def retry(self, key: p.Key, plan: RetryPlan, by: str | None, reason: str = "") -> None:
        """Carry a plan out; the audit records who asked. Raises RunEnded where the run was changed since the plan."""
        # All in one commit: a child that ended before its parent waits again would have nobody to report to.
        note = operator_note(self._app, key.tenant, "retry", by, key.run, reason)
        answer = await self._app.committer.commit(p.Operate(note, tuple(plan.changes)))
        if not isinstance(answer, p.OperatedOn | p.Repeated):
            raise RunEnded(f"run {plan.run} was changed by someone else since: look at it again.")
        self._app.wake_sealer()
        self._app.hint()

    async def _renewals(self, key: p.Key) -> tuple[list[p.Renew], tuple[str, ...]]:
        run = await journals.row_of(self._app.store, key)
        check_retry(run)
        entries = [entry async for entry in journals.read(self._app.store, run)]
        point = retry_point(key.run, entries)
        kept = point.kept
        blobs: dict[bytes, bytes] = {}
        segment = seal([(entry.timestamp, entry.event) for entry in _with_parts(kept)], 0, GENESIS, blobs)
        renewal = p.Renewal(run.root, segment, blobs)
        changes: list[p.Renew] = [p.Renew(key, run.generation, renewal, p.Projection("queued"), self._app.clock.now())]
        lineage = lineage_of(_started(entries).idempotency_key)
        await self._check_children(run, [child_id(key.run, each, lineage) for each in _lost_children(entries, kept)])
        positions = [promise.path[-1] for promise in _open_calls(kept, WORKFLOW.__eq__)]
        children = [p.Key(key.tenant, child_id(key.run, position, lineage)) for position in positions]
        for child in await self._app.store.get(children):
            if child.standing in ("failed", "cancelled"):
                changes += (await self._renewals(child.key))[0]
        return changes, point.again

    async def _check_children(self, run: p.Run, children: Sequence[str]) -> None:
        """Raises RetryRefused where one of these has not succeeded: the run would call it again and find it so."""
        for child in await self._app.store.get([p.Key(run.key.tenant, id) for id in children]):
            if child.standing in ("failed", "cancelled"):
                raise RetryRefused(
                    f"run {run.key.run} cannot be retried yet: it undid what it had done before it called run "
                    f"{child.key.run}, which is {child.standing}, and would find it so again. Retry {child.key.run} "
                    "first, and then this run."
                )

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
        # Open calls belong to the new run, whose caps count first attempts.
        for promise in _open_calls(entries, is_gated):
            entries = _without_attempts(entries, promise)
        fresh = p.Key(key.tenant, await self._fork_id(key, chosen))
        root = PromiseId.of_run(_started(entries).component_digest, None, idempotency_key(fresh))
        blobs: dict[bytes, bytes] = {}
        own = e.Inherited(sequence, _started(entries).idempotency_key, run.root)
        segment = seal(_stamped(_with_parts(entries, own), root, idempotency_key(fresh)), 0, GENESIS, blobs)
        # The fork is later than all that it inherits, even where the clocks of workers were ahead.
        made_at = max(self._app.clock.now(), 1 + max(entry.timestamp for entry in entries))
        segment = msgspec.structs.replace(segment, at=made_at)
        details = {"sequence": str(sequence), "fork": fresh.run}
        by = self._app.person_of(by)
        holds = await holds_of_fork(self._app.store, run, entries, fresh, root)
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


def _started(entries: list[e.Entry]) -> e.ExecutionStarted:
    first = entries[0].event
    if not isinstance(first, e.ExecutionStarted):
        raise EngineError("the journal does not begin with ExecutionStarted")
    return first


def _with_parts(entries: list[e.Entry], own: e.Inherited | None = None) -> list[e.Entry]:
    """The kept entries of a journal, whose start says which of them come from other runs; ``own`` are from this one."""
    started = _started(entries)
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


def _open_calls(entries: list[e.Entry], wanted: Callable[[str], bool]) -> list[PromiseId]:
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


def _lost_children(entries: Sequence[e.Entry], kept: Sequence[e.Entry]) -> list[int]:
    """The positions of the children whose end was the run's, and whose calls a retry makes once more."""
    calls = {entry.event.promise_id for entry in kept if isinstance(entry.event, e.InvokeScheduled)}
    events, last = [entry.event for entry in entries], entries[-1].event
    ends = {event.promise_id: event.result for event in events if isinstance(event, e.InvokeCompleted)}
    return [
        event.promise_id.path[-1]
        for event in events
        if isinstance(event, e.InvokeScheduled) and event.kind == WORKFLOW and event.promise_id not in calls
        if isinstance(last, e.ExecutionCancelled) or _is_alike(ends.get(event.promise_id), last)
    ]


def _is_alike(outcome: Outcome | None, last: e.Event) -> bool:
    """Whether a run has failed of this outcome. What it adds to it, such as the node, differs."""
    if not isinstance(outcome, Err) or not isinstance(last, e.ExecutionFailed):
        return False
    return (outcome.failure.type, outcome.failure.message) == (last.error.type, last.error.message)


def check_retry(run: p.Run) -> None:
    """Raises InvalidRequest where the run cannot be retried."""
    if run.standing not in ("failed", "cancelled"):
        raise InvalidRequest(f"run {run.key.run} is {run.status}, and only a failed or cancelled run can be retried.")


def _without_attempts(entries: list[e.Entry], promise: PromiseId) -> list[e.Entry]:
    """The journal without the attempts of one call: its next attempt is its first."""
    return [
        entry
        for entry in entries
        if not (isinstance(entry.event, (e.InvokeStarted, e.InvokeRetrying)) and entry.event.promise_id == promise)
    ]
