"""A bundle of evidence: deterministic, complete, without values unless they are wanted, and safe to open."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from typing import Any

import cbor2
import pytest
from msgspec.structs import replace

from holdfast.audit import evidence, records
from holdfast.audit.bundles import pack, unpack
from holdfast.audit.chain import digest, make_block
from holdfast.errors import InvalidRequest
from holdfast.journal import events as e
from holdfast.journal.codec import GENESIS
from holdfast.journal.payload import CONTINUED, Payload
from holdfast.runs.segments import seal
from tests.unit.audit.governed import (
    CHARGE,
    LINE,
    MAIL,
    NOW,
    RUN,
    SECOND,
    bundle,
    decided,
    entry,
    inputs,
    journal,
    receipted,
    story,
)


def files(data: bytes) -> dict[str, bytes]:
    """The files as any zip program sees them."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def content(name: str, data: bytes | None = None) -> Any:
    return json.loads(files(data or bundle())[name])


def test_the_same_inputs_give_the_same_bytes() -> None:
    """No clock, no order of a dictionary, no library's version is in it."""
    assert bundle() == bundle()


def test_any_zip_program_opens_it() -> None:
    """It is a plain zip with sorted names, and our reader and the standard one agree."""
    data = bundle()
    assert files(data) == unpack(data)
    assert list(files(data)) == sorted(files(data))


def test_it_has_all_its_files() -> None:
    """Those that the manifest lists, the manifest and its signature."""
    found = files(bundle())
    listed = {file["name"]: file for file in json.loads(found["manifest.json"])["files"]}
    assert set(found) == {*listed, "manifest.json", "manifest.sig"}
    assert set(listed) == {
        "journal.json",
        "entries.jsonl",
        "blocks.json",
        "keys.json",
        "costs.json",
        "summary.html",
    }
    for name, file in listed.items():
        assert (file["size"], file["sha256"]) == (len(found[name]), hashlib.sha256(found[name]).hexdigest())


def test_the_manifest_names_its_run() -> None:
    """Format, run, signer and time."""
    manifest = content("manifest.json")
    assert manifest["format"] == "holdfast.evidence.2"
    assert manifest["signer"] == LINE[1].id
    assert manifest["values"] is False
    assert (manifest["run"]["id"], manifest["run"]["standing"], manifest["run"]["ended"]) == (RUN, "completed", True)


def test_bodies_survive_byte_for_byte_with_their_positions() -> None:
    """The chain is over exact bytes."""
    lines = [json.loads(line) for line in files(bundle())["entries.jsonl"].splitlines()]
    assert [(line["position"], line["body"].encode()) for line in lines] == [
        (entry.position, entry.body) for entry in inputs().entries
    ]


def test_it_does_not_grow_with_the_entries_of_others() -> None:
    """Of a block of a thousand entries it shows its own, and about ten hashes for each."""
    record = records.Operated(NOW, "pause", "eve", run="other")
    others = [entry(record, at, at, "other") for at in range(1000)]
    mine = inputs().entries[:3]
    for place, own in zip((0, 500, 999), mine, strict=True):
        others[place] = replace(own, position=place)
    block = make_block(None, others, NOW, SECOND[1])
    own = [others[place] for place in (0, 500, 999)]
    (line,) = content("blocks.json", bundle(entries=own, blocks=[block]))
    assert line["positions"] == [0, 500, 999]
    assert line["digests"] == [digest(each).hex() for each in own]
    assert 9 <= len(line["hashes"]) <= 30


def test_no_value_is_in_it() -> None:
    """Inputs and results are in it by type, size and hash; other runs' entries by hashes alone."""
    data = bundle()
    assert b"secrets" not in data
    assert b'"other"' not in data
    assert b"pause" not in data
    (generation,) = content("journal.json", data)
    ends = generation["segments"][-1]["events"][-1]
    expected = {"type": "text", "size": 8, "sha256": hashlib.sha256(b"\x67secrets").hexdigest()}
    assert (ends["event"], ends["payload"]) == ("ExecutionCompleted", expected)


def test_the_outline_has_each_event() -> None:
    """Sequence, time, type, promise, kind, name, attempt and outcome."""
    (generation,) = content("journal.json")
    events = [event for segment in generation["segments"] for event in segment["events"]]
    assert [event["sequence"] for event in events] == list(range(generation["version"]))
    scheduled, completed = events[6], events[9]
    assert (scheduled["event"], scheduled["kind"], scheduled["name"]) == ("InvokeScheduled", "action", "mail")
    assert scheduled["payload"]["type"] == "list"
    assert (completed["event"], completed["promise"], completed["ok"]) == ("InvokeCompleted", str(MAIL), True)
    assert completed["attempt"] == 1
    refused = [event for event in events if event.get("ok") is False]
    assert [(event["event"], event["error"]) for event in refused] == [("InvokeCompleted", "PolicyDenied")]
    assert generation["head"] == journal()[-1].head.hex()


def test_an_input_with_a_secret_has_no_hash() -> None:
    """A secret could be guessed from its hash. The inputs of other actions have a hash."""
    (generation,) = content("journal.json")
    events = [event for segment in generation["segments"] for event in segment["events"]]
    action_inputs = {event["promise"]: event["payload"] for event in events if event.get("kind") == "action"}
    assert action_inputs[str(CHARGE)]["sha256"] is None
    assert action_inputs[str(MAIL)]["sha256"] is not None


def payloads(event: str, recorded: list[records.Record], **changed: Any) -> list[Any]:
    """The payloads of one kind of event, in the outline."""
    journals = content("journal.json", bundle(inputs(recorded), **changed))
    lines = [line for journal in journals for segment in journal["segments"] for line in segment["events"]]
    return [line["payload"] for line in lines if line["event"] == event]


