"""Evidence: one file that proves what a run did, and that anybody can check."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.audit.cell_proofs import is_cell_proof
from holdfast.audit.check.bundle import verify_bundle
from holdfast.audit.check.cells import verify_cell_proof
from holdfast.audit.check.claims import Verdict
from holdfast.audit.collector import gather
from holdfast.audit.keychain import Keychain
from holdfast.audit.keys import read_pem, read_retired
from holdfast.audit.sealer import Sealer
from holdfast.errors import RunNotFound, StoreCorrupt
from holdfast.runs.hints import command
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

_ROUNDS: Final = 20
"""How often the audit is sealed first. On a busy store new entries come as fast: the rest is left out and counted."""


class Evidence(msgspec.Struct, frozen=True):
    """A bundle. ``stored`` is whether it was kept when the run ended, ``ended`` whether the run has ended."""

    data: bytes
    generation: int
    stored: bool
    ended: bool = True
    unsealed: int = 0  # entries written while it was made: they are left out

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


def verify_evidence(data: bytes, *, trusted: bytes | None = None) -> Verdict:
    """Check a bundle of evidence, or the proof of a cell. It needs no store, no network and no worker, only the file.

    ``trusted`` are public keys as PEM. Where one of them vouches for the bundle, its claims are proved; without one
    they are only consistent. What a retired key signed is not proved; the key's line in the PEM says that it is
    retired. Raises InvalidRequest where the PEM cannot be read.
    """
    verify = verify_cell_proof if is_cell_proof(data) else verify_bundle
    if trusted is None:
        return verify(data)
    return verify(data, read_pem(trusted), read_retired(trusted))


async def evidence_of(app: Holdfast, key: p.Key, *, values: bool, generation: int | None, anew: bool) -> Evidence:
    """The bundle that was kept when the run ended, or else one that is made now.

    Raises RunNotFound, KeyLocked, and StoreCorrupt where the kept bundle has been altered.
    """
    kept = None if values or anew else await _kept(app, key, generation)
    return kept or await _made(app, key, generation, values=values)


async def _kept(app: Holdfast, key: p.Key, generation: int | None) -> Evidence | None:
    """The kept bundle, if it is the one whose hash the run's row has. It is kept when the run is deleted, too."""
    rows = await app.store.get([key])
    for kept in reversed(await _bundles(app, key)):
        if generation not in (None, kept.generation):
            continue
        if rows and (kept.generation, kept.sha256) != (rows[0].generation, rows[0].evidence):
            continue
        data = await app.store.file(key, kept.generation, p.EVIDENCE)
        if data is None or hashlib.sha256(data).digest() != kept.sha256:
            raise _altered(key, is_there=bool(rows))
        return Evidence(data, kept.generation, stored=True)
    return None


async def _bundles(app: Holdfast, key: p.Key) -> list[p.KeptFile]:
    return [kept for kept in await app.store.files(key) if kept.name == p.EVIDENCE]


def _altered(key: p.Key, *, is_there: bool) -> StoreCorrupt:
    problem = f"the kept evidence of run {key.run!r} has been altered: its bytes do not give its SHA-256."
    remedy = command("evidence", key.run, "--anew", "-o", "FILE", tenant=key.tenant)
    return StoreCorrupt(f"{problem} {f'Make it anew: {remedy}' if is_there else 'Restore the database from a backup.'}")


async def _made(app: Holdfast, key: p.Key, generation: int | None, *, values: bool) -> Evidence:
    """A bundle that is made now. The audit's open entries are sealed first."""
    rows = await app.store.get([key])
    if not rows and await _bundles(app, key):
        raise RunNotFound(f"run {key.run!r} was deleted: there is only its kept evidence, and none can be made anew.")
    if not rows:
        raise RunNotFound(f"there is no run {key.run!r} in tenant {key.tenant!r}, and no evidence of one was kept.")
    keychain = Keychain(app.whole_store, app.clock)
    await keychain.signer()  # raises KeyLocked before anything is written
    sealer = Sealer(app.whole_store, app.clock)
    for _ in range(_ROUNDS):
        if not await sealer.seal():
            break
    made = await gather(app.store, keychain, app.clock, rows[0], generation=generation, values=values)
    ended = rows[0].standing in p.ENDED
    return Evidence(made.data, made.generation, stored=False, ended=ended, unsealed=made.unsealed)
