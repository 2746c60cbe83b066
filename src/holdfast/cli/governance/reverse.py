"""``reverse``: take an act back, by a run that goes through the gate like any other."""

from __future__ import annotations

from typing import Any, NamedTuple

import click

from holdfast.cli import exits, options, output, session
from holdfast.client.engine import Holdfast
from holdfast.client.handle import RunHandle
from holdfast.client.views import records
from holdfast.errors import RunCancelled, RunFailed
from holdfast.programs.function.reversal import REVERSE
from holdfast.runs.hints import command
from holdfast.store.protocol import ENDED, Run


class _Reversal(NamedTuple):
    row: Run
    action: str
    served: bool
    """Whether a running worker knows how to reverse at all; which actions its app defines, nobody can tell."""
    trouble: str | None = None


@click.command()
@click.argument("receipt")
@click.option("--wait", type=options.Duration(), metavar="TIME", help="Wait for its end, at most so long: 30s.")
@options.answer
def reverse(
    receipt: str, wait: float | None, who: str, reason: str, tenant: str, store: str | None, as_json: bool
) -> int:
    """Take back the act of RECEIPT: a run calls the action which the receipt names, and policy judges it.

    Asked twice it is done once; asked again after it failed, it is tried again.
    """

    async def work(app: Holdfast) -> _Reversal:
        action = (await app.receipts.get(receipt, tenant=tenant)).reverse or ""
        change = app.receipts.reverse(receipt, by=who, reason=reason, tenant=tenant)
        handle = await session.patiently(app, change)
        served = any(REVERSE in worker.workflows for worker in await app.store.workers())
        trouble = None if wait is None else await _await(handle, wait)
        return _Reversal(await handle.info(), action, served, trouble)

    found = session.on_store(session.url_of(store), work)
    if as_json:
        record = {"action": "reverse", "receipt": receipt, "reverse": found.action, "worker_running": found.served}
        output.emit({**records.run_record(found.row), **record})
    else:
        _tell(found, receipt)
    if found.trouble is not None:
        output.note(found.trouble)
    return exits.GOOD if wait is None or found.row.status == "completed" else exits.NO


async def _await(handle: RunHandle[Any], seconds: float) -> str | None:
    """Wait for the end; gives what went wrong."""
    try:
        await handle.result(seconds)
    except (RunFailed, RunCancelled) as error:
        return f"error: {error}"
    except TimeoutError:
        return f"run {handle.id} has not ended yet: {await handle.explain()}"
    return None


def _tell(found: _Reversal, receipt: str) -> None:
    row = found.row
    if row.standing in ENDED:
        output.say(f"run {row.key.run}, which takes back {receipt}, is {row.status}")
        return
    output.say(f"run {row.key.run} takes back {receipt} by {found.action}")
    output.say(f"  {command('tail', row.key.run, tenant=row.key.tenant)}")
    output.say(f"  {command('tasks', '--run', row.key.run, tenant=row.key.tenant)}")
    if not found.served:
        output.note(f"no worker is running: `holdfast worker APP` starts one; its app must define {found.action}.")
