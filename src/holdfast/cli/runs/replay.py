"""``replay``: does the current code lead to what the journal of a run has? Nothing is written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final, get_args

import click
import msgspec

from holdfast.cli import exits, options, output, session
from holdfast.client.engine import Holdfast
from holdfast.client.filters import run_rows
from holdfast.client.people.permission import operating
from holdfast.client.views.mask import JournalMask
from holdfast.errors import HoldfastError, Nondeterminism
from holdfast.journal import events as e
from holdfast.journal.promise import PromiseId
from holdfast.journal.render import line
from holdfast.kernel.execution import Execution
from holdfast.runs import journals
from holdfast.runs.carried import carried_by, read_all
from holdfast.store.protocol import ENDED, Key, Run, Status

_CONTEXT: Final = 3
_LIVE: Final[tuple[Status, ...]] = tuple(status for status in get_args(Status) if status not in ENDED)


class ReplayResult(msgspec.Struct):
    """The result of the replay of one run. ``problem`` is empty where it replays cleanly."""

    run: Run
    events: int
    changed: bool = False
    problem: str = ""
    sequence: int | None = None
    recorded: str | None = None
    issued: str | None = None
    before: list[str] = []

    @property
    def good(self) -> bool:
        return not self.problem

    def record(self) -> dict[str, Any]:
        return {
            "id": self.run.key.run,
            "tenant": self.run.key.tenant,
            "workflow": self.run.workflow,
            "clean": self.good,
            "events": self.events,
            "code_changed": self.changed,
            "problem": self.problem or None,
            "sequence": self.sequence,
            "recorded": self.recorded,
            "issued": self.issued,
        }

    def write(self) -> None:
        name = self.run.key.run
        if self.good:
            changed = ", though its code has changed since" if self.changed else ""
            output.say(output.TableCell("✓ ", "green"), f"run {name} replays cleanly, {self.events} events{changed}")
            return
        output.say(output.TableCell("✗ ", "red"), f"run {name} of workflow {self.run.workflow} does not replay:")
        for text in self.before:
            output.say(f"      {text}")
        output.say("  " + self.problem.replace("\n", "\n  "))


async def replay_run(app: Holdfast, run: Run) -> ReplayResult:
    """Rebuild the run from its journal with the code of this process."""
    entries = [entry async for entry in journals.read(app.store, run)]
    finding = ReplayResult(run, len(entries))
    started = entries[0].event
    pinned = started.component_digest if isinstance(started, e.ExecutionStarted) else ""
    try:
        program = await app.program_of(run, pinned)
    except HoldfastError as error:
        finding.problem = str(error)
        return finding
    finding.changed = run.code_digest is None and pinned not in ("", app.catalogue.pin(run.workflow).digest)
    try:
        signals = await read_all(app.store, run.key.tenant, carried_by(entries))
        Execution.rebuild(PromiseId(run.root), program, entries, app.clock.now(), app.entropy, signals)
    except Nondeterminism as difference:
        finding.problem = str(difference)
        finding.sequence, finding.recorded = difference.sequence, difference.recorded
        finding.issued = difference.issued
        first = max(0, difference.sequence - _CONTEXT)
        mask = JournalMask()
        for entry in entries:
            mask.learn(entry.event)
        before = map(mask.entry, entries[first : difference.sequence])
        finding.before = [f"{entry.sequence:>5}  {line(entry.event)}" for entry in before]
    except HoldfastError as error:
        finding.problem = str(error)
    except Exception as error:
        finding.problem = f"{type(error).__name__}: {error}"
    finally:
        program.close()
    return finding


async def _chosen(app: Holdfast, tenant: str | None, workflow: str | None, ended: bool) -> AsyncIterator[Run]:
    keys = set()
    for status in get_args(Status) if ended else _LIVE:
        async for run in run_rows(app.store, tenant=tenant, status=status, workflow=workflow):
            if run.key not in keys:  # it may have changed its status since it was listed
                keys.add(run.key)
                yield run


@click.command()
@click.argument("run", required=False)
@click.option("--all", "everything", is_flag=True, help="Every live run: do this before a deploy.")
@click.option("--ended", is_flag=True, help="With --all: runs that have ended, too.")
@click.option("--workflow", metavar="NAME", help="With --all: only runs of this workflow.")
@click.option("--app", metavar="APP", required=True, help="The code: module:attribute or file.py:attribute.")
@options.any_tenant
@options.store
def replay(
    run: str | None,
    everything: bool,
    ended: bool,
    workflow: str | None,
    app: str,
    tenant: str | None,
    store: str | None,
    as_json: bool,
) -> int:
    """Replay RUN, or --all live runs, against the current code, without writing; exit 1 where one differs."""
    if (run is None) != everything:
        raise click.UsageError("give a RUN, or --all")
    from holdfast.cli.apps import check_workflow, load_app

    engine = load_app(app)
    if workflow is not None:
        check_workflow(workflow)

    async def work(opened: Holdfast) -> tuple[int, int]:
        async with operating(opened, "runs.see", tenant):
            return await replayed(opened)

    async def replayed(opened: Holdfast) -> tuple[int, int]:
        if run is not None:
            finding = await replay_run(opened, await journals.row_of(opened.store, Key(opened.tenant_of(tenant), run)))
            _write(finding, as_json, verbose=True)
            return 1, int(not finding.good)
        count = bad = 0
        with output.progress("runs replayed", quiet=as_json) as advance:
            async for row in _chosen(opened, tenant, workflow, ended):
                finding = await replay_run(opened, row)
                count, bad = count + 1, bad + (not finding.good)
                _write(finding, as_json, verbose=False)
                advance(1)
        return count, bad

    count, bad = session.on_store(session.url_of(store, engine), work)
    if run is None and not as_json:
        output.say(f"{count} runs replayed, {bad} differ" if bad else f"{count} runs replay cleanly")
    return exits.NO if bad else exits.GOOD


def _write(finding: ReplayResult, as_json: bool, *, verbose: bool) -> None:
    if as_json:
        output.emit(finding.record())
    elif verbose or not finding.good:
        finding.write()
