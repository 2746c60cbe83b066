"""Evidence: what proves what a run did, in one file that anybody can check."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.audit.check.bundle import verify_bundle
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
"""A busy store writes entries as fast as they are sealed; those that come later are left out, and counted."""


class Evidence(msgspec.Struct, frozen=True):
    """A bundle. ``stored`` is one that was kept when the run ended; ``ended`` is whether the run has."""

    data: bytes
    generation: int
    stored: bool
    ended: bool = True
    unsealed: int = 0  # entries that were written while it was made, and are left out

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


def verify_evidence(data: bytes, *, trusted: bytes | None = None) -> Verdict:
    """Check a bundle of evidence. It needs no store, no network and no worker, only the file.

    ``trusted`` are public keys as PEM: where one of them vouches for the bundle, what is found is proved, and without
    one it only fits together. What a key signed that is retired by its own line in the PEM is not proved. Raises
    InvalidRequest where the PEM cannot be read.
    """
    if trusted is None:
        return verify_bundle(data)
    return verify_bundle(data, read_pem(trusted), read_retired(trusted))


async def evidence_of(app: Holdfast, key: p.Key, *, values: bool, generation: int | None, anew: bool) -> Evidence:
    """The bundle that was kept when the run ended, or else one that is made now.

    Raises RunNotFound, KeyLocked, and StoreCorrupt where what was kept has been altered.
    """
    kept = None if values or anew else await _kept(app, key, generation)
    return kept or await _made(app, key, generation, values=values)


async def _kept(app: Holdfast, key: p.Key, generation: int | None) -> Evidence | None:
    """What was kept, where it is whole: the run's row shows its hash. It outlives the run's own deletion."""
    found = await app.store.get([key])
    for kept in reversed(await _bundles(app, key)):
        if generation not in (None, kept.generation):
            continue
        if found and (kept.generation, kept.sha256) != (found[0].generation, found[0].evidence):
            continue
        data = await app.store.file(key, kept.generation, p.EVIDENCE)
        if data is None or hashlib.sha256(data).digest() != kept.sha256:
            raise _altered(key, is_there=bool(found))
        return Evidence(data, kept.generation, stored=True)
    return None


async def _bundles(app: Holdfast, key: p.Key) -> list[p.KeptFile]:
    return [kept for kept in await app.store.files(key) if kept.name == p.EVIDENCE]


def _altered(key: p.Key, *, is_there: bool) -> StoreCorrupt:
    told = f"the kept evidence of run {key.run!r} has been altered: its bytes do not give its SHA-256."
    remedy = command("evidence", key.run, "--anew", "-o", "FILE", tenant=key.tenant)
    return StoreCorrupt(f"{told} {f'Make it anew: {remedy}' if is_there else 'Restore the database from a backup.'}")


async def _made(app: Holdfast, key: p.Key, generation: int | None, *, values: bool) -> Evidence:
    """What is not sealed yet is sealed first."""
    found = await app.store.get([key])
    if not found and await _bundles(app, key):
        raise RunNotFound(f"run {key.run!r} was deleted: there is only its kept evidence, and none can be made anew.")
    if not found:
        raise RunNotFound(f"there is no run {key.run!r} in tenant {key.tenant!r}, and no evidence of one was kept.")
    keychain = Keychain(app.store, app.clock)
    await keychain.signer()  # where the key is locked nothing can be signed: say so before anything else
    sealer = Sealer(app.store, app.clock)
    for _ in range(_ROUNDS):
        if not await sealer.seal():
            break
    made = await gather(app.store, keychain, app.clock, found[0], generation=generation, values=values)
    ended = found[0].standing in p.ENDED
    return Evidence(made.data, made.generation, stored=False, ended=ended, unsealed=made.unsealed)
