"""Retries: a failed or cancelled run goes on from before its failure, as a new generation with a prefix of its journal.

============================  ==========================================================================
a child that is called again  then
============================  ==========================================================================
waits for its parent's retry  it is retried in the same commit: its parent had waited for it at the cut
has failed or was cancelled   refused, by its name; with ``tree`` it is retried in the same commit
is being cancelled            refused, by its name: what it still does would be done beside its retry
is not there any more         refused, by its name: it would be done from its beginning
============================  ==========================================================================

The run relies on what it has done from this commit on. It is refused, by the act's name, if one of these acts is being
taken back: by a person's reversal, or by the undo of another run.

A run that is parked because it calls something with another input than the result has that was kept of it gets no new
generation. It gets the answer, and goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final, TypedDict

import msgspec

from holdfast.client.operators import operator_note
from holdfast.client.runs.dropped_calls import left_over, never_begun
from holdfast.client.runs.former_acts import former_acts
from holdfast.client.runs.inherited_acts import holds_of_retry
from holdfast.client.runs.repair import open_calls, started_of, with_parts
from holdfast.client.runs.retry_point import RetryPoint, retry_point
from holdfast.errors import InvalidRequest, RetryDiverged, RetryRefused, RunEnded
from holdfast.journal import events as e
from holdfast.journal.codec import GENESIS
from holdfast.journal.former import UNSAID, Answers, write_answers
from holdfast.runs import journals, messages
from holdfast.runs.birth import child_id, lineage_of
from holdfast.runs.kinds.child import WORKFLOW
from holdfast.runs.segments import seal
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

MOST_RUNS: Final = 1_000
"""The most runs that one retry begins anew: they are one commit."""


class RetryChoice(TypedDict, total=False):
    """What becomes of kept results, by the names of their calls, see ``RunHandle.retry``; and whether failed children
    are retried with the run."""

    again: Collection[str]
    keep: Collection[str]
    new: bool
    tree: bool


class RetryPlan(msgspec.Struct, frozen=True):
    """What a retry does. The calls named in ``again`` are done again. Those in ``kept`` are not if they are called with
    the input that they had. Timers of ``slept`` seconds run again. ``children`` are the runs that are retried with it.
    """

    run: str
    again: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    slept: tuple[float, ...] = ()
    children: tuple[str, ...] = ()


class _Planned(msgspec.Struct):
    """A plan, and the changes that carry it out."""

    point: RetryPoint
    changes: list[p.Act]
    children: list[str]


class Retries:
    """Retries for one engine."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app

    async def retry(
        self, key: p.Key, chosen: RetryChoice, by: str | None = None, reason: str = "", *, dry_run: bool
    ) -> RetryPlan:
        """Plan a retry, and carry it out unless it is a ``dry_run``. The audit records who asked.

        Raises InvalidRequest where the run has not failed or an answer is about nothing, RetryRefused where something
        would be done twice, RunEnded where the run was changed meanwhile.
        """
        run = await journals.row_of(self._app.store, key)
        tree = chosen.get("tree", False)
        answers = Answers(tuple(chosen.get("again", ())), tuple(chosen.get("keep", ())), chosen.get("new", False))
        found = await (self._answered(run, answers) if has_diverged(run) else self._renewals(run, answers, tree=tree))
        seconds = tuple(each / 1e6 for each in found.point.slept)
        plan = RetryPlan(key.run, found.point.again, found.point.kept, seconds, tuple(found.children))
        if not dry_run:
            await self._commit(key, found.changes, answers, by, reason)
        return plan

    async def _commit(
        self, key: p.Key, changes: Sequence[p.Act], answers: Answers, by: str | None, reason: str
    ) -> None:
        # All in one commit: a child that ended before its parent waits again would have nobody to report to.
        said = {"again": ", ".join(answers.again), "keep": ", ".join(answers.keep), "new": "yes" if answers.new else ""}
        details = {name: text for name, text in said.items() if text}
        note = operator_note(self._app, key.tenant, "retry", by, key.run, reason, details)
        answer = await self._app.committer.commit(p.Operate(note, tuple(changes)))
        if not isinstance(answer, p.OperatedOn | p.Repeated):
            await self._refuse_taken(key, changes)
            raise RunEnded(f"run {key.run} was changed by someone else since: look at it again.")
        self._app.wake_sealer()
        self._app.delivered(key)
        self._app.hint()

    async def _refuse_taken(self, key: p.Key, changes: Sequence[p.Act]) -> None:
        """Raises RetryRefused where somebody takes back an act that the run would rely on."""
        for each in changes:
            if isinstance(each, p.Hold):
                row = await self._app.store.receipt(each.tenant, each.receipt)
                taking = (await self._app.store.stakes(each.tenant, each.receipt)).taking
                if taking is not None and row is not None:
                    raise RetryRefused(
                        f"run {key.run} cannot be retried yet: it would rely on the act of {row.action!r} (receipt "
                        f"{row.id}), and run {taking[1]} is taking that back. Wait for the end of it, and retry then."
                    )

    async def _answered(self, run: p.Run, answers: Answers) -> _Planned:
        """A parked run gets an answer."""
        if not answers:
            raise InvalidRequest(f"run {run.key.run} is parked, {run.pause}")
        entries = [entry async for entry in journals.read(self._app.store, run)]
        kept = tuple(call.name for call in left_over(entries)[0] if call.is_kept)
        _check_answers(run, answers, kept)
        now = self._app.clock.now()
        said = Answers(keep=answers.keep, new=answers.new, others=answers.again)
        message = messages.signal(e.RETRY, write_answers(said), now, self._app.token(), None)
        return _Planned(RetryPoint([], answers.again, kept), [p.Deliver(run.key, message), p.Unpause(run.key, now)], [])

    async def _renewals(self, run: p.Run, answers: Answers, *, tree: bool) -> _Planned:
        """The new generations of a run, and of the children that it waits for then."""
        _check_standing(run)
        now = self._app.clock.now()
        entries = [entry async for entry in journals.read(self._app.store, run)]
        acts = await former_acts(self._app.store, run, entries)
        point = retry_point(run.key.run, entries, now, answers, acts)
        _check_answers(run, answers, point.kept)
        blobs: dict[bytes, bytes] = {}
        segment = seal([(entry.timestamp, entry.event) for entry in with_parts(point.journal)], 0, GENESIS, blobs)
        renewal = p.Renewal(run.root, segment, blobs)
        renew = p.Renew(run.key, run.generation, renewal, p.Projection("queued"), now)
        holds = await holds_of_retry(self._app.store, run, point.journal, point.places) if run.governed else ()
        found = _Planned(point, [renew, *holds], [])
        calls = (entry.event for entry in point.journal)
        places = {call.promise_id: call.key_place for call in calls if isinstance(call, e.InvokeScheduled)}
        unbegun = never_begun(entries)
        waited = [places[each] for each in open_calls(point.journal, WORKFLOW.__eq__) if each not in unbegun]
        lineage = lineage_of(started_of(entries).idempotency_key)
        for position in (*waited, *point.lost):
            id, is_again = child_id(run.key.run, position, lineage), position in waited or tree
            child = await self._child(run, id, again=is_again)
            if child.standing in ("failed", "cancelled"):  # one that is under way was retried before its parent
                below = await self._renewals(child, UNSAID, tree=tree)
                found.changes += below.changes
                found.children += [child.key.run, *below.children]
            if len(found.children) >= MOST_RUNS:
                raise RetryRefused(
                    f"run {run.key.run} cannot be retried with its children: they are more than {MOST_RUNS - 1}. Retry "
                    "the children first, and then this run."
                )
        return found

    async def _child(self, run: p.Run, id: str, *, again: bool) -> p.Run:
        """A child that is called again. Raises RetryRefused where the run would not find it as it must be."""
        rows = await self._app.store.get([p.Key(run.key.tenant, id)])
        refused = f"run {run.key.run} cannot be retried"
        if not rows:
            raise RetryRefused(
                f"{refused}: its child {id} was deleted, and would be done from its beginning, with what it had done. "
                "Start a new run."
            )
        child = rows[0]
        if child.cancelling and child.standing not in p.ENDED:
            raise RetryRefused(f"{refused} yet: its child {id} is being cancelled. Wait for its end, and retry then.")
        if child.standing in ("failed", "cancelled") and not again:
            raise RetryRefused(
                f"{refused} yet: it calls its child {id} again, which is {child.standing}, and would find it so. "
                f"Retry {id} first, and then this run; or say `--tree`, which retries both."
            )
        return child


def has_diverged(run: p.Run) -> bool:
    """Whether the run is parked until a person says what becomes of a kept result."""
    return run.standing not in p.ENDED and (run.pause or "").startswith(f"{RetryDiverged.code}:")


def _check_standing(run: p.Run) -> None:
    if run.standing not in ("failed", "cancelled"):
        raise InvalidRequest(f"run {run.key.run} is {run.status}, and only a failed or cancelled run can be retried.")


def _check_answers(run: p.Run, answers: Answers, kept: Sequence[str]) -> None:
    """Raises InvalidRequest where an answer names nothing, or one name twice."""
    if twice := {*answers.again} & {*answers.keep}:
        raise InvalidRequest(f"{min(twice)} is either done again or kept: say one of them.")
    if unknown := sorted({*answers.again, *answers.keep} - {*kept}):
        names = ", ".join(f"{name} ({count})" for name, count in sorted(Counter(kept).items())) or "none"
        raise InvalidRequest(f"run {run.key.run} has no result of {unknown[0]!r} that was kept; it has: {names}.")
