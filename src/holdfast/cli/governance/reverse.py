"""``reverse``: take an act back, by a run that the gate judges like any other."""

from __future__ import annotations

from typing import Any, NamedTuple

import click

from holdfast.cli import exits, options, output, session
from holdfast.client.engine import Holdfast
from holdfast.client.people.permission import operating
from holdfast.client.runs.handle import RunHandle
from holdfast.client.views.runs import RunInfo, run_record
from holdfast.errors import RunCancelled, RunFailed
from holdfast.programs.function.reversal import REVERSE
from holdfast.runs.hints import command
from holdfast.store.protocol import ENDED


class _Reversal(NamedTuple):
    run: RunInfo
    action: str
    served: bool
    """Whether a running worker serves reversals. Which actions its app defines is not known here."""
    trouble: str | None = None


@click.command()
@click.argument("receipt")
@click.option("--wait", type=options.Duration(), metavar="TIME", help="Wait for its end, at most so long: 30s.")
@click.option("--anyway", is_flag=True, help="Also if an open run relies on the act. The audit names that run.")
@options.answer
def reverse(
    receipt: str, wait: float | None, anyway: bool, who: str, reason: str, tenant: str, store: str | None, as_json: bool
) -> int:
    """Take back the act of RECEIPT: a run calls the action which the receipt names, and policy judges it.

    Called twice, the act is taken back once; called after a failure, it is tried again. An act on which an open run
    relies is not taken back without --anyway.
    """

    async def work(app: Holdfast) -> _Reversal:
        action = (await app.receipts.get(receipt, tenant=tenant)).reverse or ""
        change = app.receipts.reverse(receipt, by=who, reason=reason, anyway=anyway, tenant=tenant)
        handle = await session.patiently(app, change)
        async with operating(app, "runs.see"):
            served = any(REVERSE in worker.workflows for worker in await app.store.workers())
        trouble = None if wait is None else await _await(handle, wait)
        return _Reversal(await handle.info(), action, served, trouble)

    found = session.on_store(session.url_of(store), work)
    if as_json:
        record = {"action": "reverse", "receipt": receipt, "reverse": found.action, "worker_running": found.served}
        output.emit({**run_record(found.run), **record})
    else:
        _write(found, receipt)
    if found.trouble is not None:
        output.note(found.trouble)
    return exits.GOOD if wait is None or found.run.status == "completed" else exits.NO


async def _await(handle: RunHandle[Any], seconds: float) -> str | None:
    """Wait for the end; gives the problem, if there was one."""
    try:
        await handle.result(seconds)
    except (RunFailed, RunCancelled) as error:
        return f"error: {error}"
    except TimeoutError:
        return f"run {handle.id} has not ended yet: {await handle.explain()}"
    return None


def _write(found: _Reversal, receipt: str) -> None:
    run = found.run
    if run.status in ENDED:
        output.say(f"run {run.id}, which takes back {receipt}, is {run.status}")
        return
    output.say(f"run {run.id} takes back {receipt} by {found.action}")
    output.say(f"  {command('tail', run.id, tenant=run.tenant)}")
    output.say(f"  {command('tasks', '--run', run.id, tenant=run.tenant)}")
    if not found.served:
        output.note(f"no worker is running: `holdfast worker APP` starts one; its app must define {found.action}.")
