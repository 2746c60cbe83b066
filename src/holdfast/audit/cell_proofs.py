"""The proof of a cell: one small file that shows which record a key had at a root of its lane, or that it had none.

The file is JSON. It has the nodes of the lane's tree from the root down to the key, the audit's entry of the root, the
signed block that holds the entry, and the public keys. It is signed by the key that signs the audit::

    signature over "holdfast.cell.1" || 0 || the JSON with an empty signature, without spaces

The entry binds the root to the lane's journal: its version, and its hash there.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.audit.evidence import BlockLine, EntryLine, KeyLine
from holdfast.audit.keys import Signer

FORMAT: Final = "holdfast.cell.1"

ROOT: Final = "root"
"""The audit's word for a root that was made."""


PARTIAL: Final = "partial"
"""In the audit's entry of a root: the lane was being split, so a key that is not there may be in another lane."""


class CellProof(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The content of a proof. Bytes are hexadecimal; ``record`` is None where the key had no cell."""

    format: str
    made_at: int
    tenant: str
    machine: str
    lane: str
    lanes: int
    version: int
    head: str
    root: str
    key: str
    record: str | None
    nodes: str
    entry: EntryLine
    block: BlockLine
    keys: list[KeyLine]
    signer: str
    signature: str = ""


def signed_message(proof: CellProof) -> bytes:
    """The bytes that the signature of a proof is over."""
    bare = msgspec.structs.replace(proof, signature="")
    return proof.format.encode() + b"\0" + msgspec.json.encode(bare)


def write_proof(proof: CellProof, signer: Signer) -> bytes:
    """The file of a proof, signed."""
    signed = msgspec.structs.replace(proof, signature=signer.sign(signed_message(proof)).hex())
    return msgspec.json.format(msgspec.json.encode(signed), indent=1) + b"\n"


def is_cell_proof(data: bytes) -> bool:
    """Whether a file may be the proof of a cell: no other file of Holdfast begins as JSON."""
    return data.lstrip()[:1] == b"{"
