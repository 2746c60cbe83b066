"""Checking a tenant's whole audit, block by block: however long it is, little of it is in memory at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

from holdfast.audit.chain import Walk
from holdfast.audit.check.claims import Findings, Verdict
from holdfast.audit.check.trust import Given, trust
from holdfast.audit.heads import KeptHeads
from holdfast.audit.keys import PublicKey, key_id
from holdfast.audit.retirement import bounds, check_ends
from holdfast.store.governance import AuditEntry, Block, ChainEnd

RECEIPTS: Final = "receipts"
TASKS: Final = "tasks"
RUNS: Final = "runs"
EVIDENCE: Final = "evidence"

_HELD: Final = {
    RECEIPTS: "all receipts ({}) are what the audit says, and none that it tells of is missing.",
    TASKS: "all tasks ({}) are what the audit says, and none that it tells of is missing.",
    RUNS: "the rows of all runs ({}) are what their journals say, and what the audit says of their ends.",
    EVIDENCE: "all evidence that is kept ({}) has its hash, and no governed run that has ended is missing with it.",
}


class AuditCheck:
    """Follows the chain and then says what it found. After the first break it looks no further."""

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
        self._held: dict[str, tuple[int, str | None]] = {}

    def step(self, block: Block, entries: Sequence[AuditEntry]) -> bool:
        """Take the next block with its entries; False where the chain is broken."""
        if self.problem is None:
            self.problem = self._walk.step(block, entries)
            self._kept.step(block)
        return self.problem is None

    def tail(self, entry: AuditEntry) -> None:
        """Take an entry from behind the last block: it must not claim to be sealed."""
        if entry.position is None:
            self._waiting += 1
        elif self.problem is None:
            self.problem = f"entry {entry.position} is said to be sealed, and no block holds it."

    def end(self) -> None:
        """All of the chain has been taken: what a key says of its length must be so."""
        if self.problem is None:
            self.problem = self._walk.end()
            self._kept.end(0 if self._walk.last is None else self._walk.last.number)

    def held(self, about: str, count: int, problem: str | None) -> None:
        """Take what came of holding receipts, tasks, runs or evidence against the audit and the journals."""
        self._held[about] = count, problem

    @property
    def is_empty(self) -> bool:
        """Whether nothing was there to look at: no block, no entry that waits for one, and no receipt."""
        nothing = self._walk.last is None and not self._waiting and self._held.get(RECEIPTS) in (None, (0, None))
        return self.problem is None and nothing and not self._kept

    def verdict(self, given: Given | None) -> Verdict:
        """What was found. The last block binds all before it: whoever vouches for that one vouches for the chain."""
        findings = Findings()
        last = self._walk.last
        count = 0 if last is None else last.number
        text = f"the chain is whole: {self._walk.position} entries in {count} signed blocks."
        findings.judge("chain", self.problem, text)
        for about, (held, problem) in self._held.items():
            findings.judge(about, problem, _HELD[about].format(held))
        if self.problem is not None:
            findings.not_proved(RECEIPTS, "nothing was held against a chain that is broken: no receipt, task or run.")
        if self._kept and self.problem is None:
            findings.judge("head", self._kept.problem, self._kept.text)
        elif self._kept:
            findings.not_proved("head", "no head was held against a chain that is broken.")
        if last is not None:
            findings.not_proved(
                "end",
                f"nothing says that the chain was not cut off after block {last.number}: keep its head, "
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
        trusted = trust(self._keys, self._vouching_key(last), (), given, findings, self._wrong or self._unbound(given))
        return findings.verdict(trusted=trusted)

    def _vouching_key(self, last: Block) -> str:
        """Who vouches for the last block: its signer, or the last key that signed for it as the chain's end."""
        bound = self._bounds.get(last.signer)
        if bound is None:
            return last.signer
        newest = next(key for key in reversed(self._keys) if key.retirement)
        at = next((each for each in self._bounds.values() if each.by == newest), bound)
        return at.by.id if at.number == last.number else bound.by.id

    def _unbound(self, given: Given | None) -> str | None:
        """What the reader knows to be retired is retired here too: without the word on it, it could sign anything."""
        for public in () if given is None else given.retired:
            if any(key.public == public for key in self._keys) and key_id(public) not in self._bounds:
                return f"key {key_id(public)} is retired, and what says how far it counts is gone from the store."
        return None


def verify_audit(
    tenant: str,
    blocks: Iterable[Block],
    entries: Iterable[AuditEntry],
    keys: Sequence[PublicKey],
    public_keys: Collection[bytes] | None = None,
    ends: Mapping[int, Sequence[ChainEnd]] | None = None,
) -> Verdict:
    """Check a tenant's whole audit: ``entries`` are the sealed ones by position, then those not sealed yet.

    ``ends`` are those that came with each key, by its number.
    """
    check = AuditCheck(tenant, keys, ends)
    rest = iter(entries)
    for block in blocks:
        if not check.step(block, list(islice(rest, max(0, block.count)))):
            break
    for entry in rest:
        check.tail(entry)
    check.end()
    return check.verdict(Given.of(public_keys))
