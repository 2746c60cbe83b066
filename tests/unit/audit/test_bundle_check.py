"""Offline verification: an unaltered bundle is proved, and each alteration of one is found and named."""

from __future__ import annotations

import hashlib
import time
import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.audit import evidence, keys, records
from holdfast.audit.bundles import pack, unpack
from holdfast.audit.chain import digest, excerpt, make_block, message_of
from holdfast.audit.check.bundle import verify_bundle
from holdfast.audit.check.claims import Verdict
from holdfast.audit.evidence import Journal
from holdfast.audit.keys import Signer
from holdfast.audit.outline import JournalLine, outline
from holdfast.store.protocol import AuditEntry
from tests.unit.audit.governed import (
    CHARGE,
    FIRST,
    LINE,
    MAIL,
    NOW,
    PROPOSALS,
    RUN,
    SECOND,
    STRANGER,
    WIPE,
    asked,
    audit,
    bundle,
    decided,
    ended,
    inputs,
    journal,
    pair,
    receipted,
    story,
)

TRUSTED = [FIRST[0].public]
GOOD = bundle()


def states(verdict: Verdict) -> dict[str, str]:
    return {claim.about: claim.state for claim in verdict.claims}


def broken(data: bytes, trusted: Sequence[bytes] | None = TRUSTED) -> str:
    """The texts of all broken claims; empty where none is broken."""
    return "\n".join(claim.text for claim in verify_bundle(data, trusted).claims if claim.state == "broken")


def resigned(change: Callable[[dict[str, bytes]], None], signer: Signer = SECOND[1]) -> bytes:
    """A bundle with changed files, and a new manifest and signature."""
    files = unpack(GOOD)
    change(files)
    manifest = msgspec.json.decode(files.pop("manifest.json"), type=evidence.Manifest)
    del files["manifest.sig"]
    lines = [evidence.FileLine(n, len(d), hashlib.sha256(d).hexdigest()) for n, d in sorted(files.items())]
    written = msgspec.json.encode(replace(manifest, files=lines, signer=signer.id))
    signature = signer.sign(evidence.signed_message(written, evidence.FORMAT))
    return pack({**files, "manifest.json": written, "manifest.sig": signature})


def edit(name: str, old: bytes, new: bytes) -> Callable[[dict[str, bytes]], None]:
    def change(files: dict[str, bytes]) -> None:
        assert old in files[name]
        files[name] = files[name].replace(old, new, 1)

    return change


# -- a whole bundle ----------------------------------------------------------------------------------------------------


def test_a_whole_bundle_is_proved_by_the_first_key() -> None:
    """The reader has the oldest key; the endorsement leads to the signer."""
    verdict = verify_bundle(GOOD, TRUSTED)
    assert verdict.good
    assert verdict.trusted
    assert states(verdict) == {
        "files": "proved",
        "manifest": "proved",
        "blocks": "proved",
        "entries": "proved",
        "values": "not proved",
        "journal": "proved",
        "actions": "proved",
        "receipts": "proved",
        "approvals": "proved",
        "costs": "proved",
        "summary": "proved",
        "keys": "proved",
        "trust": "proved",
    }


def test_with_values_the_journal_is_computed_again() -> None:
    """Hashes and outline follow from the bytes."""
    blob = b"x" * 50
    data = bundle(inputs(values=True), blobs={hashlib.sha256(blob).digest(): blob})
    verdict = verify_bundle(data, TRUSTED)
    assert states(verdict)["values"] == "proved"
    assert verdict.good


@pytest.mark.parametrize("values", [False, True])
def test_an_end_without_the_hash_of_its_input_still_binds_the_journal(values: bool) -> None:
    """Where the input may hold a secret, its hash is left out. The journal's last hash counts."""
    recorded = [*story()[:-1], replace(ended(journal()), input=records.Metadata("arguments"))]
    verdict = verify_bundle(bundle(inputs(recorded, values=values)), TRUSTED)
    assert verdict.good
    assert states(verdict)["journal"] == "proved"


