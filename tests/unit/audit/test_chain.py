"""The audit's chain: a sealed entry that is changed, removed or moved is named."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import cbor2
import pytest
from msgspec.structs import replace

from holdfast.audit.chain import GENESIS, Walk, digest, make_block, message_of, verify_chain
from holdfast.audit.check.chain import verify_audit
from holdfast.store.protocol import AuditEntry, Block
from tests.tables import table
from tests.unit.audit.governed import FIRST, LINE, PUBLICS, SECOND, STRANGER, TENANT, audit, story


def problem(blocks: list[Block], entries: list[AuditEntry]) -> str:
    return verify_chain(TENANT, blocks, entries, PUBLICS) or ""


def test_a_whole_chain_is_good() -> None:
    """Blocks that follow each other, under two keys, with all of their entries, have no problem."""
    blocks, entries = audit(story())
    assert [(block.first, block.count) for block in blocks] == [(0, 6), (6, 6), (12, 6)]
    assert verify_chain(TENANT, blocks, entries, PUBLICS) is None
    assert verify_chain(TENANT, [], [], PUBLICS) is None


def sha256(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def test_the_chain_is_what_the_documents_say() -> None:
    """A block's previous is the head before it; its head follows from a tree, or in the first form from a chain."""
    blocks, entries = audit(story())
    d = [digest(entry) for entry in entries]
    assert [block.form for block in blocks] == [1, 2, 2]
    head = bytes(32)
    assert blocks[0].previous == GENESIS == head
    for each in d[:6]:
        head = sha256(head, each)
    assert blocks[0].head == blocks[1].previous == head
    left = sha256(b"\1", sha256(b"\1", d[6], d[7]), sha256(b"\1", d[8], d[9]))
    root = sha256(b"\1", left, sha256(b"\1", d[10], d[11]))
    assert blocks[1].head == blocks[2].previous == sha256(b"\2", head, root)


def test_a_block_is_signed_as_the_documents_say() -> None:
    """The signed text names the form, and everything of the block but its digests, which the head binds."""
    blocks, _ = audit(story())
    for block in blocks:
        name = f"holdfast.audit.block.{block.form}"
        fields = [name, block.tenant, block.number, block.first, block.count, block.previous, block.head]
        assert message_of(block) == cbor2.dumps([*fields, block.sealed_at, block.signer], canonical=True)


@pytest.mark.parametrize(
    "change", [{"tenant": "b"}, {"run": None}, {"run": ""}, {"kind": "x"}, {"at": 1}, {"body": b"{}"}], ids=str
)
def test_an_entrys_digest_is_over_all_its_content(change: dict[str, Any]) -> None:
    """Tenant, run, kind, time and body: each of them changes the digest."""
    _, entries = audit(story())
    assert digest(replace(entries[0], **change)) != digest(entries[0])


def test_a_digest_is_what_the_documents_say() -> None:
    """The author of another verifier has only the documents."""
    of_run = b"holdfast.audit.entry.1\0acme\0run-1\0decision\x0017\0" + b"{}"
    assert digest(AuditEntry(1, "acme", "run-1", "decision", 17, b"{}")) == hashlib.sha256(of_run).digest()
    of_no_run = b"holdfast.audit.entry.1\0acme\0\0operator\x0017\0" + b"{}"
    assert digest(AuditEntry(1, "acme", None, "operator", 17, b"{}")) == hashlib.sha256(of_no_run).digest()


def test_fields_cannot_flow_into_each_other() -> None:
    """The encoding is unambiguous: a character moved from one field to the next is another entry."""
    assert digest(AuditEntry(1, "ab", "c", "d", 1, b"e")) != digest(AuditEntry(1, "a", "bc", "d", 1, b"e"))


def test_a_digest_does_not_depend_on_the_place_in_the_store() -> None:
    """Sequence and position are not hashed."""
    _, entries = audit(story())
    assert digest(replace(entries[0], sequence=99, position=None)) == digest(entries[0])


