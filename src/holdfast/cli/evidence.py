"""``evidence``: what proves what a run did, in one file."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

import click
import msgspec

from holdfast.cli import options, output, session
from holdfast.client.engine import Holdfast
from holdfast.errors import RunNotFound
from holdfast.store.protocol import ENDED, EVIDENCE, Key
from holdfast.worker.gathering import gather
from holdfast.worker.sealer import Sealer
from holdfast.worker.signing import Keychain

_ROUNDS: Final = 20
"""A busy store writes entries as fast as they are sealed; those that come later are left out, and counted."""


class _Made(msgspec.Struct):
    """A bundle, where it came from, and what must be said about it."""

    data: bytes
    generation: int
    stored: bool
    unsealed: int = 0
    remark: str = ""


@click.command()
@options.one_run
@click.option("-o", "--output", "file", required=True, metavar="FILE", help="Where to write it.")
@click.option("--values", is_flag=True, help="With the values of the journal, not only their hashes.")
@click.option("--generation", type=click.IntRange(min=0), metavar="N", help="Up to an earlier journal of the run.")
def evidence(
    run: str, tenant: str, store: str | None, as_json: bool, file: str, values: bool, generation: int | None
) -> None:
    """Write the evidence of a run: its audit entries, the blocks that seal them, its journal in outline, its costs.

    `holdfast verify FILE --key PUBLIC.pem` checks it on any machine.
    """
    key = Key(tenant, run)

    async def work(app: Holdfast) -> _Made:
        kept = None if values else await _kept(app, key, generation)
        return kept or await _make(app, key, generation, values)

    made = session.on_store(session.url_of(store), work)
    try:
        Path(file).write_bytes(made.data)
    except OSError as error:
        raise click.UsageError(f"{file} cannot be written: {error.strerror or error}") from error
    digest = hashlib.sha256(made.data).hexdigest()
    if as_json:
        told = {"file": file, "size": len(made.data), "sha256": digest, "stored": made.stored, "values": values}
        output.emit({"id": run, "tenant": tenant, "generation": made.generation, "unsealed": made.unsealed, **told})
        return
    if made.remark:
        output.note(made.remark)
    output.say(f"{file}: evidence of run {run}, {len(made.data)} bytes, sha256 {digest}")


async def _kept(app: Holdfast, key: Key, generation: int | None) -> _Made | None:
    """The bundle that was kept when the run ended; it outlives the run's own deletion."""
    found = await app.store.get([key])
    if generation is None and found:
        generation = found[0].generation
    kept = [artefact for artefact in await app.store.artefacts(key) if artefact.name == EVIDENCE]
    for artefact in reversed(kept):
        if generation in (None, artefact.generation):
            data = await app.store.artefact(key, artefact.generation, EVIDENCE)
            return None if data is None else _Made(data, artefact.generation, stored=True)
    return None


async def _make(app: Holdfast, key: Key, generation: int | None, values: bool) -> _Made:
    """Make it now; what is not sealed yet is sealed first. Raises RunNotFound, KeyLocked."""
    found = await app.store.get([key])
    if not found:
        raise RunNotFound(f"there is no run {key.run!r} in tenant {key.tenant!r}, and no evidence of one was kept.")
    keychain = Keychain(app.store, app.clock)
    await keychain.signer()  # where the key is locked nothing can be signed: say so before anything else
    sealer = Sealer(app.store, app.clock)
    for _ in range(_ROUNDS):
        if not await sealer.seal():
            break
    made = await gather(app.store, keychain, app.clock, found[0], generation=generation, values=values, whole=False)
    assert made is not None  # only a whole one may be refused
    remarks = []
    if found[0].standing not in ENDED:
        remarks.append("the run has not ended: nothing binds its journal to the audit yet.")
    if made.unsealed:
        remarks.append(f"{made.unsealed} entries were written meanwhile and are not sealed: they are left out.")
    return _Made(made.data, made.generation, stored=False, unsealed=made.unsealed, remark=" ".join(remarks))