def test_a_bundle_from_before_the_runs_own_input_was_hidden_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was outlined by other rules, and its bytes stay as they are."""
    secret = {"fields": {"pin": "secret"}}
    recorded = [replace(each, **secret) if isinstance(each, records.Decided) else each for each in story()]
    monkeypatch.setattr(evidence, "outline", partial(outline, edition=0))
    before = bundle(inputs(recorded, values=True))
    monkeypatch.undo()
    now = bundle(inputs(recorded, values=True))
    assert before != now
    for data in (before, now):
        verdict = verify_bundle(data, TRUSTED)
        assert verdict.good
        assert states(verdict)["values"] == "proved"


def test_without_a_key_all_is_only_consistent() -> None:
    """The claim says that anyone could have made it."""
    verdict = verify_bundle(GOOD)
    assert verdict.good
    assert not verdict.trusted
    assert "proved" not in states(verdict).values()
    assert any("no public key was given" in claim.text and "anyone" in claim.text for claim in verdict.claims)


def test_a_bundle_of_an_open_run_is_good_and_its_journal_not_bound() -> None:
    """Nothing binds a journal before its end."""
    live = replace(inputs().run, standing="running", ended_at=None)
    verdict = verify_bundle(bundle(inputs(story()[:-1]), run=live), TRUSTED)
    assert verdict.good
    assert states(verdict)["journal"] == "not proved"


def test_acts_that_a_fork_inherited_are_not_proved_and_not_broken() -> None:
    """Their receipts are in the evidence of the run that was forked."""
    fork = replace(inputs().run, attributes={"forked_from": "order-0"}, created_at=NOW + 10)
    verdict = verify_bundle(bundle(inputs([decided(CHARGE, "allow"), ended(journal())]), run=fork), TRUSTED)
    assert verdict.good
    assert any("done by run order-0 before the fork" in claim.text for claim in verdict.claims)


# -- one byte ----------------------------------------------------------------------------------------------------------


def test_every_single_byte_counts() -> None:
    """With any byte of the file changed, it is not good."""
    data = bytearray(GOOD)
    for at in range(len(data)):
        data[at] ^= 1
        assert not verify_bundle(bytes(data), None).good, at
        data[at] ^= 1
    assert bytes(data) == GOOD


@pytest.mark.parametrize("name", sorted(unpack(GOOD)))
def test_a_changed_byte_of_a_file_that_is_packed_again_is_named(name: str) -> None:
    """Where the zip is valid again, the hash in the manifest differs, or the signature breaks."""
    files = unpack(GOOD)
    original = files[name]
    step = 1 if name == "manifest.sig" else max(1, len(original) // 60)
    for at in range(0, len(original), step):
        changed = bytearray(original)
        changed[at] ^= 0x20
        problem = broken(pack({**files, name: bytes(changed)}), None)
        expected = "manifest" if name.startswith("manifest") else f"file {name} was altered"
        assert expected in problem or "read" in problem, at


@pytest.mark.parametrize("cut", [0, 1, 100, len(GOOD) // 2, len(GOOD) - 1])
def test_a_file_that_is_cut_off_is_refused(cut: int) -> None:
    """Never an error, always a broken claim."""
    assert broken(GOOD[:cut]) != ""


def test_files_cannot_be_added_or_taken_away() -> None:
    """The manifest names them all."""
    files = unpack(GOOD)
    assert "file extra.txt is not in the manifest" in broken(pack({**files, "extra.txt": b""}))
    for name in files:
        rest = {other: data for other, data in files.items() if other != name}
        assert name.removesuffix(".sig") in broken(pack(rest)), name


# -- signed again ------------------------------------------------------------------------------------------------------


def test_a_bundle_signed_anew_with_another_key_is_caught() -> None:
    """A stranger who puts their own key into the bundle is not the operator."""
    line = [keys.published(STRANGER[0])]
    own = inputs()
    blocks = [make_block(None, audit(story(), size=99)[1], NOW, STRANGER[1])]
    forged = bundle(own, line=line, signer=STRANGER[1], blocks=blocks)
    assert verify_bundle(forged, None).good
    problem = broken(forged)
    assert STRANGER[0].id in problem
    assert "no endorsement leads there" in problem


def test_a_stranger_behind_our_keys_is_caught() -> None:
    """A forged endorsement breaks the line of keys, and trust ends before it."""
    forged = replace(keys.published(STRANGER[0]), number=3, endorsement=SECOND[1].sign(b"not an endorsement"))
    problem = broken(bundle(line=[*LINE, forged], signer=STRANGER[1]))
    assert f"key 3 ({STRANGER[0].id}) is not endorsed by key 2" in problem
    assert "no endorsement leads there" in problem


def test_a_swapped_key_is_caught() -> None:
    """Another public key under our key's id."""
    swapped = [replace(LINE[0], public=STRANGER[0].public), LINE[1]]
    problem = broken(bundle(line=swapped))
    assert f"block 1 is signed by key {FIRST[0].id}, which is not known" in problem
    assert f"key 1 is called {FIRST[0].id}" in problem