@pytest.mark.parametrize("at", range(18))
def test_a_changed_entry_is_named(at: int) -> None:
    """One byte of one body, and the problem says which entry."""
    blocks, entries = audit(story())
    entries[at] = replace(entries[at], body=entries[at].body[:-1] + b" ")
    assert f"entry {at} " in problem(blocks, entries)


@pytest.mark.parametrize("at", range(18))
def test_a_removed_entry_is_named(at: int) -> None:
    """A gap cannot be closed."""
    blocks, entries = audit(story())
    del entries[at]
    assert f"entry {at} is missing" in problem(blocks, entries)


def test_entries_that_changed_places_are_named() -> None:
    """The order is sealed: exchanging the positions too does not help."""
    blocks, entries = audit(story())
    one, two = entries[3], entries[4]
    entries[3], entries[4] = replace(two, position=3), replace(one, position=4)
    assert "entry 3 " in problem(blocks, entries)


def test_an_entry_that_no_block_holds_is_named() -> None:
    """A position alone does not make an entry sealed."""
    blocks, entries = audit(story())
    assert "entry 18 " in problem(blocks, [*entries, replace(entries[0], position=18)])


@pytest.mark.parametrize("index", range(3))
def test_a_removed_block_is_named(index: int) -> None:
    """A block cannot be left out, the last one only together with its entries."""
    blocks, entries = audit(story())
    del blocks[index]
    expected = "entry 12 claims to be sealed" if index == 2 else f"block {index + 1} is missing"
    assert expected in problem(blocks, entries)


BLOCK_CHANGES: list[Callable[[Block], Block]] = [
    lambda block: replace(block, sealed_at=block.sealed_at + 1),
    lambda block: replace(block, head=bytes(32)),
    lambda block: replace(block, previous=bytes(31) + b"1"),
    lambda block: replace(block, digests=block.digests[:-1] + b"x"),
    lambda block: replace(block, digests=block.digests[:-32]),
    lambda block: replace(block, count=block.count - 1),
    lambda block: replace(block, first=block.first + 1),
    lambda block: replace(block, tenant="other"),
    lambda block: replace(block, signer=SECOND[0].id if block.signer == FIRST[0].id else FIRST[0].id),
    lambda block: replace(block, signature=bytes(64)),
    lambda block: replace(block, signer="unknown"),
    lambda block: replace(block, form=3 - block.form),
    lambda block: replace(block, form=9),
    lambda block: replace(block, digests=block.digests + bytes(32)),
    lambda block: replace(block, digests=block.digests + b"x"),
    lambda block: replace(block, digests=b""),
]


BOTH_FORMS = pytest.mark.parametrize("of_first_form", [0, 3], ids=["trees", "chains"])


@table("index", range(3))
@table("change", BLOCK_CHANGES)
@BOTH_FORMS
def test_a_changed_block_is_named(of_first_form: int, change: Callable[[Block], Block], index: int) -> None:
    """Whichever field of a block is changed, that block is named."""
    blocks, entries = audit(story(), of_first_form=of_first_form)
    blocks[index] = change(blocks[index])
    assert problem(blocks, entries).startswith(f"block {index + 1} ")


