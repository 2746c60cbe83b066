"""How a run stands, for whoever has just started it, answered it or sent it something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.client.runs.explanation import explain
from holdfast.client.views.runs import RunInfo, run_info, run_record
from holdfast.client.views.tasks import TaskInfo, task_info, task_record
from holdfast.client.views.values import payload_value, plain
from holdfast.client.waiters import is_at_rest
from holdfast.journal import events as e
from holdfast.runs import journals
from holdfast.runs.advice import Advice
from holdfast.runs.program_names import DEFINITION
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

TASKS_SHOWN = 100


class RunProgress(msgspec.Struct, frozen=True, kw_only=True):
    """A run at one moment: its status, its business state where it has one, what it asks people, and its result."""

    run: RunInfo
    at_rest: bool  # whether nothing moves it until something new happens
    state: dict[str, Any] | None  # of a definition's run
    tasks: tuple[TaskInfo, ...]  # those that are open, oldest first
    result: Any = None  # of a run that has completed

    @property
    def status(self) -> p.Status:
        """One of queued, running, waiting, paused, cancelling, completed, failed, cancelled."""
        return self.run.status

    @property
    def error(self) -> str | None:
        """Why it failed."""
        return self.run.error


class RunDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A run, why it is not moving, what it asks people, and its result. Its code need not be known here."""

    run: RunInfo
    explanation: str
    advice: tuple[Advice, ...]  # what the explanation says, by codes
    at_rest: bool
    tasks: tuple[TaskInfo, ...]  # those that are open, oldest first
    result: Any = None  # of a run that has completed


async def details_of(app: Holdfast, row: p.Run) -> RunDetails:
    """A run by its row and the end of its journal: as quick for a long one as for a short one."""
    now = app.clock.now()
    explained = await explain(app.store, row, now)
    return RunDetails(
        run=run_info(row),
        explanation=explained.text,
        advice=explained.advice,
        at_rest=is_at_rest(row, now),
        tasks=await _open_tasks(app, row),
        result=await _result(app, row),
    )


async def _result(app: Holdfast, row: p.Run) -> Any:
    if row.standing != "completed":
        return None
    ending = await journals.last_event(app.store, row)
    return payload_value(ending.result) if isinstance(ending, e.ExecutionCompleted) else None


async def _open_tasks(app: Holdfast, row: p.Run) -> tuple[TaskInfo, ...]:
    query = p.TaskQuery(row.key.tenant, "requested", row.key.run)
    return tuple(task_info(task) for task in await app.store.tasks(query, TASKS_SHOWN))


async def progress_of(app: Holdfast, row: p.Run) -> RunProgress:
    """How a run stands by this row."""
    return RunProgress(
        run=run_info(row),
        at_rest=is_at_rest(row, app.clock.now()),
        state=await state_of(app, row) if row.program_kind == DEFINITION else None,
        tasks=await _open_tasks(app, row),
        result=await _result(app, row),
    )


async def state_of(app: Holdfast, row: p.Run) -> dict[str, Any]:
    """The business state of a definition's run. Who asks for none does not load the interpreter."""
    from holdfast.client.runs.standing import definition_at

    return (await definition_at(app, row)).state


def progress_record(progress: RunProgress) -> dict[str, Any]:
    """A run's progress as ``--json`` writes it."""
    return {
        **run_record(progress.run),
        "at_rest": progress.at_rest,
        "state": plain(progress.state),
        "tasks": [task_record(task) for task in progress.tasks],
        "result": plain(progress.result),
    }