def test_a_removed_key_is_caught() -> None:
    """The line of keys has no gap, and the signer's must be in it."""
    assert "which is not in the bundle" in broken(bundle(line=LINE[:1]))
    assert "key 1 is missing" in broken(bundle(line=LINE[1:]))


def test_a_newer_key_does_not_vouch_for_an_older() -> None:
    """Endorsements lead onwards only: the first block is by a key that the reader does not have."""
    assert FIRST[0].id in broken(GOOD, [SECOND[0].public])
    assert broken(GOOD, [FIRST[0].public, SECOND[0].public]) == ""


def test_a_key_that_follows_ours_is_trusted() -> None:
    """After a rotation the reader's key still leads to the signer."""
    third = pair(SECOND)
    assert verify_bundle(bundle(line=[*LINE, keys.published(third[0])], signer=third[1]), TRUSTED).trusted


@pytest.mark.parametrize("index", range(9))
def test_a_changed_entry_is_named_however_the_bundle_is_signed(index: int) -> None:
    """Even the holder of the key cannot change a sealed entry."""
    own = inputs()
    changed = list(own.entries)
    changed[index] = replace(changed[index], at=NOW + 1)
    assert f"entry {changed[index].position} " in broken(bundle(own, entries=changed))


def test_reordered_entries_are_named() -> None:
    """Their order must be that of the chain."""
    own = inputs()
    swapped = [own.entries[1], own.entries[0], *own.entries[2:]]
    assert "entry 0 is out of its order, after entry 2" in broken(bundle(own, entries=swapped))
    moved = [replace(own.entries[1], position=0), replace(own.entries[0], position=2), *own.entries[2:]]
    assert "entry 0 " in broken(bundle(own, entries=moved))


def test_a_removed_block_is_named_by_its_entries() -> None:
    """Nothing proves an entry that no block holds."""
    own = inputs()
    assert "no block holds entry 6" in broken(bundle(own, blocks=[own.blocks[0], own.blocks[2]]))
    assert "no block holds entry 12" in broken(bundle(own, blocks=own.blocks[:2]))


def test_reordered_and_foreign_blocks_are_named() -> None:
    """Blocks are in order, and the next number must follow by its hash."""
    own = inputs()
    assert "block 1 is out of its order" in broken(bundle(own, blocks=[own.blocks[1], own.blocks[0], own.blocks[2]]))
    foreign = replace(own.blocks[1], previous=bytes(32))
    foreign = replace(foreign, signature=SECOND[1].sign(message_of(foreign)))
    assert "block 2 was altered" in broken(bundle(own, blocks=[own.blocks[0], foreign, own.blocks[2]]))


# -- a cheating operator -----------------------------------------------------------------------------------------------


def without(kind: type[records.Record], number: int = 0) -> bytes:
    """The bundle without one entry of a kind; all else is sealed and signed properly."""
    own = inputs()
    of_kind = [entry for entry in own.entries if isinstance(records.decode(entry.body), kind)]
    return bundle(own, entries=[entry for entry in own.entries if entry is not of_kind[number]])


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (without(records.Ended), "the entry of its end is missing"),
        (without(records.Receipted), "action charge"),
        (without(records.Receipted, 1), "action mail"),
        (without(records.Decided), "nothing allowed or approved this proposal"),
        (without(records.Decided, 2), "action wipe"),
        (without(records.Asked, 1), "two different people"),
        (without(records.Asked, 2), "receipt receipt-mail of mail"),
    ],
)
def test_a_left_out_entry_is_missed(data: bytes, problem: str) -> None:
    """Journal, decisions, approvals and receipts need each other: not even the signer can leave one out."""
    assert problem in broken(data)


