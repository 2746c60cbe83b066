"""Tasks, rows of runs and evidence compared with the audit and the journals: each change by hand is named."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import Holdfast
from holdfast.audit.check.claims import Claim
from holdfast.store import protocol as p
from tests.unit.audit.test_receipt_check import books, by_hand, kept

__all__ = ["books", "kept"]  # the fixtures


def verified(path: Path) -> dict[str, Claim]:
    """The claims of ``verify``, by name."""

    async def main() -> dict[str, Claim]:
        async with Holdfast(f"sqlite:///{path}", worker=False) as app:
            verdict = await app.audit.verify()
            return {claim.about: claim for claim in verdict.claims}

    return asyncio.run(main())


def broken(path: Path, about: str) -> str:
    """The text of this claim, which is broken; no other claim is."""
    found = {name: claim for name, claim in verified(path).items() if claim.state == "broken"}
    assert set(found) == {about}, found
    return found[about].text


def test_an_unchanged_store_is_consistent(books: Path) -> None:
    """With every kind of task and answer, and every end of a run."""
    found = verified(books)
    for about in ("tasks", "runs", "evidence"):
        assert found[about].state == "consistent", found[about].text
        assert "(0)" not in found[about].text


def set_field(database: sqlite3.Connection, run: str, kind: str, field: str, value: str) -> str:
    """Change a field of the task of a run; gives the task's id."""
    (id,) = database.execute(
        "SELECT id FROM tasks WHERE run = ? AND json_extract(body, '$.kind') = ?", (run, kind)
    ).fetchone()
    database.execute(f"UPDATE tasks SET body = json_set(body, '$.{field}', json(?)) WHERE id = ?", (value, id))
    return str(id)


CHANGED = {
    "run": '"open"',
    "generation": "3",
    "root": '"AAAA"',
    "position": "7",
    "kind": '"outcome"',
    "status": '"rejected"',
    "version": "9",
    "proposal": '"AAAA"',
    "summary": '"harmless"',
    "details": '"oA=="',
    "tier": '"low"',
    "two_person": "true",
    "candidates": '["mallory"]',
    "starter": '"mallory"',
    "policy": '"another"',
    "rule": '"another"',
    "created_at": "1",
    "expires_at": "1",
    "delegated_to": '"mallory"',
    "closed_at": "1",
    "form": '"oA=="',
    "groups": '["others"]',
    "excluded": '["mallory"]',
    "owner": '"mallory"',
    "due_at": "1",
    "reminders": "[1]",
    "reminded": "1",
    "reminded_at": "1",
    "escalation": '{"groups":["others"]}',
    "escalated_at": "1",
}


@pytest.mark.parametrize("field", sorted(CHANGED))
def test_any_field_of_a_task_that_was_changed_is_named(books: Path, field: str) -> None:
    """The question, the people who are asked and the rule included."""
    with by_hand(books) as database:
        id = set_field(database, "sure", "approval", field, CHANGED[field])
    assert f"task {id} differs from what the audit says of it in its " in broken(books, "tasks")


def test_every_field_of_a_task_is_among_them() -> None:
    """Except those by which it is found, and the answers, of which the next tests are; and the reference, which is not
    the task's own: it follows that of the run."""
    names = {field.name for field in msgspec.structs.fields(p.TaskRow)}
    assert names - set(CHANGED) == {"tenant", "id", "answers", "reference"}


@pytest.mark.parametrize(
    ("field", "value"), [("who", '"mallory"'), ("verdict", '"rejected"'), ("reason", '"why not"'), ("at", "1")]
)
def test_an_answer_that_was_changed_is_named(books: Path, field: str, value: str) -> None:
    """Its person, verdict, reason or time."""
    with by_hand(books) as database:
        id = set_field(database, "sure", "approval", f"answers[0].{field}", value)
    assert broken(books, "tasks") == f"task {id} differs from what the audit says of it in its answers."


def test_a_changed_result_in_an_answer_is_named(books: Path) -> None:
    """The audit has its hash."""
    with by_hand(books) as database:
        id = set_field(database, "recalled", "outcome", "answers[0].value", '"9g=="')
    assert broken(books, "tasks") == f"task {id} differs from what the audit says of it in its given results."


def test_a_task_that_was_forged_to_be_answered_is_named(books: Path) -> None:
    """Even if the row is right in itself: there is no entry of the answer."""
    with by_hand(books) as database:
        for field, value in (("status", '"approved"'), ("version", "2"), ("closed_at", "1")):
            set_field(database, "open", "outcome", field, value)
        answer = '[{"who":"bob","verdict":"did not happen","reason":"","at":1}]'
        id = set_field(database, "open", "outcome", "answers", answer)
    assert f"task {id} differs from what the audit says of it in its status, number of" in broken(books, "tasks")


