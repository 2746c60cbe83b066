"""Offline verification: a whole bundle is proved, and whatever was done to one is caught and named."""

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


def broken(data: bytes, given: Sequence[bytes] | None = TRUSTED) -> str:
    """What is broken, in one text; empty where nothing is."""
    return "\n".join(claim.text for claim in verify_bundle(data, given).claims if claim.state == "broken")


def resigned(change: Callable[[dict[str, bytes]], None], signer: Signer = SECOND[1]) -> bytes:
    """A bundle whose files were changed, its manifest written and signed anew."""
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
    """The reader has the oldest key; the endorsement leads to the one that signed."""
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


def test_with_values_the_journal_is_computed_anew() -> None:
    """Hashes and outline follow from the bytes."""
    blob = b"x" * 50
    data = bundle(inputs(values=True), blobs={hashlib.sha256(blob).digest(): blob})
    verdict = verify_bundle(data, TRUSTED)
    assert states(verdict)["values"] == "proved"
    assert verdict.good


@pytest.mark.parametrize("values", [False, True])
def test_an_end_that_does_not_tell_its_input_binds_the_journal_all_the_same(values: bool) -> None:
    """Where the input may hold a secret its hash is left out; the journal's last hash is what counts."""
    told = [*story()[:-1], replace(ended(journal()), input=records.Metadata("arguments"))]
    verdict = verify_bundle(bundle(inputs(told, values=values)), TRUSTED)
    assert verdict.good
    assert states(verdict)["journal"] == "proved"


def test_a_bundle_from_before_the_runs_own_input_was_hidden_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was told by other rules, and its bytes are what they are."""
    secret = {"fields": {"pin": "secret"}}
    told = [replace(each, **secret) if isinstance(each, records.Decided) else each for each in story()]
    monkeypatch.setattr(evidence, "outline", partial(outline, calls_alone=True))
    before = bundle(inputs(told, values=True))
    monkeypatch.undo()
    now = bundle(inputs(told, values=True))
    assert before != now
    for data in (before, now):
        verdict = verify_bundle(data, TRUSTED)
        assert verdict.good
        assert states(verdict)["values"] == "proved"


def test_without_a_key_all_is_only_consistent() -> None:
    """It says in plain words that anyone could have made it."""
    verdict = verify_bundle(GOOD)
    assert verdict.good
    assert not verdict.trusted
    assert "proved" not in states(verdict).values()
    assert any("no public key was given" in claim.text and "anyone" in claim.text for claim in verdict.claims)


def test_a_bundle_of_a_run_that_goes_on_is_good_and_its_journal_not_bound() -> None:
    """Nothing binds a journal before its end."""
    live = replace(inputs().run, standing="running", ended_at=None)
    verdict = verify_bundle(bundle(inputs(story()[:-1]), run=live), TRUSTED)
    assert verdict.good
    assert states(verdict)["journal"] == "not proved"


def test_what_a_fork_inherited_is_not_proved_and_not_broken() -> None:
    """The receipts of what was done before the fork are in the other run's evidence."""
    fork = replace(inputs().run, attributes={"forked_from": "order-0"}, created_at=NOW + 10)
    verdict = verify_bundle(bundle(inputs([decided(CHARGE, "allow"), ended(journal())]), run=fork), TRUSTED)
    assert verdict.good
    assert any("done by run order-0 before the fork" in claim.text for claim in verdict.claims)


# -- one byte ----------------------------------------------------------------------------------------------------------


def test_every_single_byte_counts() -> None:
    """Whichever byte of the file is changed, it is not verified as good."""
    data = bytearray(GOOD)
    for at in range(len(data)):
        data[at] ^= 1
        assert not verify_bundle(bytes(data), None).good, at
        data[at] ^= 1
    assert bytes(data) == GOOD