def recorded_as(*changed: tuple[int, records.Record]) -> bytes:
    """The bundle, with other records at these places of the story."""
    recorded = story()
    for at, record in changed:
        recorded[at] = record
    return bundle(inputs(recorded))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (recorded_as((0, decided(CHARGE, "deny"))), "entry 2, receipt receipt-charge of charge: nothing allowed"),
        (recorded_as((1, replace(receipted(CHARGE), proposal="dd" * 32))), "nothing allowed or approved this proposal"),
        (recorded_as((1, replace(receipted(CHARGE), state="failed"))), "has no receipt of a success"),
        (recorded_as((0, receipted(CHARGE)), (1, decided(CHARGE, "allow"))), "only entry 2, after it, allowed"),
        (recorded_as((4, asked("bob", "requested"))), "two different people"),
        (recorded_as((4, asked("eve", "requested", "delegated"))), "two different people"),
        (recorded_as((4, asked("ann <script>", "requested"))), "who started the run, approved it"),
        (recorded_as((8, replace(ended(journal()), head="00" * 32))), "binds: the last hash differs"),
        (recorded_as((8, replace(ended(journal()), version=3))), "the number of events differs"),
        (recorded_as((8, replace(ended(journal()), standing="failed"))), "the status differs"),
    ],
)
def test_a_story_that_does_not_hold_is_broken(data: bytes, problem: str) -> None:
    """An act that nobody allowed, an approval by too few, another journal: sealed and signed, and still found."""
    assert problem in broken(data)


def approving(*approval: records.Record) -> bytes:
    """The bundle, with these records of the mail's approval before its receipt, and no other change."""
    recorded = story()
    return bundle(inputs([*recorded[:3], *approval, *recorded[6:]]))


REQUESTED = asked("", "requested", "requested")
ALLOWED = decided(MAIL, "allow", "approval", task="task-1")
ANN, BOB = asked("ann", "requested"), asked("bob", "approved")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (approving(REQUESTED, ALLOWED), "entry 8 allows mail by task task-1, which nobody approved before it"),
        (approving(REQUESTED, ANN, ALLOWED), "by task task-1, which only ann approved before it"),
        (approving(REQUESTED, ANN, asked("ann", "approved"), ALLOWED), "which only ann approved before it"),
        (approving(REQUESTED, ANN, asked("bob", "requested"), ALLOWED), "which was not approved before it"),
        (approving(REQUESTED, ANN, ALLOWED, BOB), "which only ann approved before it"),
        (approving(REQUESTED, ANN, BOB, replace(ALLOWED, task="task-2")), "by task task-2, which nobody approved"),
        (approving(REQUESTED, ANN, BOB, replace(ALLOWED, task=None)), "by task None, which nobody approved"),
        (approving(*(replace(each, promise=str(WIPE)) for each in (REQUESTED, ANN, BOB)), ALLOWED), "nobody approved"),
        (approving(*(replace(e, proposal=PROPOSALS[WIPE]) for e in (REQUESTED, ANN, BOB)), ALLOWED), "nobody approved"),
        (approving(REQUESTED, ANN, replace(BOB, subject="outcome"), ALLOWED), "which only ann approved before it"),
    ],
)
def test_a_decision_by_an_approval_comes_after_it(data: bytes, problem: str) -> None:
    """A decision that names a task counts only where enough people had approved that very call before."""
    assert problem in broken(data)


def test_a_receipt_without_its_approval_is_broken() -> None:
    """Neither the decision nor a later approval makes the receipt good."""
    problem = broken(approving(REQUESTED, ALLOWED))
    assert "receipt receipt-mail of mail: nothing allowed or approved this proposal" in problem


def test_an_approval_by_enough_people_is_good() -> None:
    """A worker records every approved act in this way."""
    assert broken(approving(REQUESTED, ANN, BOB, ALLOWED)) == ""


def test_one_person_is_enough_where_one_is_needed() -> None:
    """The task says how many."""
    one = (replace(each, two_person=False) for each in (REQUESTED, asked("bob", "approved")))
    assert broken(approving(*one, ALLOWED)) == ""


