"""Golden journals: every journal that was once written still loads, verifies and replays. ``record`` makes them."""

from __future__ import annotations

import cbor2
import pytest
from msgspec.structs import replace

from holdfast.errors import StoreCorrupt
from holdfast.journal import events as e
from holdfast.journal.codec import decode_segment, encode_segment
from holdfast.journal.ledger import Ledger
from holdfast.journal.payload import CBOR
from holdfast.runs.segments import unseal
from tests.journals import programs, record
from tests.journals.golden import FOLDER, Golden, all_of_them, listing, status_name
from tests.tables import table

GOLDEN = all_of_them()

every_journal = table("golden", GOLDEN.values(), ids=lambda golden: golden.about)


@every_journal
def test_an_old_journal_loads_and_its_chain_holds(golden: Golden) -> None:
    """The bytes of an event never change, and every segment is chained to all before it."""
    entries = golden.entries()
    assert [entry.sequence for entry in entries] == list(range(len(entries)))
    assert len(entries) == sum(segment.count for segment in golden.segments)


@every_journal
def test_an_old_journal_reads_as_it_did(golden: Golden) -> None:
    """People see the same text of a journal now as then."""
    entries = golden.entries()
    assert listing(entries) == golden.listing
    assert golden.listing[-1].endswith(golden.end)


@every_journal
def test_an_old_journal_is_written_again_with_the_same_bytes(golden: Golden) -> None:
    """Encoding is canonical: equal journals are equal bytes, so a hash over them means something."""
    for segment in golden.stored():
        entries = decode_segment(segment.events, golden.id(), segment.first)
        assert encode_segment([(entry.timestamp, entry.event) for entry in entries], segment.at) == segment.events


@every_journal
def test_an_old_journal_keeps_every_law(golden: Golden) -> None:
    """A later law may not refuse a journal that was lawful, and the status is the fold over the events."""
    ledger = Ledger(golden.id())
    ledger.extend(golden.entries())
    assert status_name(ledger.status) == golden.status


@every_journal
def test_an_old_journal_replays_to_where_it_stood(golden: Golden) -> None:
    """Replay is a fixed point: the same code finds the same status, and has nothing to add."""
    execution = golden.rebuild()
    assert status_name(execution.ledger.status) == golden.status
    assert execution.advance([], golden.entries()[-1].timestamp, resume=False).events == []
    assert execution.ended == (golden.status in ("completed", "failed", "cancelled"))
    execution.program.close()


@every_journal
def test_an_old_journal_has_the_result_it_had(golden: Golden) -> None:
    """A result is read from the journal alone."""
    last = golden.entries()[-1].event
    completed = isinstance(last, e.ExecutionCompleted) and last.result.codec == CBOR
    assert (cbor2.loads(last.result.data) if completed else None) == golden.result


@every_journal
def test_an_altered_journal_does_not_load(golden: Golden) -> None:
    """One byte of one event, a hash, or a missing segment: each breaks the chain."""
    stored = golden.stored()
    for index, segment in enumerate(stored):
        events = bytes([segment.events[0], *segment.events[1:-1], segment.events[-1] ^ 1])
        head = bytes([segment.head[0] ^ 1, *segment.head[1:]])
        for altered in (replace(segment, events=events), replace(segment, head=head)):
            with pytest.raises(StoreCorrupt):
                unseal([*stored[:index], altered, *stored[index + 1 :]], golden.id(), {})
        if index + 1 < len(stored):
            with pytest.raises(StoreCorrupt):
                unseal([*stored[:index], *stored[index + 1 :]], golden.id(), {})


def test_every_event_occurs_in_a_golden_journal() -> None:
    """No event can lose its old form unnoticed."""
    found = {type(entry.event) for golden in GOLDEN.values() for entry in golden.entries()}
    assert [event.__name__ for event in e.EVENTS if event not in found] == []


def test_every_await_kind_and_invoke_kind_occurs_in_a_golden_journal() -> None:
    """Nor can the parts of an event that have several kinds."""
    events = [entry.event for golden in GOLDEN.values() for entry in golden.entries()]
    assert {type(event.kind) for event in events if isinstance(event, e.ExecutionAwaiting)} == {
        e.Single,
        e.Any,
        e.All,
        e.Signal,
    }
    invoked = {event.kind for event in events if isinstance(event, e.InvokeScheduled)}
    assert invoked >= {"step", "workflow", "detached", "signal"}


def test_every_status_in_which_a_journal_can_rest_is_golden() -> None:
    """Running and cancelling are within a turn; a stored journal rests in one of these."""
    assert {golden.status for golden in GOLDEN.values()} == {"blocked", "completed", "failed", "cancelled"}


def test_large_payloads_of_golden_journals_live_in_blobs() -> None:
    """The journal holds their digest, the store their bytes."""
    assert len(GOLDEN["large"].data()) >= 3
    assert all(len(data) > programs.LARGE for data in GOLDEN["large"].data().values())


def test_every_scenario_is_recorded_and_recording_overwrites_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Golden journals are added, never changed."""
    before = {path: path.read_bytes() for path in FOLDER.glob("*.json")}
    assert [name for name in record.SCENARIOS if name not in GOLDEN] == []
    record.main()
    assert {path: path.read_bytes() for path in FOLDER.glob("*.json")} == before
    assert capsys.readouterr().out == ""
