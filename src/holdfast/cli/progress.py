"""How a run stands, written for people: its status, its state, what it asks, and its result."""

from __future__ import annotations

from holdfast.cli import output
from holdfast.client.runs.progress import RunProgress
from holdfast.client.views.values import compact, plain, quoted
from holdfast.runs.hints import command


def write_progress(progress: RunProgress) -> None:
    """Write how a run stands."""
    run = progress.run
    moving = "" if progress.at_rest else ", and still moving"
    output.say(f"run {run.id} is ", output.status_cell(run.status), moving)
    for name, value in (progress.state or {}).items():
        output.say(f"  {quoted(name)}: {quoted(plain(value))}")
    for task in progress.tasks:
        output.say(f"  asks {task.who_may}: {quoted(task.summary)}")
        output.say(f"    {command('tasks', 'show', task.id, tenant=task.tenant)}")
    if run.status == "completed":
        output.say(f"  result: {compact(plain(progress.result))}")
    reason = progress.error or run.pause_reason
    if reason:
        output.say(f"  because: {output.one_line(reason)}")
