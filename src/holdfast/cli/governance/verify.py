"""``verify``: checks stored journals against the laws, and files of evidence against what they claim."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.audit.check.journal import RunCheck, verify_run
from holdfast.cli import exits, options, output, session
from holdfast.cli.governance import verdicts
from holdfast.client.engine import Holdfast
from holdfast.client.filters import run_rows
from holdfast.client.governance.evidence import verify_evidence
from holdfast.client.people.permission import operating


@click.command()
@click.argument("run", required=False)
@click.option("--all", "everything", is_flag=True, help="Every run.")
@verdicts.trusted_keys
@options.any_tenant
@options.store
def verify(
    run: str | None,
    everything: bool,
    key_files: tuple[str, ...],
    tenant: str | None,
    store: str | None,
    as_json: bool,
) -> int:
    """Check RUN, or --all runs: every law on every event, hash chain and stored status; exit 1 on a problem.

    Where RUN is a file, it is a bundle of evidence or the proof of a cell, and it is checked without any store.
    """
    if (run is None) != everything:
        raise click.UsageError("give a RUN, a FILE, or --all")
    if run is not None and Path(run).is_file():
        return _verify_file(run, key_files, as_json)
    if key_files:
        raise click.UsageError(f"--key is for files of evidence, and there is no file {run or ''}".rstrip())

    async def work(app: Holdfast) -> tuple[int, int]:
        if run is not None:
            verdict = await app.run(run, tenant=tenant).verify()
            _write(verdict, as_json, verbose=True)
            return 1, int(not verdict.good)
        async with operating(app, "runs.see", tenant):
            return await verified(app)

    async def verified(app: Holdfast) -> tuple[int, int]:
        count = bad = 0
        with output.progress("runs verified", quiet=as_json) as advance:
            async for row in run_rows(app.store, tenant=tenant):
                verdict = await verify_run(app.store, row)
                count, bad = count + 1, bad + (not verdict.good)
                _write(verdict, as_json, verbose=False)
                advance(1)
        return count, bad

    count, bad = session.on_store(session.url_of(store), work)
    if run is None and not as_json:
        output.say(f"{count} runs verified, {bad} with problems" if bad else f"{count} runs verified, all good")
    return exits.NO if bad else exits.GOOD


def _verify_file(file: str, key_files: tuple[str, ...], as_json: bool) -> int:
    try:
        data = Path(file).read_bytes()
    except OSError as error:
        raise click.UsageError(f"{file} cannot be read: {error.strerror or error}") from error
    verdict = verify_evidence(data, trusted=verdicts.public_keys(key_files))
    return verdicts.write(verdict, file, {"file": file}, as_json, keys=bool(key_files))


def _write(verdict: RunCheck, as_json: bool, *, verbose: bool) -> None:
    tenant, run = verdict.key
    if as_json:
        result = {
            "good": verdict.good,
            "events": verdict.events,
            "problem": verdict.problem or None,
            "law": verdict.law,
            "notes": list(verdict.notes),
        }
        output.emit({"id": run, "tenant": tenant, **result})
    elif not verdict.good:
        output.say(output.TableCell("✗ ", "red"), f"run {run} of tenant {tenant}: {verdict.problem}")
    elif verbose:
        output.say(
            output.TableCell("✓ ", "green"), f"run {run} is good: {verdict.events} events, laws, hash chain and status"
        )
    if not as_json:
        for note in verdict.notes:
            output.note(f"run {run} of tenant {tenant}, by the older rules that it keeps: {note}")
