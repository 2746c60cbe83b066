"""A handle on one run: what a caller can read of it and do to it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

import msgspec

from holdfast.client.filters import run_rows
from holdfast.client.operators import check_reason, operator_note
from holdfast.client.people.permission import operation
from holdfast.client.runs.cancellation import cancellation
from holdfast.client.runs.explanation import explain
from holdfast.client.runs.pauses import by_request
from holdfast.client.runs.progress import RunDetails, RunProgress, details_of, progress_of, state_of
from holdfast.client.views.instances import InstanceInfo
from holdfast.client.views.journal import JournalEntry, journal_entry
from holdfast.client.views.mask import mask_of, masked_entries
from holdfast.client.views.runs import RunInfo, run_info
from holdfast.client.waiters import End, EndedHere
from holdfast.errors import (
    EngineError,
    HoldfastError,
    InvalidRequest,
    RunCancelled,
    RunConflict,
    RunEnded,
    RunFailed,
    RunNotFound,
    RunParked,
)
from holdfast.journal import events as e
from holdfast.journal.attribution import given_by
from holdfast.journal.promise import PromiseId
from holdfast.programs.function.values import decode, encode
from holdfast.runs import journals, messages
from holdfast.runs.advice import Advice
from holdfast.runs.hints import command
from holdfast.runs.lanes import refuse_lane
from holdfast.runs.program_names import DEFINITION
from holdfast.runs.signals import keyed
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.audit.check.journal import RunCheck
    from holdfast.client.engine import Holdfast
    from holdfast.client.governance.evidence import Evidence
    from holdfast.client.runs.retries import RetryChoice, RetryPlan
    from holdfast.client.views.overview import RunOverview
    from holdfast.client.views.signals import WaitingSignal
    from holdfast.client.views.timeline import Item
    from holdfast.client.views.window import TimelinePart
    from holdfast.drawing.picture import Direction, Picture
    from holdfast.programs.function.decorators import Workflow

R = TypeVar("R")


class RunHandle(Generic[R]):
    """One run, by its id and tenant. Handles are cheap: they hold only the id and the tenant."""

    def __init__(self, app: Holdfast, key: p.Key, workflow: Workflow[..., R] | None = None) -> None:
        self._app = app
        self._workflow = workflow
        self._run = key.run
        self.tenant_asked: str | None = key.tenant  # None: the caller's own
        self.is_new = False  # whether the start that gave this handle made the run

    @classmethod
    def of_caller(cls, app: Holdfast, run: str) -> RunHandle[Any]:
        """A handle on a run of the caller's own tenant, which may not be known yet."""
        handle = cls(app, p.Key("", run))
        handle.tenant_asked = None
        return handle

    @property
    def key(self) -> p.Key:
        return p.Key(self._app.tenant_of(self.tenant_asked), self._run)

    @property
    def id(self) -> str:
        return self._run

    @property
    def tenant(self) -> str:
        return self.key.tenant

    def __repr__(self) -> str:
        return f"<run {self._run} of {self.tenant_asked or 'the caller'}>"

    @operation("runs.see")
    async def info(self) -> RunInfo:
        """All that is known of the run without reading its journal. Raises RunNotFound."""
        return run_info(await self._row())

    async def _row(self) -> p.Run:
        return await journals.row_of(self._app.store, self.key)

    @operation("runs.see")
    async def status(self) -> p.Status:
        """One of queued, running, waiting, paused, cancelling, completed, failed, cancelled."""
        return (await self._row()).status

    @operation("runs.see")
    async def result(self, timeout: float | None = None) -> R:
        """Wait for the end and give the result. Raises RunFailed, RunCancelled, RunNotFound, or TimeoutError.

        Without a ``timeout`` it raises RunParked where the run cannot continue by itself: the wait might never end.
        With one it waits that long for someone to mend and resume the run. It waits for a paused run in both cases.
        """
        async with asyncio.timeout(timeout):
            self._app.check_open()
            end = await self._app.waiters.wait(self.key, until_parked=timeout is None)
        if isinstance(end, p.Run) and end.standing not in p.ENDED:
            raise self._parked(end.pause or "")
        event = end.event if isinstance(end, EndedHere) else await journals.last_event(self._app.store, end)
        return self._outcome(event, self._workflow or self._function(end))

    def _function(self, end: End) -> Workflow[..., Any] | None:
        """The function whose result it is. A definition may be called like a function that is not served here."""
        if isinstance(end, EndedHere):
            return self._app.workflows.get(end.workflow)
        return self._app.workflow_named(end.workflow) if end.program_kind == p.FUNCTION else None

    @operation("runs.see")
    async def settled(self, timeout: float | None = None) -> RunProgress:
        """Wait until the run rests, and tell how it stands: it has ended, is paused, or waits for something new.

        All that was sent to it, answered or started before this call is taken in by then. Where the time is over first,
        it tells how the run stands then. Raises RunNotFound.
        """
        self._app.check_open()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._app.waiters.wait(self.key, until_rest=True)
        return await progress_of(self._app, await self._row())

    @operation("runs.see")
    async def details(self) -> RunDetails:
        """The run, why it is not moving, its open tasks and its result; without what its code would tell."""
        return await details_of(self._app, await self._row())

    def _parked(self, reason: str) -> RunParked:
        resuming = command("resume", self.id, tenant=self.tenant)
        remedy = f"Mend that, then `{resuming}` lets it go on; with a timeout, result() waits for it."
        return RunParked(f"run {self.id} is parked: {reason.rstrip('.')}. {remedy}", reason=reason)

    def _outcome(self, event: e.Event, workflow: Workflow[..., R] | None) -> R:
        """The result as its workflow's annotated type, where the workflow is known here; else as plain data."""
        match event:
            case e.ExecutionCompleted(result=payload):
                value: R = decode(payload) if workflow is None else workflow.read_result(payload)
                return value
            case e.ExecutionFailed(error=failure):
                raise RunFailed(f"run {self.id} failed: {failure}", failure=failure)
            case e.ExecutionCancelled(reason=reason):
                raise RunCancelled(f"run {self.id} was cancelled: {reason}")
            case other:
                raise EngineError(f"run {self.id} ended with {other!r}")

    @operation("runs.see")
    async def state(self) -> dict[str, Any]:
        """The business state of a run of a definition, whether a worker has it or not. Raises InvalidRequest."""
        return await state_of(self._app, await self._row())

    @operation("runs.see")
    async def overview(self) -> RunOverview:
        """All that ``holdfast show`` shows. Raises RunNotFound."""
        from holdfast.client.views.overview import overview_of

        found = await overview_of(self._app.store, self.key, self._app.clock.now())
        if found.run.program_kind != DEFINITION:
            return found
        try:
            return msgspec.structs.replace(found, instance=await self.instance())
        except HoldfastError as error:  # what else is known of it is shown all the same
            return msgspec.structs.replace(found, problem=str(error))

    @operation("runs.see")
    async def instance(self) -> InstanceInfo:
        """Where a run of a definition stands: its business state, and the engine's. Raises InvalidRequest."""
        from holdfast.client.runs.standing import instance_of

        return await instance_of(self._app, await self._row())

    @operation("runs.signal")
    async def signal(
        self,
        name: str,
        value: object = None,
        *,
        key: object = None,
        id: str | None = None,
        expected_version: int | None = None,
        wait_token: str | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> None:
        """Send a signal; durable when this returns. With an ``id`` a repetition is delivered once.

        With a ``key`` only a definition that waits for this name and key gets it.
        With ``by`` a person sends it, and the audit records who and the ``reason`` in the same commit.

        With ``expected_version``, which is the ``events`` of ``run.info()``, the signal is for the run as its sender
        saw it: a run that has moved on ignores it. With ``wait_token``, a token of ``run.instance()``, it is for that
        wait: a run that does not wait there any more ignores it. Raises RunConflict where that is known already,
        RunNotFound or RunEnded.
        """
        if not name:
            raise InvalidRequest("a signal has a name")
        name = keyed(name, key)
        if expected_version is not None and (present := (await self._row()).version) != expected_version:
            raise RunConflict(f"run {self.id} is at version {present}, not {expected_version}: look at it again.")
        if wait_token is not None:
            await self._check_waits(name, wait_token)
        by, now = self._app.person_of(by), self._app.clock.now()
        payload = given_by(encode(value, f"signal {name!r}"), by)
        message = messages.signal(name, payload, now, id or None, expected_version, wait_token)
        if message.id is None:  # a commit of unknown outcome is tried again
            message = msgspec.structs.replace(message, id=self._app.token())
        if by is None:
            await self._deliver(message)
        else:
            await self._operate("signal", by, reason, p.Deliver(self.key, message), name=name)
            self._app.delivered(self.key)

    async def _check_waits(self, name: str, wait_token: str) -> None:
        """Raises RunConflict if it is known that the run does not wait there any more, InvalidRequest for no token."""
        try:
            promise = PromiseId.parse(wait_token)
        except ValueError:
            raise InvalidRequest(f"{wait_token!r:.100} is no token of a wait: take one of run.instance()") from None
        row = await self._row()
        is_over = promise.root != row.root
        if not is_over:
            async for entry in journals.read(self._app.store, row, whole=False):
                if isinstance(entry.event, e.SignalReceived) and entry.event.promise_id == promise:
                    is_over = True
        if is_over:
            raise RunConflict(f"run {self.id} waits for {name!r} there no more: look at it again.")

    async def _deliver(self, message: p.Message) -> None:
        refuse_lane(self.id, "signal")
        answer = await self._app.committer.commit(p.Deliver(self.key, message))
        match answer:
            case p.Delivered() | p.Repeated():
                self._app.delivered(self.key)
            case p.Gone():
                raise RunEnded(f"run {self.id} has ended, nothing can reach it: start a new one, or fork it.")
            case _:
                raise RunNotFound(f"there is no run {self.id!r} in tenant {self.tenant!r}.")

    @operation("runs.cancel")
    async def cancel(
        self, reason: str = "cancelled by request", *, by: str | None = None, leave_children: bool = False
    ) -> None:
        """Ask the run to stop; its cleanup runs first, even where it was paused, and begins after its children have
        ended, unless it is to ``leave_children``: then its end names those left. Raises RunNotFound or RunEnded."""
        stop = await cancellation(self._app, self.key, reason, leave_children=leave_children)
        await self._operate("cancel", by, reason, *stop)
        self._app.delivered(self.key)

    @operation("runs.pause")
    async def pause(self, reason: str = "paused by request", *, by: str | None = None) -> None:
        """Let the run finish the steps it has begun, and then stop it until ``resume``."""
        check_reason(reason)
        await self._operate("pause", by, reason, p.Pause(self.key, by_request(reason), self._app.clock.now()))

    @operation("runs.resume")
    async def resume(self, *, by: str | None = None, reason: str = "") -> None:
        """Let a paused or parked run continue."""
        await self._operate("resume", by, reason, p.Unpause(self.key, self._app.clock.now()))

    async def _operate(
        self, act: str, by: str | None, reason: str, *changes: p.Deliver | p.Pause | p.Unpause, name: str = ""
    ) -> None:
        """Make a person's changes and note them in the audit, all in one commit. Raises RunNotFound, RunEnded."""
        self._app.check_open()
        refuse_lane(self.id, act)
        note = operator_note(self._app, self.tenant, act, by, self.id, reason, {"signal": name} if name else {})
        match await self._app.committer.commit(p.Operate(note, changes)):
            case p.OperatedOn() | p.Repeated():
                self._app.wake_sealer()
                self._app.hint()
            case p.Gone():
                raise RunEnded(f"run {self.id} has ended, and {act} cannot change it: `retry` or `fork` it instead.")
            case _:
                raise RunNotFound(f"there is no run {self.id!r} in tenant {self.tenant!r}.")

    @operation("runs.see")
    async def journal(self, first: int = 0) -> AsyncIterator[JournalEntry]:
        """The entries of the run's journal, in order. Secrets are masked."""
        async for entry in masked_entries(self._app.store, await self._row(), first):
            yield journal_entry(entry)

    @operation("runs.see")
    async def window(self, first: int = 0, limit: int = 200) -> list[JournalEntry]:
        """A part of the journal: at most ``limit`` entries, from ``first`` on. Secrets are masked."""
        found: list[JournalEntry] = []
        async for entry in masked_entries(self._app.store, await self._row(), first, page_size=min(200, limit)):
            found.append(journal_entry(entry))
            if len(found) >= limit:
                break
        return found

    @operation("runs.see")
    async def tail(self, first: int = 0) -> AsyncIterator[JournalEntry]:
        """The entries as they are written, masked, until the run has ended; a new generation begins at sequence 0."""
        at, row = first, await self._row()
        mask = await mask_of(self._app.store, row)
        while True:
            async for entry in masked_entries(self._app.store, row, at, mask):
                at = entry.sequence + 1
                yield journal_entry(entry)
            if row.standing in p.ENDED:
                return
            await self._app.changed(0.2)
            before, row = row, await self._row()
            if row.generation != before.generation:
                async for entry in masked_entries(self._app.store, before, at, mask):  # the end of the last journal
                    yield journal_entry(entry)
                at = 0

    @operation("runs.see")
    async def timeline(self) -> list[Item]:
        """The journal folded into one item for each step, child, timer and signal, in the order they began."""
        from holdfast.client.views.overview import timeline_of

        row = await self._row()
        return await timeline_of(self._app.store, row, [entry async for entry in masked_entries(self._app.store, row)])

    @operation("runs.see")
    async def timeline_window(self, first: int | None = None, limit: int = 200) -> TimelinePart:
        """The timeline of ``limit`` events of the journal from ``first`` on, without ``first`` the last ones.

        It costs the same wherever it is, and however long the journal is. Each row has the values of its call.
        """
        from holdfast.client.views.window import window_of

        return await window_of(self._app.store, await self._row(), first, limit)

    @operation("runs.see")
    async def unreceived(self) -> list[WaitingSignal]:
        """The signals that the run has not received, in the order in which they came."""
        from holdfast.client.views.signals import unreceived

        row, store = await self._row(), self._app.store
        return await unreceived(store, row, [entry async for entry in journals.read(store, row)])

    @operation("runs.see")
    async def picture(
        self, *, at: int | None = None, direction: Direction = "down", deepest: int | None = None
    ) -> Picture:
        """The picture of the run as it is, or as it was when its journal had ``at`` events.

        Raises RunNotFound, InvalidRequest where it has no such version, and what replaying its journal raises.
        """
        from holdfast.client.definitions.pictures import picture_of_run
        from holdfast.drawing.definitions import DEEPEST

        deepest = DEEPEST if deepest is None else deepest
        return await picture_of_run(self._app, self.key, at=at, direction=direction, deepest=deepest)

    @operation("runs.see")
    async def explain(self) -> str:
        """What the run waits for, since when, and what would move it, in words."""
        return (await explain(self._app.store, await self._row(), self._app.clock.now())).text

    @operation("runs.see")
    async def advice(self) -> tuple[Advice, ...]:
        """What ``explain`` says, for programs: each reason with a code of a closed list, and what would move it."""
        return (await explain(self._app.store, await self._row(), self._app.clock.now())).advice

    @operation("runs.see")
    async def verify(self) -> RunCheck:
        """Check the journal's laws, its hash chain and the stored status."""
        from holdfast.audit.check.journal import verify_run

        return await verify_run(self._app.store, await self._row())

    @operation("evidence.see")
    async def evidence(self, *, values: bool = False, generation: int | None = None, anew: bool = False) -> Evidence:
        """A file that proves what the run did: the one that was kept at its end, or else one that is made now.

        It has the type, size and hash of each value; with ``values`` it has the values of the journal, too. With a
        ``generation`` it ends with an earlier journal of the run. With ``anew`` it is made now in any case. Raises
        RunNotFound, KeyLocked, or StoreCorrupt where the kept file has been altered.
        """
        from holdfast.client.governance.evidence import evidence_of

        return await evidence_of(self._app, self.key, values=values, generation=generation, anew=anew)

    @operation("runs.retry")
    async def retry(
        self, *, by: str | None = None, reason: str = "", dry_run: bool = False, **chosen: Unpack[RetryChoice]
    ) -> tuple[str, ...]:
        """Let a failed or cancelled run continue from its failure: a new generation with the journal up to there.

        What failed or was undone is done again; what succeeded is kept, for calls with the same input. One with another
        parks the run until names ``again`` are to be done again, names of ``keep`` get their kept result, or with
        ``new`` none counts. With ``tree`` failed children are retried. Gives the names of what is done again; with
        ``dry_run`` no more happens. Raises InvalidRequest or RetryRefused.
        """
        return (await self._app.retries.retry(self.key, chosen, by, reason, dry_run=dry_run)).again

    @operation("runs.retry")
    async def plan_retry(self, **chosen: Unpack[RetryChoice]) -> RetryPlan:
        """What ``retry`` would do."""
        return await self._app.retries.retry(self.key, chosen, dry_run=True)

    @operation("runs.fork")
    async def fork(
        self, sequence: int, *, id: str | None = None, by: str | None = None, reason: str = ""
    ) -> RunHandle[R]:
        """A new run with this one's journal before ``sequence``; it continues from there.

        The person who forks it counts as the one who started it: they may not approve its actions of tier high.
        """
        return RunHandle(self._app, await self._app.repairs.fork(self.key, sequence, id, by, reason))

    @operation("runs.see")
    async def children(self) -> AsyncIterator[RunHandle[Any]]:
        """The runs that this one started and waits for, or waited for."""
        async for row in run_rows(self._app.store, tenant=self.tenant, parent=self.id):
            yield RunHandle(self._app, row.key)
