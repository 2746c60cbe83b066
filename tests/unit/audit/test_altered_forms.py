"""The claim ``forms`` of a bundle: an operator who holds the key alters a form's entries, and the claim is broken."""

from __future__ import annotations

from collections.abc import Sequence

import cbor2
import pytest
from msgspec.structs import replace

from holdfast.audit import records
from holdfast.audit.check.bundle import verify_bundle
from holdfast.audit.check.claims import Claim
from holdfast.audit.check.task_accounts import REQUESTED
from holdfast.audit.evidence import Inputs, Journal
from holdfast.audit.records import Asked, of_bytes
from holdfast.audit.task_changes import expired, put
from holdfast.journal import events as e
from holdfast.journal.payload import ONCE, Err, Failure, Ok, Payload
from holdfast.store import protocol as p
from holdfast.tasks.answers import COMPLETED, answer
from holdfast.tasks.questions import AskingRun, Question, task_of, write
from tests.unit.audit.governed import FIRST, NOW, ROOT, RUN, TENANT, audit, bundle, ended, run_row, sealed

FORM = ROOT.child(0)
QUESTION = write({"total": 12}, Question({"type": "object"}, expire=3_600_000_000))
ANSWER = cbor2.dumps({"decision": "pay"})
GIVEN = Ok(Payload(ANSWER))
OTHER = "ab" * 32


def task(lease: str = "ann~1") -> p.TaskRow:
    """The task that asks the form."""
    asker = AskingRun(TENANT, RUN, 0, ROOT.root, FORM.path[-1], str(FORM), "claims", "fred", lease)
    return task_of(asker, "review claim", QUESTION, NOW)


def entries_of(*changes: p.PutTask) -> list[Asked]:
    """The audit's entries of these changes."""
    notes = [records.decode(note.body) for change in changes for note in change.attached if isinstance(note, p.Note)]
    return [record for record in notes if isinstance(record, Asked)]


def answered(asked: p.TaskRow) -> list[Asked]:
    done = answer(asked, "ann", COMPLETED, "", NOW + 1, ANSWER)
    return entries_of(put(asked, REQUESTED, NOW), put(done, COMPLETED, NOW + 1, "ann"))


ASKED, DONE = answered(task())


def claim(entries: Sequence[Asked], outcome: Ok | Err = GIVEN, forked: int | None = None) -> Claim:
    """What verification says of the forms in the bundle of a run with these entries, sealed and signed as always."""
    turns: list[list[e.Event]] = [
        [
            e.ExecutionStarted("digest", Payload(b"\x82\x80\xa0"), None, "acme~order-1"),
            e.InvokeScheduled(FORM, "form", "review claim", QUESTION, ONCE),
            e.ExecutionAwaiting((FORM,), e.Single()),
        ],
        [e.InvokeCompleted(FORM, outcome, 1), e.ExecutionResumed(), e.ExecutionCompleted(Payload(b"\xf6"))],
    ]
    segments = sealed(turns)
    row = run_row(segments)
    if forked is not None:
        row = replace(row, attributes={"forked_from": "order-0"}, created_at=forked)
    blocks, chain = audit([*entries, ended(segments)])
    own = [entry for entry in chain if entry.run == RUN]
    verdict = verify_bundle(bundle(Inputs(row, 0, [Journal(0, segments)], own, blocks)), [FIRST[0].public])
    others = [each.text for each in verdict.claims if each.about != "forms" and each.state == "broken"]
    assert others == []
    found, *_ = [each for each in verdict.claims if each.about == "forms"]
    assert verdict.good is (found.state != "broken")
    return found


def test_a_form_whose_entries_nobody_altered_is_proved() -> None:
    """The run continued with the answer that the entries record."""
    assert claim([ASKED, DONE]) == Claim("proved", "forms", "all forms (1) gave the answer of a person, or expired.")


def test_a_form_that_expired_is_proved() -> None:
    """The entry of the expiry is enough: nobody answered."""
    over = entries_of(put(task(), REQUESTED, NOW), expired(task(), NOW + 1))
    assert claim(over, Err(Failure("TaskExpired", "nobody answered"))).state == "proved"


