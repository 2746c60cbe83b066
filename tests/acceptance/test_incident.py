"""``examples/incident`` does what its page says: acts are approved, get receipts, are reversed and proved."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import cbor2
import pytest

from holdfast import Holdfast, SyncHoldfast, Trigger
from holdfast.audit.check.bundle import verify_bundle
from holdfast.audit.keys import read_pem
from holdfast.journal import events as e
from holdfast.runs import journals
from tests.acceptance.processes import ROOT, sqlite_url

pytestmark = pytest.mark.xdist_group("incident")  # the story is told once

EXAMPLE = ROOT / "examples" / "incident"
RUN = "triage:webhook:INC-7"
UPDATE = {"priority": "1", "team": "payments"}
GATE = ("receipts", "tasks", "audit", "blocks", "artefacts")

READ = ("GET", "/incidents/INC-7", "")
SUMMARISE = ("POST", "/model/summarise", "")
CHANGE = ("PATCH", "/incidents/INC-7", "ann")
PROBE = ("GET", "/incidents/INC-7", "ann")
NOTE = ("POST", "/incidents/INC-7/notes", "ann")
RESTORE = ("PATCH", "/incidents/INC-7", "holdfast")


class Outcome(NamedTuple):
    """The output of the example, and its folder."""

    output: str
    folder: Path

    @property
    def requests(self) -> list[dict[str, Any]]:
        lines = (self.folder / "requests.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]


def play(folder: Path, *options: str) -> Outcome:
    """Run the example as a reader would, with every warning an error."""
    command = [sys.executable, "-W", "error", str(EXAMPLE / "run.py"), "--folder", str(folder), *options]
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=110
    )
    assert done.returncode == 0, done.stderr
    return Outcome(done.stdout + done.stderr, folder)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The story without a crash."""
    return play(tmp_path_factory.mktemp("incident"))


def token_of(folder: Path) -> str:
    """Ann's token, from the one place that must have it: the stored input in the journal, not the shown one."""

    async def first() -> e.Event:
        async with Holdfast(sqlite_url(folder / "incident.db"), worker=False) as app:
            row = await journals.row_of(app.store, app.run(RUN).key)
            return await anext(entry.event async for entry in journals.read(app.store, row))

    with SyncHoldfast(sqlite_url(folder / "incident.db"), worker=False) as client:
        assert next(iter(client.run(RUN).journal())).text.endswith(", '[secret]')")
    started = asyncio.run(first())
    assert isinstance(started, e.ExecutionStarted)
    (_, token), _ = cbor2.loads(started.input.data)
    return str(token)


def test_the_service_saw_exactly_the_acts_that_were_approved(story: Outcome) -> None:
    """Each act is done once, in order, and each has a receipt."""
    assert [(each["method"], each["path"], each["who"]) for each in story.requests] == [
        READ,
        SUMMARISE,
        CHANGE,
        NOTE,
        RESTORE,
    ]
    assert not any(each["repeated"] for each in story.requests)
    with SyncHoldfast(sqlite_url(story.folder / "incident.db"), worker=False) as client:
        receipts = {receipt.action: receipt for receipt in client.receipts.list()}
        approvals = [task for task in client.tasks.list(status=None) if task.kind == "approval"]
    assert {receipt.state for receipt in receipts.values()} == {"succeeded"}
    assert len(receipts) == 5
    assert receipts["update_incident"].arguments["fields"] == UPDATE
    assert receipts["update_incident"].reversed_by == receipts["restore_incident"].id
    assert receipts["restore_incident"].reverses == receipts["update_incident"].id
    assert [(task.status, [answer.who for answer in task.answers]) for task in approvals] == [("approved", ["ben"])] * 2


def test_a_trigger_that_comes_twice_starts_one_run(story: Outcome) -> None:
    """The second trigger finds the first run. The only other run is the reversal."""
    with SyncHoldfast(sqlite_url(story.folder / "incident.db"), worker=False) as client:
        runs = {run.id: run for run in client.list()}
    assert sorted(run.workflow for run in runs.values()) == ["holdfast.reverse", "triage"]
    triage = runs[RUN]
    assert (triage.actor, triage.trigger) == ("ann", Trigger("webhook", "INC-7"))