def test_the_input_of_a_run_with_a_secret_call_has_no_hash() -> None:
    """Secrets mostly come with the run's own input. Without secrets the input has its hash."""
    assert payloads("ExecutionStarted", story()) == [{"type": "list", "size": None, "sha256": None}]
    (payload,) = payloads("ExecutionStarted", story()[2:])
    assert payload == {"type": "list", "size": 3, "sha256": hashlib.sha256(b"\x82\x80\xa0").hexdigest()}


def test_the_input_of_the_next_generation_is_an_input_too() -> None:
    """A generation's result has no hash where it hands a secret on to the next generation."""
    started = e.ExecutionStarted("digest", Payload(b"\x82\x80\xa0"), None, "acme~order-1")
    turn: list[tuple[int, e.Event]] = [
        (NOW, started),
        (NOW, e.ExecutionCompleted(Payload(b"\x82\x81\x01\xa0", CONTINUED))),
    ]
    journals = [evidence.Journal(0, [seal(turn, 0, GENESIS, {})]), evidence.Journal(1, journal())]
    continued, completed = payloads("ExecutionCompleted", story(), journals=journals)
    assert continued == {"type": CONTINUED, "size": None, "sha256": None}
    assert completed["sha256"] is not None
    assert payloads("ExecutionCompleted", story()[2:], journals=journals)[0]["sha256"] is not None


def test_a_call_refused_for_its_arguments_does_not_show_its_secret() -> None:
    """It has no proposal. Its decision names the secret arguments, and its input has no hash."""
    fields = {"card": "secret"}
    refused = replace(decided(MAIL, "deny", "schema"), proposal="", fields=fields, rule=None, policy=None)
    scheduled = payloads("InvokeScheduled", [refused])
    assert [payload["sha256"] is None for payload in scheduled] == [False, True, False]
    assert [payload["size"] is None for payload in scheduled] == [False, True, False]


def test_values_are_added_where_they_are_wanted() -> None:
    """The raw segments, end to end, and the large payloads under their hashes."""
    blob = b"large" * 9
    data = bundle(inputs(values=True), blobs={hashlib.sha256(blob).digest(): blob})
    packed = files(data)
    assert packed["journal/0.cbor"] == b"".join(segment.events for segment in journal())
    assert packed[f"blobs/{hashlib.sha256(blob).hexdigest()}"] == blob
    assert cbor2.loads(packed["journal/0.cbor"]) is not None


def test_costs_are_summed_per_provider_and_model() -> None:
    """Texts name the sum, numbers are added, in any order of the receipts."""
    words = {"provider": "openbank", "model": "v1"}
    amounts = {"a": 1e16, "b": 1.0, "c": -1e16}
    costly = [replace(receipted(CHARGE), receipt=name, cost={**words, "amount": n}) for name, n in amounts.items()]
    other = replace(receipted(CHARGE), receipt="x", cost={"provider": "openbank", "model": "v2", "tokens": 7})
    for order in ([*costly, other], [other, costly[1], costly[2], costly[0]]):
        found = evidence.costs(order)
        assert [(cost.of, cost.sums) for cost in found] == [
            ({"model": "v1", "provider": "openbank"}, {"amount": 1.0, "receipts": 3}),
            ({"model": "v2", "provider": "openbank"}, {"receipts": 1, "tokens": 7}),
        ]


def test_an_attempt_costs_once_and_a_reused_receipt_nothing() -> None:
    """A later outcome replaces the first one. A reused result was not paid again."""
    unknown = replace(receipted(CHARGE), state="unknown")
    reused = replace(receipted(MAIL), state="reused")
    (cost,) = evidence.costs([unknown, receipted(CHARGE), reused])
    assert cost.sums == {"amount": 0.1, "receipts": 1.0}


def test_the_summary_shows_texts_from_outside_and_runs_none_of_them() -> None:
    """Every text from outside is escaped; the page loads nothing."""
    page = files(bundle())["summary.html"].decode()
    assert "&lt;b&gt;because&lt;/b&gt;" in page
    assert "<b>because" not in page
    assert "ann &lt;script&gt;" in page
    for word in ("needs_approval", "deny", "receipt", "bob", "openbank", "What it does not prove"):
        assert word in page
    assert "http" not in page
    assert "<script" not in page


def test_a_run_without_entries_has_a_bundle_too() -> None:
    """Evidence of an ungoverned run has its journal alone."""
    data = bundle(replace(inputs(), entries=[], blocks=[], run=replace(inputs().run, governed=False)))
    assert content("costs.json", data) == []
    assert files(data)["entries.jsonl"] == b""


def test_an_earlier_generation_has_the_standing_of_its_recorded_end() -> None:
    """The row is about the present generation alone."""
    later = replace(inputs().run, generation=1, standing="running", ended_at=None)
    run = content("manifest.json", bundle(run=later))["run"]
    assert (run["generation"], run["standing"], run["ended"]) == (0, "completed", True)


def test_a_zip_is_read_only_as_it_was_written() -> None:
    """A zip that another program packed of the same files is not the bundle."""
    names = {"a": b"1", "b/c": b"22"}
    assert unpack(pack(names)) == names
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        for name, data in names.items():
            archive.writestr(name, data)
    for bad in (b"", b"PK", other.getvalue(), pack(names) + b"\0", pack(names)[:-1], b"\0" + pack(names)):
        with pytest.raises(InvalidRequest):
            unpack(bad)


def test_every_record_of_the_story_is_of_its_kind() -> None:
    """The synthetic run has a record of each kind that every governed run has."""
    kinds = {records.kind_of(record) for record in story()}
    assert kinds == {"decision", "approval", "receipt", "ended"}
