"""Checks a tenant's whole audit, block by block: only a small part of a long audit is in memory at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

from holdfast.audit.chain import Walk
from holdfast.audit.check.claims import Findings, Verdict
from holdfast.audit.check.trust import ReaderKeys, trust
from holdfast.audit.heads import KeptHeads
from holdfast.audit.keys import PublicKey, key_id
from holdfast.audit.retirement import bounds, check_ends
from holdfast.store.governance import AuditEntry, Block, ChainEnd

RECEIPTS: Final = "receipts"
TASKS: Final = "tasks"
RUNS: Final = "runs"
EVIDENCE: Final = "evidence"
PEOPLE: Final = "people"

_COMPARED: Final = {
    RECEIPTS: "all receipts ({}) are as the audit records them, and none that it records is missing.",
    TASKS: "all tasks ({}) are as the audit records them, and none that it records is missing.",
    RUNS: "the rows of all runs ({}) agree with their journals, and with the entries of their ends.",
    EVIDENCE: "all stored evidence ({}) has its hash, and every governed run that has ended is there, or its evidence.",
    PEOPLE: "all users, tokens, links and sessions ({}) are as the audit records them, and it made each of them.",
}


class AuditCheck:
    """Follows the chain and then gives a verdict. After the first break it looks no further."""

    def __init__(
        self,
        tenant: str,
        keys: Sequence[PublicKey],
        ends: Mapping[int, Sequence[ChainEnd]] | None = None,
        kept: Sequence[Block] = (),
    ) -> None:
        self.problem: str | None = None
        self._kept = KeptHeads(kept)
        self._keys = keys
        self._wrong = check_ends(keys, ends or {})
        self._bounds = bounds(keys, ends or {}, tenant)
        self._walk = Walk(tenant, {key_id(key.public): key.public for key in keys}, self._bounds)
        self._waiting = 0
        self._compared: dict[str, tuple[int, str | None]] = {}

    def step(self, block: Block, entries: Sequence[AuditEntry]) -> bool:
        """Take the next block with its entries; False where the chain is broken."""
        if self.problem is None:
            self.problem = self._walk.step(block, entries)
            self._kept.step(block)
        return self.problem is None

    def tail(self, waiting: int, claiming: AuditEntry | None) -> None:
        """Take what comes after the last block: how many entries wait to be sealed, and the first that claims to be."""
        self._waiting += waiting
        if claiming is not None and self.problem is None:
            self.problem = f"entry {claiming.position} claims to be sealed, and no block holds it."

    def end(self) -> None:
        """Check the whole chain, once all of it was taken: its length must be the one that a key signed for."""
        if self.problem is None:
            self.problem = self._walk.end()
            self._kept.end(0 if self._walk.last is None else self._walk.last.number)

    def add(self, about: str, count: int, problem: str | None) -> None:
        """Add the result of comparing receipts, tasks, runs or evidence with the audit and the journals."""
        self._compared[about] = count, problem

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing to check: no block, no entry that waits for one, and no receipt."""
        is_bare = self._walk.last is None and not self._waiting and self._compared.get(RECEIPTS) in (None, (0, None))
        return self.problem is None and is_bare and not self._kept

    def verdict(self, reader: ReaderKeys | None) -> Verdict:
        """The verdict. The last block binds all blocks before it: a key that vouches for it vouches for the chain."""
        findings = Findings()
        last = self._walk.last
        count = 0 if last is None else last.number
        text = f"the chain is whole: {self._walk.position} entries in {count} signed blocks."
        findings.judge("chain", self.problem, text)
        for about, (number, problem) in self._compared.items():
            findings.judge(about, problem, _COMPARED[about].format(number))
        if self.problem is not None:
            findings.not_proved(RECEIPTS, "the chain is broken, so no receipt, task, run or user was compared with it.")
        if self._kept and self.problem is None:
            findings.judge("head", self._kept.problem, self._kept.text)
        elif self._kept:
            findings.not_proved("head", "the chain is broken, so no kept head was compared with it.")
        if last is not None:
            findings.not_proved(
                "end",
                f"nothing shows that the chain was not cut off after block {last.number}: keep its head, "
                f"{last.head.hex()}, elsewhere (`holdfast audit head`), or a later bundle of evidence.",
            )
        if self._waiting:
            findings.not_proved(
                "unsealed", f"{self._waiting} entries are not sealed yet: nothing protects them so far."
            )
        if last is None and (self.problem is not None or self._kept):
            return findings.verdict(trusted=False)
        if last is None:
            findings.not_proved("trust", "nothing is signed here so far: no key can vouch for it.")
            return findings.verdict(trusted=False)
        trusted = trust(
            self._keys, self._vouching_key(last), (), reader, findings, self._wrong or self._unbound(reader)
        )
        return findings.verdict(trusted=trusted)

    def _vouching_key(self, last: Block) -> str:
        """The id of the key that vouches for the last block: its signer, or the last key that signed it as the end."""
        bound = self._bounds.get(last.signer)
        if bound is None:
            return last.signer
        newest = next(key for key in reversed(self._keys) if key.retirement)
        at = next((each for each in self._bounds.values() if each.by == newest), bound)
        return at.by.id if at.number == last.number else bound.by.id

    def _unbound(self, reader: ReaderKeys | None) -> str | None:
        """A key that the reader knows to be retired must have its last block recorded here too.

        Without that record it could sign anything.
        """
        for public in () if reader is None else reader.retired:
            if any(key.public == public for key in self._keys) and key_id(public) not in self._bounds:
                return f"key {key_id(public)} is retired, and the store has lost the record of its last valid block."
        return None


def verify_audit(
    tenant: str,
    blocks: Iterable[Block],
    entries: Iterable[AuditEntry],
    keys: Sequence[PublicKey],
    public_keys: Collection[bytes] | None = None,
    ends: Mapping[int, Sequence[ChainEnd]] | None = None,
) -> Verdict:
    """Check a tenant's whole audit. ``entries`` are the sealed ones by position, then those that are not sealed yet.

    ``ends`` are the ends of chains that each key signed for, by the key's number.
    """
    check = AuditCheck(tenant, keys, ends)
    rest = iter(entries)
    for block in blocks:
        if not check.step(block, list(islice(rest, max(0, block.count)))):
            break
    for entry in rest:
        check.tail(*((1, None) if entry.position is None else (0, entry)))
    check.end()
    return check.verdict(ReaderKeys.of(public_keys))
