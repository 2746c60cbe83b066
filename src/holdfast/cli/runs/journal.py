"""``journal RUN`` prints a run's journal; ``journal check FILE`` checks traces of the model against the laws."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from holdfast.cli import exits, options, session
from holdfast.cli.runs.show import write_entry
from holdfast.client.engine import Holdfast
from holdfast.client.people.permission import operating
from holdfast.client.views.journal import journal_entry
from holdfast.client.views.mask import masked_entries
from holdfast.errors import InvalidRequest
from holdfast.journal import events as e
from holdfast.journal.promise import PromiseId
from holdfast.runs import journals
from holdfast.store.protocol import Key, Run


class _JournalGroup(click.Group):
    """A group whose default command is ``show``: its first argument may be a run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args:
            raise click.UsageError("give a RUN, or `check FILE`", ctx)
        if args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_JournalGroup)
def journal() -> None:
    """Print a run's journal (`journal RUN`), or check a file of traces (`journal check FILE`).

    `journal RUN` is short for `journal show RUN`, which a run called "check" needs.
    """


@journal.command()
@click.option("--from", "first", type=click.IntRange(min=0), default=0, metavar="SEQ", help="Begin at this sequence.")
@click.option(
    "--generation", type=click.IntRange(min=0), metavar="N", help="An earlier journal of a run that was renewed."
)
@options.one_run
def show(run: str, tenant: str, store: str | None, as_json: bool, first: int, generation: int | None) -> None:
    """Print a run's journal."""

    async def work(app: Holdfast) -> None:
        async with operating(app, "runs.see", tenant):
            row = await journals.row_of(app.store, Key(tenant, run))
            if generation is not None and generation != row.generation:
                row = await _earlier(app, row, generation)
            async for entry in masked_entries(app.store, row, first):
                write_entry(journal_entry(entry), as_json)

    session.on_store(session.url_of(store), work)


async def _earlier(app: Holdfast, row: Run, generation: int) -> Run:
    """The row as it was in an earlier generation, with the root of that generation's promise ids."""
    import msgspec

    earlier = msgspec.structs.replace(row, generation=generation)
    async for entry in journals.read(app.store, earlier, whole=False):
        if isinstance(entry.event, e.ExecutionStarted):
            started = entry.event
            root = PromiseId.of_run(started.component_digest, started.parent_id, started.idempotency_key)
            return msgspec.structs.replace(earlier, root=root.root)
    raise InvalidRequest(f"run {row.key.run} has generations 0 to {row.generation}, and {generation} is none of them.")


@journal.command()
@click.argument("file")
@options.as_json
def check(file: str, as_json: bool) -> int:
    """Check the traces in FILE (ITF JSON, `-` for stdin): each execution in each state is accepted, or breaks a law."""
    from holdfast.journal.trace import check_trace, render_verdict, verdict_to_json

    try:
        text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise click.UsageError(f"{file} cannot be read: {error.strerror or error}") from error
    try:
        verdicts = list(check_trace(text))
    except RecursionError as error:
        raise InvalidRequest(f"{file} is nested too deeply to be a trace.") from error
    for verdict in verdicts:
        click.echo(verdict_to_json(verdict) if as_json else render_verdict(verdict))
    return exits.GOOD if all(verdict.accepted for verdict in verdicts) else exits.NO
