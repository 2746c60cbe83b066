"""``receipts`` and ``reverse``, and ``show`` for a governed run."""

from __future__ import annotations

import pytest

from holdfast import Holdfast
from tests.unit.cli.conftest import Invoke, lines
from tests.unit.cli.gate_fixture import with_worker


@pytest.fixture
def receipt(bank: Invoke) -> str:
    """The id of the receipt of the payment."""
    (found,) = lines(bank("receipts", "--run", "paid", "--json"))
    return str(found["id"])


@pytest.mark.parametrize(
    ("filters", "runs"),
    [
        ([], ["paid", "doubtful"]),
        (["--tenant", "default"], ["paid"]),
        (["--state", "unknown"], ["doubtful"]),
        (["--connector", "bank"], ["paid", "doubtful"]),
        (["--connector", "slack"], []),
        (["--run", "doubtful"], ["doubtful"]),
        (["--limit", "1"], ["paid"]),
    ],
)
def test_receipts_are_listed_oldest_first(bank: Invoke, filters: list[str], runs: list[str]) -> None:
    """All tenants unless one is named; all filters hold together."""
    result = bank("receipts", *filters, "--json")
    assert ([record["run"] for record in lines(result)], result.exit_code) == (runs, 0)


def test_receipts_for_people_have_a_row_each(bank: Invoke) -> None:
    """What was done to what, and what came of it."""
    rows = bank("receipts").stdout.splitlines()
    assert rows[0].split() == ["TENANT", "ID", "BEGUN", "RUN", "ACTION", "TARGET", "STATE", "NOTE"]
    assert rows[1].endswith("account a-1  succeeded")
    assert rows[2].endswith("unknown    OutcomeUnknown: the line broke after it was sent")
    assert "no receipts match" in bank("receipts", "--state", "pending").stderr
    assert "the oldest 1;" in bank("receipts", "--limit", "1").stderr


def test_a_receipt_tells_what_was_attempted_and_what_came_of_it(bank: Invoke, receipt: str) -> None:
    """Arguments with their secrets masked, the result, the key, and how to take it back."""
    (record,) = lines(bank("receipts", "show", receipt, "--json"))
    assert record["arguments"] == {"account": "a-1", "amount": 10, "token": "[secret]"}
    assert (record["result"], record["state"], record["reverse"]) == ({"payment": "p-10"}, "succeeded", "cli_refund")
    assert (record["actor"], record["reversed_by"], record["error"]) == ("ann", None, None)
    text = bank("receipts", "show", receipt).stdout
    assert f"cli_refund: `holdfast reverse {receipt} --as YOU`" in text
    assert 'result     {"payment": "p-10"}' in text
    assert "s3cret" not in text


def test_a_receipt_of_unknown_outcome_offers_no_reverse(bank: Invoke) -> None:
    """Only what succeeded can be taken back."""
    (found,) = lines(bank("receipts", "--state", "unknown", "--json"))
    text = bank("receipts", "show", found["id"], "--tenant", "acme").stdout
    assert "reverse    the action declares none" in text
    assert "error      OutcomeUnknown" in text
    refused = bank("reverse", found["id"], "--tenant", "acme", "--as", "ann")
    assert (refused.exit_code, "only what succeeded can be taken back" in refused.stderr) == (4, True)


def test_an_act_is_taken_back_by_a_run_of_its_own(bank: Invoke, bank_url: str, receipt: str) -> None:
    """The command says how to follow it, and that a worker must run; once it is done, both receipts say so."""
    result = bank("reverse", receipt, "--as", "ann", "--reason", "paid twice")
    assert result.exit_code == 0
    assert f"run reverse:{receipt} takes back {receipt} by cli_refund" in result.stdout
    assert f"holdfast tasks --run reverse:{receipt}\n" in result.stdout
    assert "no worker is running" in result.stderr
    assert "its app must define cli_refund" in result.stderr

    assert _reversed(bank_url, receipt) == {"refunded": "p-10"}
    first, second = lines(bank("receipts", "--tenant", "default", "--json"))
    assert (first["reversed_by"], second["reverses"]) == (second["id"], first["id"])
    assert f"taken back by {second['id']}" in bank("receipts", "show", receipt).stdout
    assert f"this took back {receipt}" in bank("receipts", "show", second["id"]).stdout


def test_a_reversal_that_is_asked_for_again_is_not_done_again(bank: Invoke, bank_url: str, receipt: str) -> None:
    """The run that did it is found, and shown as it is."""
    bank("reverse", receipt, "--as", "ann")
    _reversed(bank_url, receipt)
    again = bank("reverse", receipt, "--as", "bob", "--wait", "5s", "--json")
    (record,) = lines(again)
    assert again.exit_code == 0, record
    assert (record["status"], record["action"], record["receipt"]) == ("completed", "reverse", receipt)
    assert "is completed" in bank("reverse", receipt, "--as", "ann").stdout
    assert len(lines(bank("receipts", "--tenant", "default", "--json"))) == 2


def _reversed(url: str, receipt: str) -> object:
    """Let a worker take it back."""

    async def work(app: Holdfast) -> object:
        return await app.run(f"reverse:{receipt}").result(30)

    return with_worker(url, work)


def test_waiting_for_a_reversal_can_be_given_up(bank: Invoke, receipt: str) -> None:
    """Without a worker it does not end: exit 1, and the reason."""
    result = bank("reverse", receipt, "--as", "ann", "--wait", "0.05s", "--json")
    (record,) = lines(result)
    assert (result.exit_code, record["status"], record["worker_running"]) == (1, "queued", False)
    assert "has not ended yet: It has been ready" in result.stderr


@pytest.mark.parametrize("command", [["receipts", "show", "r-0"], ["reverse", "r-0", "--as", "ann"]])
def test_a_receipt_that_is_not_there_is_not_found(bank: Invoke, command: list[str]) -> None:
    """Exit 3, as text and as an object."""
    result = bank(*command)
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.startswith("error: there is no receipt 'r-0' in tenant 'default'")
    assert lines(bank(*command, "--json"))[0]["error"]["code"] == "receipt_not_found"


def test_show_tells_of_a_governed_run_what_the_gate_has_on_it(bank: Invoke, receipt: str) -> None:
    """Who started it, how much it wrote, and below each action its tasks and receipts."""
    (record,) = lines(bank("show", "paid", "--json"))
    assert (record["governed"], record["writes"], record["actor"], record["workspace"]) == (True, 1, "ann", "ops")
    (item,) = [item for item in record["timeline"] if item["kind"] == "action"]
    assert [(mark["kind"], mark["state"]) for mark in item["gate"]] == [("task", "approved"), ("receipt", "succeeded")]
    text = bank("show", "paid").stdout
    assert "cli_pay (action)" in text
    assert f"receipt {receipt}" in text
    assert "governed   yes, 1 write so far" in text
    assert lines(bank("show", "asking", "--json"))[0]["waits"][0]["task"].startswith("a-")


def test_show_names_the_evidence_of_a_run(bank: Invoke, bank_url: str) -> None:
    """The hash that the row has is the one of the bundle."""

    async def work(app: Holdfast) -> str:
        handle = app.run("paid")
        while (found := (await handle.info()).evidence_sha256) is None:
            await app.changed(0.05)
        return found

    digest = with_worker(bank_url, work)
    assert lines(bank("show", "paid", "--json"))[0]["evidence_sha256"] == digest
    assert f"evidence   sha256:{digest}" in bank("show", "paid").stdout