@table("at", range(18))
@BOTH_FORMS
def test_an_entry_that_was_changed_with_its_digest_is_caught(of_first_form: int, at: int) -> None:
    """The head binds the digests, and the signature the head."""
    blocks, entries = audit(story(), of_first_form=of_first_form)
    entries[at] = replace(entries[at], body=b"{}")
    block, offset = blocks[at // 6], at % 6 * 32
    digests = block.digests[:offset] + digest(entries[at]) + block.digests[offset + 32 :]
    blocks[at // 6] = replace(block, digests=digests)
    assert problem(blocks, entries).startswith(f"block {at // 6 + 1} was altered: its digests do not lead")


@pytest.mark.parametrize("form", [1, 2])
def test_a_block_without_entries_is_refused(form: int) -> None:
    """Otherwise the holder of the key could add empty blocks, to replace them later."""
    blocks, entries = audit(story())
    empty = replace(blocks[2], number=4, first=18, count=0, previous=blocks[2].head, digests=b"", form=form)
    empty = replace(empty, head=blocks[2].head)
    empty = replace(empty, signature=SECOND[1].sign(message_of(empty)))
    assert problem([*blocks, empty], entries).startswith("block 4 says that it holds 0 entries")


def test_an_entry_of_another_tenant_is_named() -> None:
    """Even if its digest is right."""
    blocks, entries = audit(story())
    entries[6] = replace(entries[6], tenant="bolt")
    assert problem(blocks, entries).startswith("entry 6 is of tenant bolt")


def test_one_entry_too_many_is_named() -> None:
    """A second entry at the position of another, after it."""
    blocks, entries = audit(story())
    walk = Walk(TENANT, PUBLICS)
    found = walk.step(blocks[0], [*entries[:6], replace(entries[5], body=b"{}")])
    assert found == "block 1 holds 6 entries, and 7 claim to be in it."


def test_a_block_signed_again_by_a_stranger_is_refused() -> None:
    """A stranger rewrites an entry, and signs the block with another key under our key's id."""
    blocks, entries = audit(story())
    entries[0] = replace(entries[0], body=b"{}")
    forged = make_block(None, entries[:6], blocks[0].sealed_at, STRANGER[1])
    forged = replace(forged, signer=FIRST[0].id)
    forged = replace(forged, signature=STRANGER[1].sign(message_of(forged)))
    assert "block 1 was altered" in problem([forged, *blocks[1:]], entries)


def test_a_block_made_again_with_our_own_key_does_not_fit_the_next() -> None:
    """Even the holder of the key cannot change a block before another."""
    blocks, entries = audit(story())
    entries[0] = replace(entries[0], body=b"{}")
    blocks[0] = make_block(None, entries[:6], blocks[0].sealed_at, FIRST[1])
    assert "block 2 does not follow" in problem(blocks, entries)


def test_a_walk_stops_where_it_broke() -> None:
    """A refused block is not taken: the next one is still the missing one."""
    blocks, entries = audit(story())
    walk = Walk(TENANT, PUBLICS)
    assert walk.step(blocks[1], entries[6:12]) is not None
    assert walk.step(blocks[0], entries[:6]) is None
    assert walk.position == 6


def states(verdict: Any) -> dict[str, str]:
    return {claim.about: claim.state for claim in verdict.claims}


def test_an_audit_is_proved_by_the_last_key_and_its_tail_is_shown_as_unsealed() -> None:
    """The last block binds all before it. Unsealed entries have a claim of their own. A cut end cannot be excluded."""
    blocks, entries = audit(story())
    tail = replace(entries[0], sequence=99, position=None)
    verdict = verify_audit(TENANT, blocks, [*entries, tail], LINE, [SECOND[0].public])
    assert verdict.good
    assert verdict.trusted
    assert states(verdict) == {
        "chain": "proved",
        "end": "not proved",
        "unsealed": "not proved",
        "keys": "proved",
        "trust": "proved",
    }
    assert any(claim.text.startswith("1 entries are not sealed") for claim in verdict.claims)


def test_an_audit_without_a_given_key_is_only_consistent() -> None:
    """Nothing is called proved."""
    blocks, entries = audit(story())
    verdict = verify_audit(TENANT, blocks, entries, LINE)
    assert verdict.good
    assert not verdict.trusted
    assert "proved" not in states(verdict).values()


def test_an_audit_under_another_key_is_broken() -> None:
    """A key that does not lead to the last signer proves nothing."""
    blocks, entries = audit(story())
    verdict = verify_audit(TENANT, blocks, entries, LINE, [STRANGER[0].public])
    assert states(verdict)["trust"] == "broken"


def test_the_claim_of_a_broken_audit_names_the_entry() -> None:
    """The first broken entry is named."""
    blocks, entries = audit(story())
    entries[7] = replace(entries[7], at=1)
    verdict = verify_audit(TENANT, blocks, entries, LINE, [FIRST[0].public])
    assert not verdict.good
    assert verdict.claims[0].text.startswith("entry 7 ")
