"""Checking a tenant's whole audit, block by block: however long it is, little of it is in memory at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import islice

from holdfast.gate.chain import Walk
from holdfast.gate.claims import Findings, Verdict
from holdfast.gate.keys import PublicKey, key_id
from holdfast.gate.trust import trust
from holdfast.store.governance import Block, Entry


class AuditCheck:
    """Follows the chain and then says what it found. After the first break it looks no further."""

    def __init__(self, tenant: str, keys: Sequence[PublicKey]) -> None:
        self.problem: str | None = None
        self._keys = keys
        self._walk = Walk(tenant, {key_id(key.public): key.public for key in keys})
        self._waiting = 0
        self._receipts: tuple[int, str | None] | None = None

    def step(self, block: Block, entries: Sequence[Entry]) -> bool:
        """Take the next block with its entries; False where the chain is broken."""
        if self.problem is None:
            self.problem = self._walk.step(block, entries)
        return self.problem is None

    def tail(self, entry: Entry) -> None:
        """Take an entry from behind the last block: it must not claim to be sealed."""
        if entry.position is None:
            self._waiting += 1
        elif self.problem is None:
            self.problem = f"entry {entry.position} is said to be sealed, and no block holds it."

    def receipts(self, count: int, problem: str | None) -> None:
        """Take what came of holding the receipts against the entries."""
        self._receipts = count, problem

    @property
    def is_empty(self) -> bool:
        """Whether nothing was there to look at: no block, no entry that waits for one, and no receipt."""
        nothing = self._walk.last is None and not self._waiting and self._receipts in (None, (0, None))
        return self.problem is None and nothing

    def verdict(self, given: Collection[bytes] | None) -> Verdict:
        """What was found. The last block binds all before it: whoever vouches for that one vouches for the chain."""
        findings = Findings()
        last = self._walk.last
        count = 0 if last is None else last.number
        text = f"the chain is whole: {self._walk.position} entries in {count} signed blocks."
        findings.judge("chain", self.problem, text)
        if self._receipts is not None:
            held, problem = self._receipts
            text = f"all receipts ({held}) are what the audit says, and none that it tells of is missing."
            findings.judge("receipts", problem, text)
        elif self.problem is not None:
            findings.not_proved("receipts", "no receipt was held against a chain that is broken.")
        if last is not None:
            findings.not_proved(
                "end",
                f"nothing says that the chain was not cut off after block {last.number}: keep its head, "
                f"{last.head.hex()}, elsewhere, or a later bundle of evidence.",
            )
        if self._waiting:
            findings.not_proved(
                "unsealed", f"{self._waiting} entries are not sealed yet: nothing protects them so far."
            )
        if last is None and self.problem is not None:
            return findings.verdict(trusted=False)
        if last is None:
            findings.not_proved("trust", "nothing is signed here so far: no key can vouch for it.")
            return findings.verdict(trusted=False)
        return findings.verdict(trusted=trust(self._keys, (last.signer,), given, findings))


def verify_audit(
    tenant: str,
    blocks: Iterable[Block],
    entries: Iterable[Entry],
    keys: Sequence[PublicKey],
    public_keys: Collection[bytes] | None = None,
) -> Verdict:
    """Check a tenant's whole audit: ``entries`` are the sealed ones by position, then those not sealed yet."""
    check = AuditCheck(tenant, keys)
    rest = iter(entries)
    for block in blocks:
        if not check.step(block, list(islice(rest, max(0, block.count)))):
            break
    for entry in rest:
        check.tail(entry)
    return check.verdict(public_keys)