@pytest.mark.parametrize("name", sorted(unpack(GOOD)))
def test_a_changed_byte_of_a_file_that_is_packed_anew_is_named(name: str) -> None:
    """Where the zip is whole again, the manifest names the file, or its signature breaks."""
    files = unpack(GOOD)
    original = files[name]
    step = 1 if name == "manifest.sig" else max(1, len(original) // 60)
    for at in range(0, len(original), step):
        changed = bytearray(original)
        changed[at] ^= 0x20
        told = broken(pack({**files, name: bytes(changed)}), None)
        assert ("manifest" if name.startswith("manifest") else f"file {name} was altered") in told or "read" in told, at


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


# -- signed anew -------------------------------------------------------------------------------------------------------


def test_a_bundle_signed_anew_with_another_key_is_caught() -> None:
    """A stranger who puts their own key into the bundle is not the operator."""
    line = [keys.published(STRANGER[0])]
    own = inputs()
    blocks = [make_block(None, audit(story(), size=99)[1], NOW, STRANGER[1])]
    forged = bundle(own, line=line, signer=STRANGER[1], blocks=blocks)
    assert verify_bundle(forged, None).good
    told = broken(forged)
    assert STRANGER[0].id in told
    assert "no endorsement leads there" in told


def test_a_stranger_behind_our_keys_is_caught() -> None:
    """A forged endorsement breaks the line of keys, and trust ends before it."""
    forged = replace(keys.published(STRANGER[0]), number=3, endorsement=SECOND[1].sign(b"not an endorsement"))
    told = broken(bundle(line=[*LINE, forged], signer=STRANGER[1]))
    assert f"key 3 ({STRANGER[0].id}) is not endorsed by key 2" in told
    assert "no endorsement leads there" in told


def test_a_swapped_key_is_caught() -> None:
    """Another public key under our key's id."""
    swapped = [replace(LINE[0], public=STRANGER[0].public), LINE[1]]
    told = broken(bundle(line=swapped))
    assert f"block 1 is signed by key {FIRST[0].id}, which is not known" in told
    assert f"key 1 is called {FIRST[0].id}" in told


def test_a_removed_key_is_caught() -> None:
    """The line of keys has no gap, and the signer's must be in it."""
    assert "which is not in the bundle" in broken(bundle(line=LINE[:1]))
    assert "key 1 is missing" in broken(bundle(line=LINE[1:]))


def test_a_newer_key_does_not_vouch_for_an_older() -> None:
    """Endorsements lead onwards only: the first block is by a key that the reader does not have."""
    told = broken(GOOD, [SECOND[0].public])
    assert FIRST[0].id in told
    assert broken(GOOD, [FIRST[0].public, SECOND[0].public]) == ""


def test_a_key_that_follows_ours_is_trusted() -> None:
    """After a rotation the reader's key still leads there."""
    third = pair(SECOND)
    assert verify_bundle(bundle(line=[*LINE, keys.published(third[0])], signer=third[1]), TRUSTED).trusted


@pytest.mark.parametrize("index", range(9))
def test_a_changed_entry_is_named_however_the_bundle_is_signed(index: int) -> None:
    """Even the holder of the key cannot change what a block sealed."""
    own = inputs()
    changed = list(own.entries)
    changed[index] = replace(changed[index], at=NOW + 1)
    assert f"entry {changed[index].position} " in broken(bundle(own, entries=changed))


def test_reordered_entries_are_named() -> None:
    """The order is the chain's."""
    own = inputs()
    swapped = [own.entries[1], own.entries[0], *own.entries[2:]]
    assert "entry 0 is out of its order, after entry 2" in broken(bundle(own, entries=swapped))
    moved = [replace(own.entries[1], position=0), replace(own.entries[0], position=2), *own.entries[2:]]
    assert "entry 0 " in broken(bundle(own, entries=moved))


def test_a_removed_block_is_named_by_its_entries() -> None:
    """An entry that no block holds is not proved by anything."""
    own = inputs()
    assert "no block holds entry 6" in broken(bundle(own, blocks=[own.blocks[0], own.blocks[2]]))
    assert "no block holds entry 12" in broken(bundle(own, blocks=own.blocks[:2]))


def test_reordered_and_foreign_blocks_are_named() -> None:
    """Blocks stand in their order, and one that follows another by number follows it by hash."""
    own = inputs()
    assert "block 1 is out of its order" in broken(bundle(own, blocks=[own.blocks[1], own.blocks[0], own.blocks[2]]))
    foreign = replace(own.blocks[1], previous=bytes(32))
    foreign = replace(foreign, signature=SECOND[1].sign(message_of(foreign)))
    assert "block 2 was altered" in broken(bundle(own, blocks=[own.blocks[0], foreign, own.blocks[2]]))


# -- a cheating operator -----------------------------------------------------------------------------------------------


def without(kind: type[records.Record], number: int = 0) -> bytes:
    """The bundle without one entry of a kind, everything else sealed and signed as it should be."""
    own = inputs()
    found = [entry for entry in own.entries if isinstance(records.decode(entry.body), kind)]
    left = [entry for entry in own.entries if entry is not found[number]]
    return bundle(own, entries=left)


@pytest.mark.parametrize(
    ("data", "told"),
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
def test_a_left_out_entry_is_missed(data: bytes, told: str) -> None:
    """Journal, decisions, approvals and receipts need each other: none can be left out, also not by the signer."""
    assert told in broken(data)


def told_as(*changed: tuple[int, records.Record]) -> bytes:
    told = story()
    for at, record in changed:
        told[at] = record
    return bundle(inputs(told))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (told_as((0, decided(CHARGE, "deny"))), "entry 2, receipt receipt-charge of charge: nothing allowed"),
        (told_as((1, replace(receipted(CHARGE), proposal="dd" * 32))), "nothing allowed or approved this proposal"),
        (told_as((1, replace(receipted(CHARGE), state="failed"))), "has no receipt of a success"),
        (told_as((0, receipted(CHARGE)), (1, decided(CHARGE, "allow"))), "only entry 2, after it, allowed"),
        (told_as((4, asked("bob", "requested"))), "two different people"),
        (told_as((4, asked("eve", "requested", "delegated"))), "two different people"),
        (told_as((4, asked("ann <script>", "requested"))), "who started the run, approved it"),
        (told_as((8, replace(ended(journal()), head="00" * 32))), "binds: the last hash differs"),
        (told_as((8, replace(ended(journal()), version=3))), "the number of events differs"),
        (told_as((8, replace(ended(journal()), standing="failed"))), "the status differs"),
    ],
)
def test_a_story_that_does_not_hold_is_broken(data: bytes, told: str) -> None:
    """An act without leave, an approval by too few, a journal that is another: sealed and signed, and still caught."""
    assert told in broken(data)