def test_another_journal_is_not_the_one_that_ended() -> None:
    """An operator who rewrites the journal cannot rewrite the chain."""
    other = replace(journal()[0], head=b"\1" * 32)
    assert "last hash" in broken(
        bundle(journals=[Journal(0, [*journal()[:-1], replace(journal()[-1], head=other.head)])])
    )
    assert "differ" in broken(bundle(journals=[Journal(0, journal()[:-1])]))
    assert "is missing" in broken(bundle(journals=[]))


def test_altered_values_are_caught() -> None:
    """The bytes must give the hashes."""
    segments = journal()
    worse = replace(segments[1], events=segments[1].events.replace(b"done", b"gone"))
    own = inputs(values=True)
    altered = bundle(own, journals=[Journal(0, [segments[0], worse, *segments[2:]])])
    assert "the segment at sequence 4 of generation 0 does not give its hash" in broken(altered)
    blob = bundle(own, blobs={bytes(32): b"not this"})
    assert f"file blobs/{'00' * 32} is not the value of that hash" in broken(blob)


def test_negative_sizes_are_refused() -> None:
    """Otherwise the same few bytes could be read for many segments."""
    own = bundle(inputs(values=True))
    (line,) = msgspec.json.decode(unpack(own)["journal.json"], type=list[JournalLine])
    back = replace(line.segments[0], size=-line.segments[0].size)
    worse = replace(line, segments=[back, *line.segments[1:]])
    data = pack({**unpack(own), "journal.json": msgspec.json.encode([worse])})
    assert "a segment of generation 0 has a negative size" in broken(data)


@pytest.mark.parametrize("count", [10**14, 10**30, 7, -1, 0])
def test_a_length_in_the_file_decides_nothing_about_memory(count: int) -> None:
    """A segment that claims a huge number of events is broken at once."""
    data = resigned(edit("journal.json", b'"count": 4', b'"count": %d' % count))
    tracemalloc.start()
    try:
        assert "the journal of generation 0 lacks events" in broken(data)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_entries_of_another_run_are_refused() -> None:
    """Evidence of one run has no entries of another."""
    _, everything = audit(story())
    foreign: list[AuditEntry] = sorted([*inputs().entries, everything[1]], key=lambda entry: entry.position or 0)
    assert f"entry 1 is not one of run {RUN}" in broken(bundle(entries=foreign))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (edit("costs.json", b"0.2", b"0.1"), "the costs are not the sum"),
        (edit("journal.json", b'"sequence": 3', b'"sequence": 4'), "lacks events"),
        (edit("journal.json", b'"generation": 0', b'"generation": "0"'), "journal.json cannot be read"),
        (edit("entries.jsonl", b'"position":0', b'"position":1e99'), "cannot be read"),
        (edit("blocks.json", b'"number": 1', b'"number": 99999999999999999999999'), "block 99999999999999999999999"),
        (edit("keys.json", b'"number": 1', b'"number": 7'), "key 1 is missing"),
    ],
)
def test_a_derived_file_that_was_changed_and_signed_is_caught(
    change: Callable[[dict[str, bytes]], None], problem: str
) -> None:
    """The verifier computes it itself."""
    assert problem in broken(resigned(change))


def test_another_summary_is_not_proved() -> None:
    """The page may be of another version; the entries count."""
    verdict = verify_bundle(resigned(edit("summary.html", b"deny", b"allow")), TRUSTED)
    assert states(verdict)["summary"] == "not proved"


def test_an_unknown_format_is_named() -> None:
    """The verifier does not guess."""
    files = unpack(GOOD)
    files["manifest.json"] = files["manifest.json"].replace(b"holdfast.evidence.2", b"holdfast.evidence.9")
    assert "'holdfast.evidence.9'" in broken(pack(files))


# -- bundles of earlier versions ---------------------------------------------------------------------------------------

OLD = Path(__file__).with_name("golden") / "evidence_1.zip"