def test_a_removed_an_added_and_an_unreadable_task_are_named(books: Path) -> None:
    """The audit and the table have the same tasks."""
    with by_hand(books) as database:
        (id,) = database.execute("SELECT id FROM tasks WHERE run = 'open' ORDER BY created_at DESC").fetchone()
        database.execute("CREATE TEMP TABLE kept AS SELECT * FROM tasks WHERE id = ?", (id,))
        database.execute("DELETE FROM tasks WHERE id = ?", (id,))
        database.commit()
        assert broken(books, "tasks") == f"task {id}: the audit has entries of it, and it is gone."
        database.execute("INSERT INTO tasks SELECT * FROM kept")
        database.execute("UPDATE kept SET id = 'a-new', body = json_set(body, '$.id', 'a-new')")
        database.execute("INSERT INTO tasks SELECT * FROM kept")
        database.commit()
        assert broken(books, "tasks") == "task a-new: the audit has no entry of it."
        database.execute("DELETE FROM tasks WHERE id = 'a-new'")
        database.execute("UPDATE tasks SET body = '{' WHERE id = ?", (id,))
    assert broken(books, "tasks") == f"task {id}: it was altered, and cannot be read."


ROWS: dict[str, tuple[str, Any]] = {
    "standing": ("refused", "completed"),
    "error": ("refused", "another"),
    "workflow": ("kept", "another"),
    "actor": ("sure", "mallory"),
    "version": ("kept", 3),
    "head": ("kept", b"\0" * 32),
    "root": ("kept", b"\0" * 32),
    "generation": ("kept", 1),
    "parent": ("kept", "sure"),
    "parent_position": ("kept", 3),
    "ended_at": ("kept", 1),
}


@pytest.mark.parametrize("column", sorted(ROWS))
def test_a_column_of_a_run_that_was_changed_is_named(books: Path, column: str) -> None:
    """Each column that the journal or the entry of the end has, too."""
    run, value = ROWS[column]
    with by_hand(books) as database:
        database.execute(f"UPDATE runs SET evidence = NULL, {column} = ? WHERE id = ?", (value, run))
    assert broken(books, "runs").startswith(f"run {run}: ")


def test_a_run_in_another_tenant_or_under_another_id_is_named(books: Path) -> None:
    """Its journal's root follows from both."""
    with by_hand(books) as database:
        database.execute("PRAGMA foreign_keys = OFF")
        for table, column in (("runs", "id"), ("segments", "run")):
            database.execute(f"UPDATE {table} SET {column} = 'other' WHERE {column} = 'kept'")
    assert "run other: " in verified(books)["runs"].text


def test_a_changed_standing_of_a_run_is_named(books: Path) -> None:
    """Ended or open: a worker takes a run by its row."""
    with by_hand(books) as database:
        database.execute("UPDATE runs SET standing = 'completed', ended_at = 1 WHERE id = 'open'")
    assert "status" in broken(books, "runs")
    with by_hand(books) as database:
        database.execute("UPDATE runs SET standing = 'waiting', ended_at = NULL WHERE id = 'open'")
        database.execute("UPDATE runs SET standing = 'waiting', ended_at = NULL WHERE id = 'kept'")
    assert "run kept: its row differs" in broken(books, "runs")


def test_a_journal_that_was_changed_is_named(books: Path) -> None:
    """One byte of it."""
    with by_hand(books) as database:
        database.execute("UPDATE segments SET events = CAST(events || x'00' AS BLOB) WHERE run = 'kept' AND first = 0")
    assert "run kept: the journal was altered" in broken(books, "runs")


def test_evidence_that_was_changed_is_named(books: Path) -> None:
    """Its bytes, its hash, or the hash in the row."""
    with by_hand(books) as database:
        run, data, digest = database.execute("SELECT run, data, sha256 FROM artefacts ORDER BY run").fetchone()
        database.execute("UPDATE artefacts SET data = ? WHERE run = ?", (data[:-1] + b"\1", run))
    assert f"run {run}: the evidence of generation 0 was altered" in broken(books, "evidence")
    with by_hand(books) as database:
        other = hashlib.sha256(data[:-1] + b"\1").digest()
        database.execute("UPDATE artefacts SET sha256 = ? WHERE run = ?", (other, run))
    assert f"run {run}: the evidence that its row names is not the one that is stored" in broken(books, "evidence")
    with by_hand(books) as database:
        database.execute("UPDATE artefacts SET data = ?, sha256 = ? WHERE run = ?", (data, digest, run))
        database.execute("UPDATE runs SET evidence = ? WHERE id = ?", (bytes(32), run))
    assert f"run {run}: the evidence that its row names is not the one that is stored" in broken(books, "evidence")


def test_a_run_that_was_deleted_without_its_evidence_is_named(books: Path) -> None:
    """The evidence of a pruned run stays."""
    with by_hand(books) as database:
        database.execute("DELETE FROM segments WHERE run = 'kept'")
        database.execute("DELETE FROM runs WHERE id = 'kept'")
    assert verified(books)["evidence"].state == "consistent"
    with by_hand(books) as database:
        database.execute("DELETE FROM artefacts WHERE run = 'kept'")
    assert "run kept: the audit says that it ended, and neither it nor its evidence" in broken(books, "evidence")
