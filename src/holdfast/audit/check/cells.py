"""Checks the proof of a cell by its bytes alone: without a store, a network or a clock."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from holdfast.audit import evidence, records, summary
from holdfast.audit.cell_proofs import FORMAT, PARTIAL, ROOT, CellProof, signed_message
from holdfast.audit.chain import Excerpt, check_block, check_entry
from holdfast.audit.check.claims import Findings, Verdict
from holdfast.audit.check.trust import ReaderKeys, trust
from holdfast.audit.keys import PublicKey, is_signed, key_id
from holdfast.audit.retirement import beyond, retired_by, shown_bound
from holdfast.cells.cell import CellRecord, decode_cell, decode_entry, shown_key
from holdfast.cells.proofs import ProofRefused, check_proof
from holdfast.errors import StoreCorrupt
from holdfast.runs.lanes import lane_of, parse_lane

_UNREADABLE: Final = (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError)


def verify_cell_proof(
    data: bytes, public_keys: Collection[bytes] | None = None, retired: Collection[bytes] = ()
) -> Verdict:
    """Check the proof of a cell. Never raises.

    ``public_keys`` are the raw public keys that the reader trusts. ``retired`` are those of them that are retired.
    """
    findings = Findings()
    try:
        proof = msgspec.json.decode(data, type=CellProof)
        if proof.format != FORMAT:
            raise ValueError(f"its format is {proof.format!r:.60}, and this Holdfast reads {FORMAT}")
        line = [evidence.key_of(key) for key in proof.keys]
        shown = evidence.excerpt_of(proof.block)
        _signature(proof, line, findings)
        _block(proof, line, shown, findings)
        details = _root(proof, shown, findings)
        _cell(proof, details, findings)
    except _UNREADABLE as error:
        findings.broken("file", f"it is no proof of a cell that can be read: {error}.")
        return findings.verdict(trusted=False)
    findings.not_proved("since", "it says nothing of what became of the cell after that version.")
    findings.not_proved(
        "handlers",
        "it shows what was kept, not that the machine's code makes it of its events: `holdfast machines verify` does.",
    )
    trusted = trust(line, proof.signer, {proof.block.signer}, ReaderKeys.of(public_keys, retired), findings)
    return findings.verdict(trusted=trusted)


def _signature(proof: CellProof, line: list[PublicKey], findings: Findings) -> None:
    publics = {key_id(key.public): key.public for key in line}
    problem = None
    if proof.signer not in publics:
        problem = f"it is signed by key {proof.signer}, which is not in the file."
    elif not is_signed(publics[proof.signer], bytes.fromhex(proof.signature), signed_message(proof)):
        problem = f"it was altered: its signature is not one of key {proof.signer}."
    elif line[-1].id != proof.signer:
        problem = f"it is signed by key {proof.signer}, which key {line[-1].id} in the same file has retired."
    made = summary.clock(proof.made_at)
    findings.judge("signature", problem, f"it was signed by key {proof.signer}, at {made} by its clock.")


def _block(proof: CellProof, line: list[PublicKey], shown: Excerpt, findings: Findings) -> None:
    block = shown.block
    problem = check_block(shown, {key_id(key.public): key.public for key in line})
    if problem is None and (by := retired_by(line, block.signer)) is not None:
        ends = {key.number: evidence.end_of(key, proof.tenant) for key in proof.keys}
        bound = shown_bound(by, ends.get(by.number))
        problem = f"the end that key {by.number} signed for was altered." if bound is None else beyond(block, bound)
    findings.judge("block", problem, f"block {block.number} of the audit is signed and holds what it says.")


def _root(proof: CellProof, shown: Excerpt, findings: Findings) -> Mapping[str, str]:
    """The audit has an entry of this root, of this lane: what the entry says."""
    details: Mapping[str, str] = {}
    entry = evidence.entry_of(proof.entry)
    problem = check_entry(shown, entry)
    if problem is None:
        expected = {
            "version": str(proof.version),
            "head": proof.head,
            "root": proof.root,
            "lanes": str(proof.lanes),
        }
        try:
            record = records.decode(entry.body)
        except records.UNREADABLE as error:
            record, problem = None, f"the audit's entry cannot be read: {error}."
        if isinstance(record, records.Operated) and (record.act, record.run) == (ROOT, proof.lane):
            details = record.details
            if any(record.details.get(name) != value for name, value in expected.items()):
                problem = "the audit's entry is of another root than the one that is shown."
        elif problem is None:
            problem = f"the audit's entry is not that of a root of {proof.lane}."
    if problem is None and entry.tenant != proof.tenant:
        problem = f"the audit's entry is of tenant {entry.tenant}."
    text = f"the audit has the root {proof.root[:16]}… of {proof.lane} at version {proof.version} of its journal."
    findings.judge("root", problem, text)
    return details


def _cell(proof: CellProof, details: Mapping[str, str], findings: Findings) -> None:
    """The tree of the root has this record for the key, or none, and this is the lane of the key."""
    key = bytes.fromhex(proof.key)
    found = parse_lane(proof.lane)
    name = f"the key {shown_key(key)} of machine {proof.machine}, tenant {proof.tenant},"
    first = int(details.get("first", "0"))
    if found is None or found != (proof.machine, first + lane_of(key, proof.lanes)):
        findings.broken("cell", f"{name} does not belong to {proof.lane}: nothing is shown about it.")
        return
    try:
        entry = check_proof(bytes.fromhex(proof.nodes), bytes.fromhex(proof.root), key)
    except ProofRefused as error:
        findings.broken("cell", f"the nodes do not lead from the root to the key: {error}.")
        return
    where = f"at version {proof.version} of its lane's journal, whose hash there is {proof.head[:16]}…"
    if entry is None:
        problem = None if proof.record is None else "the file has a record, and the tree has none for the key."
        if problem is None and PARTIAL in details:
            problem = "the lane was being split, so the key may have had its cell in another one: make a new proof."
        findings.judge("cell", problem, f"{name} had no cell {where}.")
        return
    problem, cell = _record(proof, key, entry)
    about = "" if cell is None else f": {cell.status}, last active at {summary.clock(cell.last_active)}"
    findings.judge("cell", problem, f"{name} had the record that is shown {where}{about}.")


def _record(proof: CellProof, key: bytes, entry: bytes) -> tuple[str | None, CellRecord | None]:
    """The problem of the record, if there is one; and the record."""
    if proof.record is None:
        return "the tree has a record for the key, and the file does not.", None
    data = bytes.fromhex(proof.record)
    try:
        named = decode_entry(entry)
        cell = decode_cell(data)
    except StoreCorrupt as error:
        return str(error), None
    if (named.key, named.record_hash) != (key, hashlib.sha256(data).digest()) or cell.key != key:
        return "the record in the file is not the one that the tree names.", None
    return None, cell