def test_a_bundle_of_the_first_format_is_proved() -> None:
    """Its key is in it, and here the reader trusts that key."""
    data = OLD.read_bytes()
    first = msgspec.json.decode(unpack(data)["keys.json"], type=list[evidence.KeyLine])[0]
    verdict = verify_bundle(data, [bytes.fromhex(first.public)])
    assert verdict.good
    assert verdict.trusted
    assert states(verdict) == states(verify_bundle(GOOD, TRUSTED))


def of_first_format(**changed: object) -> bytes:
    """A bundle of the first format, with some inputs changed and still signed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "SECOND_FORMAT", evidence.FIRST_FORMAT)
        return bundle(inputs(of_first_form=3), **changed)


def test_a_bundle_of_the_first_format_is_no_less_strict() -> None:
    """However it is signed: a changed entry, its digest, a block's place or its signature is named."""
    own = inputs(of_first_form=3)
    assert broken(of_first_format()) == ""
    for index, entry in enumerate(own.entries):
        changed = [*own.entries[:index], replace(entry, at=NOW + 1), *own.entries[index + 1 :]]
        assert f"entry {entry.position} " in broken(of_first_format(entries=changed))
    for index, block in enumerate(own.blocks):
        for forged in (
            replace(block, digests=bytes(32) + block.digests[32:]),
            replace(block, head=bytes(32)),
            replace(block, previous=bytes(31) + b"1"),
            replace(block, sealed_at=1),
            replace(block, signature=bytes(64)),
        ):
            blocks = [*own.blocks[:index], forged, *own.blocks[index + 1 :]]
            assert f"block {index + 1} was altered" in broken(of_first_format(blocks=blocks))


def test_a_bundle_of_the_first_format_has_blocks_of_the_first_form() -> None:
    """An earlier version must come to the same verdict on such a bundle."""
    assert "has no blocks of another form" in broken(of_first_format(blocks=inputs().blocks))


# -- parts of blocks ---------------------------------------------------------------------------------------------------


def shown(index: int, **changed: object) -> bytes:
    """The bundle with some fields of one block's line changed, and the manifest signed again."""

    def change(files: dict[str, bytes]) -> None:
        lines = msgspec.json.decode(files["blocks.json"], type=list[evidence.BlockLine])
        lines[index] = replace(lines[index], **changed)
        files["blocks.json"] = msgspec.json.encode(lines)

    return resigned(change)


CHAINED, TREE, _ = msgspec.json.decode(unpack(GOOD)["blocks.json"], type=list[evidence.BlockLine])
DIGESTS = "was altered: its digests do not lead"


@pytest.mark.parametrize(
    ("index", "changed", "problem"),
    [
        (0, {"digests": [*CHAINED.digests[:-1], "00" * 32]}, DIGESTS),
        (0, {"digests": CHAINED.digests[::-1]}, DIGESTS),
        (0, {"digests": CHAINED.digests[1:]}, "does not carry as many digests"),
        (0, {"count": 5}, "does not carry as many digests"),
        (0, {"count": 10**30}, "does not carry as many digests"),
        (0, {"form": 2, "positions": list(range(6))}, DIGESTS),
        (0, {"signature": "00" * 64}, "its signature is not one of key"),
        (0, {"sealed_at": 1}, "its signature is not one of key"),
        (1, {"hashes": TREE.hashes[:-1]}, DIGESTS),
        (1, {"hashes": [*TREE.hashes, "00" * 32]}, DIGESTS),
        (1, {"hashes": TREE.hashes[::-1]}, DIGESTS),
        (1, {"hashes": []}, DIGESTS),
        (1, {"digests": ["00" * 32, *TREE.digests[1:]]}, DIGESTS),
        (1, {"digests": TREE.digests[::-1]}, DIGESTS),
        (1, {"positions": [at + 1 for at in TREE.positions]}, DIGESTS),
        (1, {"positions": [-1, *TREE.positions[1:]]}, DIGESTS),
        (1, {"positions": [*TREE.positions[:-1], 99]}, DIGESTS),
        (1, {"count": 5}, DIGESTS),
        (1, {"count": 7}, "was altered"),
        (1, {"count": 2**60}, DIGESTS),
        (1, {"count": 0}, "says that it holds 0 entries"),
        (1, {"count": -1}, "says that it holds -1 entries"),
        (1, {"first": 5}, DIGESTS),
        (1, {"form": 1, "positions": [], "hashes": []}, "does not carry as many digests"),
        (1, {"form": 9}, "is of form 9, which this Holdfast does not know"),
        (1, {"form": 0}, "is of form 0, which this Holdfast does not know"),
        (1, {"signature": "00" * 64}, "its signature is not one of key"),
        (1, {"sealed_at": 1}, "its signature is not one of key"),
        (1, {"tenant": "bolt"}, "its signature is not one of key"),
    ],
    ids=str,
)
def test_a_changed_line_of_a_block_is_named(index: int, changed: dict[str, object], problem: str) -> None:
    """Even with the manifest's key: the block's own signature is over its head and place."""
    claims = broken(shown(index, **changed)).splitlines()
    assert any(claim.startswith(f"block {index + 1} ") and problem in claim for claim in claims)