ANOTHER_QUESTION = (
    f"form 'review claim' ({FORM}) was answered in task {DONE.task}, and its entries do not show that the person who "
    "answered saw the form and the values that were asked."
)
NO_ANSWER = f"form 'review claim' ({FORM}) gave a value, and no entry records it as a person's answer."


@pytest.mark.parametrize(
    "entries",
    [
        [ASKED, replace(DONE, answer=of_bytes("result", b"\xf5"))],
        [ASKED, replace(DONE, answer=None)],
        [ASKED, replace(DONE, answer=records.Metadata("result"))],
        [ASKED, replace(DONE, verdict="claimed", status="requested")],
        [ASKED, replace(DONE, promise=str(ROOT.child(1)))],
        [ASKED],
        [],
    ],
    ids=["another answer", "no answer", "no hash", "not completed", "of another call", "only asked", "no entries"],
)
def test_an_altered_answer_breaks_the_claim(entries: Sequence[Asked]) -> None:
    """The run must have continued with a value that a person answered."""
    assert claim(entries) == Claim("broken", "forms", NO_ANSWER)


def with_hash(entry: Asked, field: str) -> Asked:
    """The entry, with another hash in this field."""
    if field == "proposal":
        return replace(entry, proposal=OTHER)
    return replace(entry, **{field: replace(getattr(entry, field), sha256=OTHER)})


@pytest.mark.parametrize("field", ["form", "shown", "proposal"])
@pytest.mark.parametrize("altered", [ASKED, DONE], ids=["when it was asked", "when it was answered"])
def test_an_altered_form_or_shown_value_breaks_the_claim(altered: Asked, field: str) -> None:
    """A person must be asked and shown the same when the task is made and when it is answered."""
    entries = [with_hash(entry, field) if entry is altered else entry for entry in (ASKED, DONE)]
    assert claim(entries) == Claim("broken", "forms", ANOTHER_QUESTION)


@pytest.mark.parametrize(
    "entries",
    [
        [replace(ASKED, form=None), DONE],
        [replace(ASKED, form=None), with_hash(DONE, "shown")],
        [replace(ASKED, form=None), replace(DONE, shown=None)],
        [ASKED, replace(DONE, form=None)],
        [replace(ASKED, form=None), replace(DONE, form=None)],
        [replace(ASKED, shown=None), replace(DONE, shown=None)],
        [replace(entry, form=records.Metadata("form")) for entry in (ASKED, DONE)],
        [replace(entry, shown=records.Metadata("unreadable")) for entry in (ASKED, DONE)],
        [DONE],
    ],
)
def test_a_hash_that_was_taken_away_breaks_the_claim(entries: Sequence[Asked]) -> None:
    """Without both entries and all hashes nobody can show what the person was asked."""
    assert claim(entries) == Claim("broken", "forms", ANOTHER_QUESTION)


def test_only_the_task_that_was_answered_must_ask_the_same() -> None:
    """A form is asked again in another task after a crash: that one may differ."""
    earlier = replace(answered(task("bob~1"))[0], form=of_bytes("form", b"another"))
    assert claim([earlier, ASKED, DONE]).state == "proved"


def test_an_expiry_that_no_entry_records_breaks_the_claim() -> None:
    """Even if a person did answer: the run then continued without that answer."""
    expiry = Err(Failure("TaskExpired", "nobody answered"))
    text = f"form 'review claim' ({FORM}) expired, and no entry records that."
    assert claim([ASKED], expiry) == Claim("broken", "forms", text)
    assert claim([ASKED, DONE], expiry) == Claim("broken", "forms", text)


def test_an_answer_from_before_a_fork_is_not_proved_and_not_broken() -> None:
    """Its entries are in the evidence of the run that was forked; an answer after the fork needs its own."""
    inherited = claim([], forked=NOW + 10)
    assert (inherited.state, "order-0 before the fork" in inherited.text) == ("not proved", True)
    assert claim([], forked=NOW) == Claim("broken", "forms", NO_ANSWER)
