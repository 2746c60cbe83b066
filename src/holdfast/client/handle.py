"""A handle on one run: what can be asked of it and done to it from outside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.audit.check.journal import RunCheck, verify_run
from holdfast.client.evidence import Evidence, evidence_of
from holdfast.client.explanation import explain
from holdfast.client.pauses import by_request
from holdfast.client.views import masking
from holdfast.client.waiters import EndedHere
from holdfast.errors import (
    EngineError,
    InvalidRequest,
    RunCancelled,
    RunConflict,
    RunEnded,
    RunFailed,
    RunNotFound,
    RunParked,
)
from holdfast.journal import events as e
from holdfast.programs.function.decorators import Workflow
from holdfast.programs.function.values import decode, encode
from holdfast.runs import journals, messages
from holdfast.runs.hints import command
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

R = TypeVar("R")


class RunHandle(Generic[R]):
    """One run, by its id and tenant. Handles are cheap, and hold nothing but the name."""

    def __init__(self, app: Holdfast, key: p.Key, workflow: Workflow[..., R] | None = None) -> None:
        self._app = app
        self._workflow = workflow
        self.key = key

    @property
    def id(self) -> str:
        return self.key.run

    @property
    def tenant(self) -> str:
        return self.key.tenant

    def __repr__(self) -> str:
        return f"<run {self.key.run} of {self.key.tenant}>"

    async def info(self) -> p.Run:
        """Everything that the run's row says. Raises RunNotFound."""
        return await journals.row_of(self._app.store, self.key)

    async def status(self) -> p.Status:
        """One of queued, running, waiting, paused, cancelling, completed, failed, cancelled."""
        return (await self.info()).status

    async def result(self, timeout: float | None = None) -> R:
        """Wait for the end and give the result. Raises RunFailed, RunCancelled, RunNotFound, or TimeoutError.

        Without a ``timeout`` it raises RunParked where the run cannot go on by itself: nothing would end the wait. With
        one it waits that long for someone to mend and resume it. A run that a person paused is waited for in both.
        """
        async with asyncio.timeout(timeout):
            self._app.check_open()
            end = await self._app.waiters.wait(self.key, until_parked=timeout is None)
        if isinstance(end, p.Run) and end.standing not in p.ENDED:
            raise self._stranded(end.pause or "")
        event = end.event if isinstance(end, EndedHere) else await journals.last_event(self._app.store, end)
        return self._outcome(event, self._workflow or self._app.workflow_named(end.workflow))

    def _stranded(self, reason: str) -> RunParked:
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

    async def signal(
        self,
        name: str,
        value: object = None,
        *,
        id: str | None = None,
        expected_version: int | None = None,
        by: str | None = None,
    ) -> None:
        """Send a signal; durable when this returns. With an ``id`` a repetition is delivered once.

        With ``by`` a person sends it: the audit says who, in the same commit. Without, it is a program's message.

        With ``expected_version`` (as in ``(await run.info()).version``) it is meant for the run as the sender saw it: a
        run that has moved on is not changed by it. Raises RunConflict where that is known already, RunNotFound or
        RunEnded.
        """
        if not name:
            raise InvalidRequest("a signal has a name")
        if expected_version is not None and (present := (await self.info()).version) != expected_version:
            raise RunConflict(f"run {self.id} is at version {present}, not {expected_version}: look at it again.")
        # Without a caller's id it gets one all the same: a commit whose outcome is unknown is tried again.
        payload = encode(value, f"signal {name!r}")
        now = self._app.clock.now()
        message = messages.signal(name, payload, now, id or self._app.token(), expected_version)
        if by is None:
            await self._deliver(message)
        else:
            await self._operate("signal", by, "", p.Deliver(self.key, message), name=name)
            self._app.delivered(self.key)

    async def _deliver(self, message: p.Message) -> None:
        answer = await self._app.committer.commit(p.Deliver(self.key, message))
        match answer:
            case p.Delivered() | p.Repeated():
                self._app.delivered(self.key)
            case p.Gone():
                raise RunEnded(f"run {self.id} has ended, nothing can reach it: start a new one, or fork it.")
            case _:
                raise RunNotFound(f"there is no run {self.id!r} in tenant {self.tenant!r}.")

    async def cancel(self, reason: str = "cancelled by request", *, by: str | None = None) -> None:
        """Ask the run to stop; its cleanup runs first, even where it was paused. Raises RunNotFound or RunEnded."""
        now = self._app.clock.now()
        stop = p.Deliver(self.key, messages.cancel(reason, now))
        await self._operate("cancel", by, reason, stop, p.Unpause(self.key, now))
        self._app.delivered(self.key)

    async def pause(self, reason: str = "paused by request", *, by: str | None = None) -> None:
        """Let the run finish the steps it has begun and then rest until ``resume``."""
        self._app.check_reason(reason)
        await self._operate("pause", by, reason, p.Pause(self.key, by_request(reason), self._app.clock.now()))

    async def resume(self, *, by: str | None = None) -> None:
        """Let a paused or parked run go on."""
        await self._operate("resume", by, "", p.Unpause(self.key, self._app.clock.now()))

    async def _operate(
        self, act: str, by: str | None, reason: str, *changes: p.Deliver | p.Pause | p.Unpause, name: str = ""
    ) -> None:
        """Do what a person asks and note it, in one commit. Raises RunNotFound or RunEnded: then neither is done."""
        note = self._app.told(self.tenant, act, by, self.id, reason, {"signal": name} if name else {})
        match await self._app.committer.commit(p.Operate(note, changes)):
            case p.OperatedOn() | p.Repeated():
                self._app.wake_sealer()
                self._app.hint()
            case p.Gone():
                raise RunEnded(
                    f"run {self.id} has ended, and cannot be changed by {act}: `retry` or `fork` it instead."
                )
            case _:
                raise RunNotFound(f"there is no run {self.id!r} in tenant {self.tenant!r}.")

    async def journal(self, first: int = 0) -> AsyncIterator[e.Entry]:
        """The entries of the run's journal, in order: ``sequence``, ``timestamp``, ``event``. Secrets are masked."""
        async for entry in masking.shown(self._app.store, await self.info(), first):
            yield entry

    async def tail(self, first: int = 0) -> AsyncIterator[e.Entry]:
        """The entries as they come, until the run has ended; a new generation begins at sequence 0 again.

        Secrets are masked.
        """
        at = first
        row = await self.info()
        veil = await masking.veil_of(self._app.store, row)
        while True:
            async for entry in masking.shown(self._app.store, row, at, veil):
                at = entry.sequence + 1
                yield entry
            if row.standing in p.ENDED:
                return
            await self._app.changed(0.2)
            before, row = row, await self.info()
            if row.generation != before.generation:
                async for entry in masking.shown(self._app.store, before, at, veil):  # what the last journal got since
                    yield entry
                at = 0

    async def explain(self) -> str:
        """One sentence: what it waits for, since when, and what would move it."""
        return await explain(self._app.store, await self.info(), self._app.clock.now())

    async def verify(self) -> RunCheck:
        """Check the journal's laws, its hash chain and the stored status."""
        return await verify_run(self._app.store, await self.info())

    async def evidence(self, *, values: bool = False, generation: int | None = None, anew: bool = False) -> Evidence:
        """What proves what the run did, as a file: what was kept at its end, or else what is made now.

        It tells of values by type, size and hash; with ``values`` it has the values of the journal, too. With a
        ``generation`` it is up to an earlier journal of the run. With ``anew`` it is made now, whatever was kept.
        Raises RunNotFound, KeyLocked, or StoreCorrupt where what was kept has been altered.
        """
        return await evidence_of(self._app, self.key, values=values, generation=generation, anew=anew)

    async def retry(self, *, by: str | None = None, dry_run: bool = False) -> tuple[str, ...]:
        """Let a failed or cancelled run go on from its failure: a new generation with the journal up to there.

        What it undid is done again, and so is what failed; no other step that succeeded is. Gives the names of the
        calls that are done again; with ``dry_run`` nothing else happens. Raises InvalidRequest where it has not failed,
        RetryRefused where something would be done twice.
        """
        plan = await self._app.repairs.plan_retry(self.key)
        if not dry_run:
            await self._app.repairs.retry(self.key, plan, by)
        return plan.again

    async def fork(self, sequence: int, *, id: str | None = None, by: str | None = None) -> RunHandle[R]:
        """A new run with this one's journal up to, and without, ``sequence``; it goes on from there by itself.

        Who forks it has started it: an approval of tier high is another person's.
        """
        return RunHandle(self._app, await self._app.repairs.fork(self.key, sequence, id, by))

    async def children(self) -> AsyncIterator[RunHandle[Any]]:
        """The runs that this one started and waits for, or waited for."""
        async for row in self._app.list(tenant=self.tenant, parent=self.id):
            yield RunHandle(self._app, row.key)