def test_the_evidence_is_proved_and_a_forged_copy_is_broken(story: Outcome) -> None:
    """With the operator's key alone; a changed name is found."""
    keys = read_pem((story.folder / "desk.pem").read_bytes())
    verdict = verify_bundle((story.folder / "triage.zip").read_bytes(), keys)
    assert (verdict.good, verdict.trusted) == (True, True)
    forged = verify_bundle((story.folder / "forged.zip").read_bytes(), keys)
    assert {claim.about for claim in forged.claims if claim.state == "broken"} == {"files", "entries", "people"}
    assert not forged.good
    assert "triage.zip is good, and a key that you trust vouches for it" in story.output
    assert "forged.zip is not what it claims to be" in story.output


def test_the_costs_of_the_model_are_in_the_evidence(story: Outcome) -> None:
    """The evidence has the sum of the service's charges."""
    with zipfile.ZipFile(story.folder / "triage.zip") as bundle:
        (cost,) = json.loads(bundle.read("costs.json"))
    assert (cost["of"]["provider"], cost["of"]["model"]) == ("local", "small-1")
    assert cost["sums"]["amount"] == pytest.approx(0.0018)


def test_a_secret_argument_is_in_the_journal_alone(story: Outcome) -> None:
    """It is not in receipts, tasks, audit, evidence, logs or output. The run itself needs it to continue."""
    token = token_of(story.folder)
    assert len(token) == 32
    database = sqlite3.connect(story.folder / "incident.db")
    try:
        tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert tables.issuperset(GATE)
        tables_with_token = {table for table in tables if _holds(database, table, token)}
    finally:
        database.close()
    assert tables_with_token == {"segments"}
    with zipfile.ZipFile(story.folder / "triage.zip") as bundle:
        assert all(token.encode() not in bundle.read(name) for name in bundle.namelist())
    assert token not in story.output
    assert token not in (story.folder / "worker.log").read_text(encoding="utf-8")


def _holds(database: sqlite3.Connection, table: str, text: str) -> bool:
    """Whether a row has the text, plainly or in base64, as bytes are within JSON."""
    values = (
        v if isinstance(v, bytes) else str(v).encode()
        for row in database.execute(f"SELECT * FROM {table}")
        for v in row
    )
    forms = list(_forms(text.encode()))
    return any(form in value for value in values for form in forms)


def _forms(text: bytes) -> Iterator[bytes]:
    yield text
    for shift in range(3):  # base64 encodes three bytes at a time, so it depends on the bytes before
        yield base64.b64encode(b"\0" * shift + text)[4 if shift else 0 : -4]


@pytest.mark.long
def test_a_change_whose_record_was_lost_is_looked_up_and_not_made_again(tmp_path: Path) -> None:
    """Killed between the act and its receipt: the probe finds that it happened, and the run continues with that."""
    story = play(tmp_path, "--crash")
    assert "kill -9" in story.output
    assert [(each["method"], each["path"], each["who"]) for each in story.requests] == [
        READ,
        SUMMARISE,
        CHANGE,
        PROBE,
        NOTE,
        RESTORE,
    ]
    with SyncHoldfast(sqlite_url(tmp_path / "incident.db"), worker=False) as client:
        (update,) = [each for each in client.receipts.list(run=RUN) if each.action == "update_incident"]
    before = {"priority": "3", "team": "service desk"}
    assert (update.state, update.result) == ("succeeded", {"before": before, "after": UPDATE})
    keys = read_pem((tmp_path / "desk.pem").read_bytes())
    assert verify_bundle((tmp_path / "triage.zip").read_bytes(), keys).trusted


def test_the_policy_of_the_example_decides_as_its_cases_say() -> None:
    """The cases are the tests of the policy."""
    command = [sys.executable, "-m", "holdfast.cli.main", "policy", "test", "policy.yaml", "cases.yaml"]
    done = subprocess.run(command, cwd=EXAMPLE, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
