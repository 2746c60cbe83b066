"""Making the proof of a cell: a root of its lane, sealed in the audit, and the nodes that lead from it to the cell."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.audit.cell_proofs import FORMAT, ROOT, CellProof, write_proof
from holdfast.audit.chain import excerpt
from holdfast.audit.collector import Signing, ends_of
from holdfast.audit.evidence import block_line, entry_line, key_line
from holdfast.audit.keychain import Keychain
from holdfast.audit.records import Operated, decode
from holdfast.audit.sealer import Sealer
from holdfast.cells.cell import decode_entry
from holdfast.cells.proofs import check_proof, prove
from holdfast.cells.tree import key_hash
from holdfast.errors import InvalidRequest, StoreCorrupt
from holdfast.lanes.roots import make_root, read_nodes, touched
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

_ROUNDS: Final = 20
_ENTRIES: Final = 1000


class CellProofFile(msgspec.Struct, frozen=True):
    """The file of a proof: the version of the lane's journal that it is about, and whether the cell existed there."""

    data: bytes
    lane: str
    version: int
    root: str
    exists: bool

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


async def prove_cell(app: Holdfast, machine: str, lane: p.Key, key: bytes) -> CellProofFile:
    """The proof of the cell of a key in its lane, at a root of now. Raises InvalidRequest and KeyLocked."""
    store, clock = app.whole_store, app.clock
    keychain = Keychain(store, clock)
    await keychain.signer()  # raises KeyLocked before anything is written
    row = await _root(app, lane)
    nodes = (await touched(store, lane, row.root, {key_hash(key): b""})).nodes
    proof = prove(row.root, key, nodes.__getitem__)
    found = check_proof(proof, row.root, key)
    record = None
    if found is not None:
        name = decode_entry(found).record_hash
        record = (await read_nodes(store, lane, [name]))[name]
    entry, noted = await _entry(app, row)
    (block,) = await store.holders([(lane.tenant, entry.position or 0)])
    signing = await Signing.of(keychain)
    ends = await ends_of(store, [block], signing)
    made = CellProof(
        FORMAT,
        clock.now(),
        lane.tenant,
        machine,
        lane.run,
        int(noted.details["lanes"]),
        row.version,
        row.head.hex(),
        row.root.hex(),
        key.hex(),
        None if record is None else record.hex(),
        proof.hex(),
        entry_line(entry),
        block_line(excerpt(block, [entry.position or 0])),
        [key_line(each, ends.get(each.number, ()), lane.tenant) for each in signing.keys],
        signing.signer.id,
    )
    return CellProofFile(write_proof(made, signing.signer), lane.run, row.version, made.root, record is not None)


async def _root(app: Holdfast, lane: p.Key) -> p.RootRow:
    """A root of the lane as it is now, or nearly."""
    is_known = bool(await app.store.get([lane]))  # a user sees the lanes of their own tenant
    for _ in range(_ROUNDS if is_known else 0):
        if (made := await make_root(app.whole_store, app.clock, lane)) is not None:
            return made
        if not await app.whole_store.roots(lane, 1):
            break
    raise InvalidRequest(
        f"nothing can be proved of this cell: {lane.run} of tenant {lane.tenant} never had one. Send its first event."
    )


async def _entry(app: Holdfast, row: p.RootRow) -> tuple[p.AuditEntry, Operated]:
    """The audit's entry of a root, once it is sealed."""
    sealer = Sealer(app.whole_store, app.clock)
    query = p.AuditQuery(row.tenant, row.lane, "operator", row.at, row.at + 1)
    for _ in range(_ROUNDS):
        for entry in await app.whole_store.entries(query, _ENTRIES):
            record = decode(entry.body)
            if not isinstance(record, Operated) or record.act != ROOT or entry.position is None:
                continue
            if record.details.get("version") == str(row.version):
                return entry, record
        await sealer.seal()
    raise StoreCorrupt(
        f"the audit has no sealed entry of the root of {row.lane}, tenant {row.tenant}, at version {row.version}: "
        "`holdfast audit verify` shows what is wrong with it."
    )