def approving(*said: records.Record) -> bytes:
    """The bundle, with this said of the mail's approval, its receipt after it, and nothing else changed."""
    told = story()
    return bundle(inputs([*told[:3], *said, *told[6:]]))


REQUESTED = asked("", "requested", "requested")
ALLOWED = decided(MAIL, "allow", "approval", task="task-1")
ANN, BOB = asked("ann", "requested"), asked("bob", "approved")


@pytest.mark.parametrize(
    ("data", "told"),
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
def test_what_is_allowed_by_an_approval_was_approved_before_it(data: bytes, told: str) -> None:
    """A decision that names a task is leave only where enough people had approved that very call by then."""
    assert told in broken(data)


def test_an_act_without_the_approval_that_allowed_it_is_without_leave() -> None:
    """Neither the decision nor what was said after it makes its receipt good."""
    told = broken(approving(REQUESTED, ALLOWED))
    assert "receipt receipt-mail of mail: nothing allowed or approved this proposal" in told


def test_an_approval_by_all_whom_it_needs_is_leave() -> None:
    """As every approved act of a worker is told."""
    assert broken(approving(REQUESTED, ANN, BOB, ALLOWED)) == ""


def test_one_person_is_enough_where_one_is_asked() -> None:
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


def test_values_that_are_others_are_caught() -> None:
    """The bytes must give the hashes: altered, cut and prolonged ones do not."""
    segments = journal()
    worse = replace(segments[1], events=segments[1].events.replace(b"done", b"gone"))
    own = inputs(values=True)
    altered = bundle(own, journals=[Journal(0, [segments[0], worse, *segments[2:]])])
    assert "the segment at sequence 4 of generation 0 does not give its hash" in broken(altered)
    blob = bundle(own, blobs={bytes(32): b"not this"})
    assert f"file blobs/{'00' * 32} is not the value of that hash" in broken(blob)


def test_sizes_that_go_back_are_refused() -> None:
    """Else a few bytes could be read again and again, and each time kept."""
    own = bundle(inputs(values=True))
    (line,) = msgspec.json.decode(unpack(own)["journal.json"], type=list[JournalLine])
    back = replace(line.segments[0], size=-line.segments[0].size)
    worse = replace(line, segments=[back, *line.segments[1:]])
    data = pack({**unpack(own), "journal.json": msgspec.json.encode([worse])})
    assert "a segment of generation 0 has a size below nothing" in broken(data)


@pytest.mark.parametrize("count", [10**14, 10**30, 7, -1, 0])
def test_a_length_in_the_file_decides_nothing_about_memory(count: int) -> None:
    """A segment that says it has more events than can be counted is broken, at once."""
    data = resigned(edit("journal.json", b'"count": 4', b'"count": %d' % count))
    tracemalloc.start()
    try:
        assert "the journal of generation 0 lacks events" in broken(data)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_entries_of_another_run_are_refused() -> None:
    """Evidence of one run is not made of another's entries."""
    _, everything = audit(story())
    foreign: list[AuditEntry] = sorted([*inputs().entries, everything[1]], key=lambda entry: entry.position or 0)
    assert f"entry 1 is not one of run {RUN}" in broken(bundle(entries=foreign))


@pytest.mark.parametrize(
    ("change", "told"),
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
    change: Callable[[dict[str, bytes]], None], told: str
) -> None:
    """The verifier computes for itself."""
    assert told in broken(resigned(change))


def test_a_summary_that_says_something_else_is_not_believed() -> None:
    """The page may be another version's; what counts are the entries."""
    verdict = verify_bundle(resigned(edit("summary.html", b"deny", b"allow")), TRUSTED)
    assert states(verdict)["summary"] == "not proved"


def test_a_format_of_the_future_is_told() -> None:
    """It is not guessed at."""
    files = unpack(GOOD)
    files["manifest.json"] = files["manifest.json"].replace(b"holdfast.evidence.2", b"holdfast.evidence.9")
    assert "'holdfast.evidence.9'" in broken(pack(files))


# -- what earlier versions made ----------------------------------------------------------------------------------------

OLD = Path(__file__).with_name("golden") / "evidence_1.zip"


def test_a_bundle_of_the_first_format_is_proved() -> None:
    """Its key is in it: whoever kept such a bundle kept that key, too."""
    data = OLD.read_bytes()
    first = msgspec.json.decode(unpack(data)["keys.json"], type=list[evidence.KeyLine])[0]
    verdict = verify_bundle(data, [bytes.fromhex(first.public)])
    assert verdict.good
    assert verdict.trusted
    assert states(verdict) == states(verify_bundle(GOOD, TRUSTED))


def of_first_format(**changed: object) -> bytes:
    """A bundle of the first format, with some inputs changed and signed all the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "SECOND_FORMAT", evidence.FIRST_FORMAT)
        return bundle(inputs(of_first_form=3), **changed)


def test_a_bundle_of_the_first_format_is_no_less_strict() -> None:
    """However it is signed: a changed entry, its digest, a block's place, its signature."""
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
    """Whoever verifies such a bundle with an earlier version must come to the same answer."""
    assert "has no blocks of another form" in broken(of_first_format(blocks=inputs().blocks))


# -- blocks in part ----------------------------------------------------------------------------------------------------


def shown(index: int, **changed: object) -> bytes:
    """The bundle with something of what it shows of one block changed, the manifest signed anew."""

    def change(files: dict[str, bytes]) -> None:
        lines = msgspec.json.decode(files["blocks.json"], type=list[evidence.BlockLine])
        lines[index] = replace(lines[index], **changed)
        files["blocks.json"] = msgspec.json.encode(lines)

    return resigned(change)


CHAINED, TREE, _ = msgspec.json.decode(unpack(GOOD)["blocks.json"], type=list[evidence.BlockLine])
DIGESTS = "was altered: its digests do not lead"


@pytest.mark.parametrize(
    ("index", "changed", "told"),
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
def test_what_a_block_shows_cannot_be_changed(index: int, changed: dict[str, object], told: str) -> None:
    """Not by the holder of the manifest's key either: the block's own signature is over its head and place."""
    claims = broken(shown(index, **changed)).splitlines()
    assert any(claim.startswith(f"block {index + 1} ") and told in claim for claim in claims)


@pytest.mark.parametrize("index", [0, 1])
def test_an_entry_that_was_changed_with_its_digest_is_caught(index: int) -> None:
    """The digest in the bundle is not the block's word for it: the signed head is."""
    own = inputs()
    at = own.blocks[index].first
    changed = [replace(entry, at=NOW + 1) if entry.position == at else entry for entry in own.entries]
    told = {entry.position: digest(entry).hex() for entry in changed}

    def change(files: dict[str, bytes]) -> None:
        files.update(unpack(bundle(own, entries=changed)))
        lines = msgspec.json.decode(files["blocks.json"], type=list[evidence.BlockLine])
        lines[index] = replace(lines[index], digests=[told[at], *lines[index].digests[1:]])
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
def test_a_block_that_cannot_be_read_is_told(index: int, changed: dict[str, object]) -> None:
    """It is refused before anything is computed from it; and there is one way to show something, not several."""
    assert "cannot be read" in broken(shown(index, **changed))


def test_an_entry_that_a_block_shows_must_be_there() -> None:
    """Whoever leaves out an entry must leave it out of its block, too; then what needs it misses it."""

    def change(files: dict[str, bytes]) -> None:
        lines = files["entries.jsonl"].splitlines(keepends=True)
        files["entries.jsonl"] = b"".join(lines[:4] + lines[5:])

    assert "entry 8 is missing: block 2 shows that there is one" in broken(resigned(change))


def test_an_entry_that_its_block_does_not_show_is_named() -> None:
    """Being among a block's positions proves nothing."""
    less = excerpt(inputs().blocks[1], TREE.positions[1:])
    told = broken(
        shown(
            1,
            positions=list(less.digests),
            digests=[each.hex() for each in less.digests.values()],
            hashes=[each.hex() for each in less.hashes],
        )
    )
    assert f"entry {TREE.positions[0]} is not shown to be in block 2" in told
    assert "block 2 was altered" not in told


def test_many_entries_in_many_blocks_are_checked_in_time() -> None:
    """However large a bundle is, checking it takes as long as it is large, and not the square of that."""
    blocks, entries = [], []
    line = inputs().entries[0]
    for at in range(3000):
        entries.append(replace(line, position=at))
        blocks.append(make_block(blocks[-1] if blocks else None, entries[-1:], NOW, SECOND[1]))
    data = bundle(entries=entries, blocks=blocks)
    began = time.process_time()
    assert "as they were sealed" in "".join(claim.text for claim in verify_bundle(data, TRUSTED).claims)
    assert time.process_time() - began < 3