@pytest.mark.parametrize("index", [0, 1])
def test_an_entry_that_was_changed_with_its_digest_is_caught(index: int) -> None:
    """The digest in the bundle proves nothing: the signed head does."""
    own = inputs()
    at = own.blocks[index].first
    changed = [replace(entry, at=NOW + 1) if entry.position == at else entry for entry in own.entries]
    digests = {entry.position: digest(entry).hex() for entry in changed}

    def change(files: dict[str, bytes]) -> None:
        files.update(unpack(bundle(own, entries=changed)))
        lines = msgspec.json.decode(files["blocks.json"], type=list[evidence.BlockLine])
        lines[index] = replace(lines[index], digests=[digests[at], *lines[index].digests[1:]])
        files["blocks.json"] = msgspec.json.encode(lines)

    claims = broken(resigned(change))
    assert f"block {index + 1} {DIGESTS}" in claims
    assert f"entry {at} " not in claims


@pytest.mark.parametrize(
    ("index", "changed"),
    [
        (1, {"hashes": ["00"]}),
        (1, {"hashes": ["zz" * 32]}),
        (1, {"digests": ["00" * 31, *TREE.digests[1:]]}),
        (1, {"digests": TREE.digests[1:]}),
        (1, {"positions": TREE.positions[1:]}),
        (1, {"positions": TREE.positions[::-1], "digests": TREE.digests[::-1]}),
        (1, {"positions": [TREE.positions[0], *TREE.positions], "digests": ["00" * 32, *TREE.digests]}),
        (0, {"positions": [0]}),
        (0, {"hashes": ["00" * 32]}),
    ],
    ids=str,
)
def test_an_unreadable_block_is_named(index: int, changed: dict[str, object]) -> None:
    """It is refused before anything is computed from it. A part of a block has only one canonical form."""
    assert "cannot be read" in broken(shown(index, **changed))


def test_an_entry_that_a_block_shows_must_be_there() -> None:
    """An entry cannot be left out of the bundle while its block still shows it."""

    def change(files: dict[str, bytes]) -> None:
        lines = files["entries.jsonl"].splitlines(keepends=True)
        files["entries.jsonl"] = b"".join(lines[:4] + lines[5:])

    assert "entry 8 is missing: block 2 shows that there is one" in broken(resigned(change))


def test_an_entry_that_its_block_does_not_show_is_named() -> None:
    """A position within the block proves nothing."""
    less = excerpt(inputs().blocks[1], TREE.positions[1:])
    problem = broken(
        shown(
            1,
            positions=list(less.digests),
            digests=[each.hex() for each in less.digests.values()],
            hashes=[each.hex() for each in less.hashes],
        )
    )
    assert f"entry {TREE.positions[0]} is not shown to be in block 2" in problem
    assert "block 2 was altered" not in problem


@pytest.mark.long
def test_the_check_takes_time_in_proportion_to_the_bundle() -> None:
    """Many entries in many blocks do not take quadratic time."""
    blocks, entries = [], []
    line = inputs().entries[0]
    for at in range(3000):
        entries.append(replace(line, position=at))
        blocks.append(make_block(blocks[-1] if blocks else None, entries[-1:], NOW, SECOND[1]))
    data = bundle(entries=entries, blocks=blocks)
    began = time.process_time()
    assert "as they were sealed" in "".join(claim.text for claim in verify_bundle(data, TRUSTED).claims)
    assert time.process_time() - began < 3
