"""``evidence``: the file that proves what a run did."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli import options, output, session
from holdfast.client.engine import Holdfast
from holdfast.client.governance.evidence import Evidence


@click.command()
@options.one_run
@click.option("-o", "--output", "file", required=True, metavar="FILE", help="Where to write it.")
@click.option("--values", is_flag=True, help="With the values of the journal, not only their hashes.")
@click.option("--generation", type=click.IntRange(min=0), metavar="N", help="Up to an earlier journal of the run.")
@click.option("--anew", is_flag=True, help="Make it now, even where one was kept when the run ended.")
def evidence(
    run: str, tenant: str, store: str | None, as_json: bool, file: str, values: bool, generation: int | None, anew: bool
) -> None:
    """Write the evidence of a run: its audit entries, the blocks that seal them, its journal in outline, its costs.

    `holdfast verify FILE --key PUBLIC.pem` checks it on any machine.
    """

    async def work(app: Holdfast) -> Evidence:
        return await app.run(run, tenant=tenant).evidence(values=values, generation=generation, anew=anew)

    made = session.on_store(session.url_of(store), work)
    try:
        Path(file).write_bytes(made.data)
    except OSError as error:
        raise click.UsageError(f"{file} cannot be written: {error.strerror or error}") from error
    if as_json:
        about = {"file": file, "size": len(made.data), "sha256": made.sha256, "stored": made.stored, "values": values}
        output.emit({"id": run, "tenant": tenant, "generation": made.generation, "unsealed": made.unsealed, **about})
        return
    if not made.ended:
        output.note("the run has not ended: nothing binds its journal to the audit yet.")
    if made.unsealed:
        output.note(f"{made.unsealed} entries were written at the same time and are not sealed: they are left out.")
    output.say(f"{file}: evidence of run {run}, {len(made.data)} bytes, sha256 {made.sha256}")
