"""A step: performed beside its run, or by any worker that serves its queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import cbor2
from msgspec.structs import replace

from holdfast.journal.events import InvokeScheduled
from holdfast.journal.payload import Err, Failure, Outcome, policy_fields, says_more
from holdfast.journal.render import arguments
from holdfast.kernel.requests import Abandon, Invoke, Stop
from holdfast.kernel.waits import Wait
from holdfast.runs.advice import AdviceCode, Awaited
from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.runs.hints import command
from holdfast.runs.kinds.kind import CallingRun, Errand, Kind, Pins, Place, Shown, next_attempt
from holdfast.runs.lanes import CellOrigin
from holdfast.runs.tracing import TRACEPARENT
from holdfast.store.protocol import Answer, Enqueue, Run, Store, Withdraw, Withdrawn, Work

STEP: Final = "step"
_PATIENCE_SECONDS: Final = 60
STOPPED: Final = Err(Failure("asyncio.exceptions:CancelledError", "it was stopped before it began"))


class StepKind(Kind):
    """A Python function whose result is kept."""

    name: ClassVar[str] = STEP
    has_step: ClassVar[bool] = True

    def place(self, queue: str | None) -> Place:
        return Place.HERE if queue is None else Place.COMMIT

    def plan(self, run: CallingRun, request: Invoke, now: int, pins: Pins) -> Errand:
        if request.stopped:  # the run was taken over: the one before may not have had the answer
            return _withdrawn(run, request)
        return Errand(Enqueue(_work(run, request)))

    def give_up(self, run: CallingRun, request: Abandon, now: int) -> Errand | None:
        return Errand(Withdraw(run.key, request.promise_id.path[-1]))

    def stop(self, run: CallingRun, request: Stop, now: int) -> Errand | None:
        return None if request.queue is None else _withdrawn(run, request)

    async def explain(self, store: Store, run: Run, wait: Wait, now: int) -> Awaited:
        return await queued_step(store, run, wait, now)

    def show(self, event: InvokeScheduled) -> Shown:
        return Shown(event.function_name, f"({arguments(event.input)})")

    def is_repeated(self, edition: int) -> bool:
        return True


def _withdrawn(run: CallingRun, request: Invoke | Stop) -> Errand:
    """Take a queued step back that nobody has begun: then it has ended. One that was begun ends by itself."""
    change = Withdraw(run.key, request.promise_id.path[-1], unbegun=True)
    return Errand(change, request.promise_id, _read_withdrawn, attempt=request.attempt)


def _read_withdrawn(answer: Answer) -> Outcome | None:
    return None if isinstance(answer, Withdrawn) and answer.left else STOPPED


def _work(run: CallingRun, request: Invoke) -> Work:
    return Work(
        run.key,
        request.promise_id.path[-1],
        request.queue or "",
        request.function_name,
        request.attempt,
        cbor2.dumps(_body(run, request), canonical=True),
        run.row.priority,
        request.not_before,
        # The first epoch. Positions repeat in a new lineage, and a late finisher of the old lineage must not match.
        run.generation * 1_000_000_000 + run.version,
    )


def _body(run: CallingRun, request: Invoke) -> list[object]:
    """What a worker needs of it: the call's own word on its attempts only where that is more than how many, its run's
    trace only where it has one, and of a cell's call whether the cell hears how far it is, and which cell it is."""
    body: list[object] = [run.id.root, request.input.data, request.input.codec, request.mark]
    attributes = run.row.attributes
    trace = attributes.get(TRACEPARENT) if attributes else None
    if (origin := run.origin_of(request.promise_id)) is not None:
        return [*body, policy_fields(request.retry), trace, run.hears_progress, [origin.machine, origin.key]]
    if trace is not None:
        return [*body, policy_fields(request.retry), trace]
    return [*body, policy_fields(request.retry)] if says_more(request.retry) else body


def hears_progress(rest: Sequence[Any]) -> bool:
    """Whether the cell that asked hears reports, by what follows the input in a work's body."""
    return len(rest) > 3 and bool(rest[3])


def origin_of(body: Sequence[Any]) -> CellOrigin | None:
    """The cell that asked, by a work's body; None where a workflow did."""
    return CellOrigin(*body[7]) if len(body) > 7 else None


async def queued_step(store: Store, run: Run, wait: Wait, now: int) -> Awaited:
    """Where a step is, if it is on a queue. A worker that is silent runs nothing, and serves no queue.

    Which steps a worker has is not known: if none of those that serve the queue has taken it for a while, a worker with
    its code may be missing.
    """
    step = f"step {wait.name}"
    found = [(work, owner) for work, owner in await store.work_of(run.key) if work.position == wait.position]
    if wait.due is not None and (not found or found[0][0].available_at > now):
        return next_attempt(step, wait.due, now)
    if not found:
        return Awaited(AdviceCode.WAIT_CALL, step)
    work, owner = found[0]
    alive = [worker for worker in await store.workers() if worker.expires_at >= now]
    if any(worker.id == owner for worker in alive):
        return Awaited(AdviceCode.WAIT_CALL, f"{step}, which worker {owner} runs from queue {work.queue!r}", work.queue)
    where = f"{step} on queue {work.queue!r}, which"
    start = command("worker", "APP", "--queues", f"{work.queue}=1", tenant=DEFAULT_TENANT)
    missing = Awaited(AdviceCode.SERVE_QUEUE, "", work.queue, wait.name, start)
    if not any(work.queue in worker.queues for worker in alive):
        return replace(missing, words=f"{where} no running worker serves: start one that does")
    if owner is not None:
        words = f"{where} another worker takes over: worker {owner}, which ran it, is silent"
        return Awaited(AdviceCode.WAIT_WORKER, words, work.queue)
    words = f"{where} waits for a free place in a worker whose code has it"
    if now - max(work.available_at, run.updated_at) > _PATIENCE_SECONDS * 1_000_000:
        return replace(missing, words=f"{words}: start one if there is none")
    return Awaited(AdviceCode.WAIT_CALL, words, work.queue)
