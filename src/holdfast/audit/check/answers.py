"""Checks, in a bundle with values, that people saw what the entries say they saw.

The journal has the question: its title, its form and the shown values. Their hashes must be those of the task's first
entry. The answer names files: they must be those of the entry, and be in the bundle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import cbor2

from holdfast.audit import records
from holdfast.audit.check.claims import Findings
from holdfast.audit.check.task_accounts import REQUESTED, named_files
from holdfast.errors import HoldfastError
from holdfast.journal import events as e
from holdfast.journal.cbor import canonical
from holdfast.journal.forms import FORM
from holdfast.journal.payload import Ok, Payload
from holdfast.tasks import questions
from holdfast.tasks.answers import COMPLETED
from holdfast.tasks.forms import digest

Blobs = Mapping[bytes, bytes]


def check_answers(
    entries: Iterable[e.Entry],
    recorded: Sequence[tuple[int, records.Record]],
    blobs: Blobs,
    findings: Findings,
) -> None:
    """Check all forms of a run by their values."""
    asked: dict[str, list[records.Asked]] = {}
    for _, record in recorded:
        if isinstance(record, records.Asked) and record.subject == FORM:
            asked.setdefault(record.promise, []).append(record)
    problems = list(_problems(entries, asked, blobs))
    for problem in dict.fromkeys(problems):
        findings.broken("answers", problem)
    if asked and not problems:
        findings.proved("answers", "all forms show and ask by the journal what they do by the entries, files included.")


def _problems(entries: Iterable[e.Entry], asked: Mapping[str, Sequence[records.Asked]], blobs: Blobs) -> Iterator[str]:
    forms: set[str] = set()
    for entry in entries:
        match entry.event:
            case e.InvokeScheduled(kind=kind, function_name=title, input=input, promise_id=promise) if kind == FORM:
                forms.add(str(promise))
                requested = [each for each in asked.get(str(promise), ()) if each.verdict == REQUESTED]
                if requested and not _is_question(title, _hydrated(input, blobs), requested):
                    yield f"form {title!r} ({promise}) shows or asks something else by the journal than by its entry."
            case e.InvokeCompleted(promise_id=promise, result=Ok(value=value)) if str(promise) in forms:
                completed = [each for each in asked.get(str(promise), ()) if each.verdict == COMPLETED]
                yield from _file_problems(str(promise), _hydrated(value, blobs), completed, blobs)


def _hydrated(payload: Payload, blobs: Blobs) -> bytes:
    return payload.data if payload.blob is None else blobs.get(payload.blob, b"")


def _is_question(title: str, data: bytes, requested: Sequence[records.Asked]) -> bool:
    """Whether one of the entries is of this question. A retried run asks the same question in another task."""
    try:
        shown, question = questions.read(Payload(data))
        form, values = canonical(question.form), canonical(shown)
    except (HoldfastError, cbor2.CBORError, ValueError, TypeError):
        return False
    hashes = (
        records.of_bytes("form", form).sha256,
        records.of_bytes("shown", values).sha256,
        digest(title, form, values).hex(),
    )
    given = [
        (each.form.sha256 if each.form else None, each.shown.sha256 if each.shown else None, each.proposal)
        for each in requested
    ]
    return hashes in given


def _file_problems(promise: str, value: bytes, completed: Sequence[records.Asked], blobs: Blobs) -> Iterator[str]:
    try:
        files = named_files(value)
    except (cbor2.CBORError, ValueError, TypeError):
        return
    hash = records.of_bytes("result", value).sha256
    given = [each for each in completed if each.answer is not None and each.answer.sha256 == hash]
    if any(each.files != files for each in given):
        yield f"the answer to {promise} names other files than its entry."
    for file in files if given else ():  # what was answered before a fork is in another run's evidence
        if bytes.fromhex(file.sha256 or "") not in blobs:
            yield f"a file of the answer to {promise} is missing: blobs/{file.sha256}."
