"""``machines verify`` and ``machines prove``: what is kept of cells, against journals, and for others to check."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from holdfast.cli import exits, options, output, session
from holdfast.client.engine import Holdfast
from holdfast.client.machines.proofs import CellProofFile
from holdfast.client.machines.verification import LaneCheck


@click.command()
@click.argument("machine", required=False)
@click.option("--app", metavar="APP", required=True, help="The code: module:attribute or file.py:attribute.")
@options.any_tenant
@options.store
def verify(machine: str | None, app: str, tenant: str | None, store: str | None, as_json: bool) -> int:
    """Replay the journal of every lane with its handlers, and compare rows and roots; exit 1 where one differs.

    Of MACHINE, or of all machines that have cells. Nothing is written.
    """
    from holdfast.cli.apps import load_app

    engine = load_app(app)

    async def work(opened: Holdfast) -> tuple[int, int]:
        count = bad = 0
        with output.progress("lanes verified", quiet=as_json) as advance:
            async for check in opened.machines.verify(machine, tenant=tenant):
                count, bad = count + 1, bad + (not check.good)
                _write(check, as_json)
                advance(1)
        return count, bad

    count, bad = session.on_store(session.url_of(store, engine), work)
    if not as_json:
        output.say(f"{count} lanes verified, {bad} with differences" if bad else f"{count} lanes verified, all good")
    return exits.NO if bad else exits.GOOD


def _write(check: LaneCheck, as_json: bool) -> None:
    if as_json:
        output.emit({**msgspec.to_builtins(check), "good": check.good})
        return
    where = f"lane {check.lane} of machine {check.machine}, tenant {check.tenant}"
    if check.by_other_code:
        output.say(f"  {where}: turns ran by other code, so its cells were compared with the journal's hashes")
    for problem in check.problems:
        output.say(output.TableCell("✗ ", "red"), f"{where}: {problem}")


@click.command()
@click.argument("machine")
@click.argument("key", required=False)
@click.option("--app", metavar="APP", required=True, help="The code: module:attribute or file.py:attribute.")
@click.option("-o", "--output", "file", required=True, metavar="FILE", help="Where to write it.")
@options.tenant
@options.store
def prove(machine: str, key: str | None, app: str, file: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Write the proof of a cell: its record at a root of its lane that is sealed in the audit, or that it has none.

    `holdfast verify FILE --key PUBLIC.pem` checks it on any machine.
    """
    from holdfast.cli.apps import load_app

    engine = load_app(app)

    async def work(opened: Holdfast) -> CellProofFile:
        return await opened.machines.cell(machine, key, tenant=tenant).proof()

    made = session.on_store(session.url_of(store, engine), work)
    try:
        Path(file).write_bytes(made.data)
    except OSError as error:
        raise click.UsageError(f"{file} cannot be written: {error.strerror or error}") from error
    if as_json:
        about = {"lane": made.lane, "version": made.version, "root": made.root, "exists": made.exists}
        output.emit({"machine": machine, "file": file, "size": len(made.data), "sha256": made.sha256, **about})
        return
    what = "its record" if made.exists else "that it does not exist"
    output.say(f"{file}: {what} at version {made.version} of {made.lane}, sha256 {made.sha256}")
