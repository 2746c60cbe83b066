"""``tasks``, ``approve``, ``reject``, ``delegate`` and ``resolve``, on a store with open tasks in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Holdfast, RunFailed
from tests.unit.cli.conftest import Invoke, lines
from tests.unit.cli.gate_fixture import asked, with_worker

ACME = ("--tenant", "acme")

Find = Callable[[str], str]


@pytest.fixture
def task(bank: Invoke) -> Find:
    """The id of the task of a run."""

    def find(run: str) -> str:
        (found,) = lines(bank("tasks", "--status", "all", "--run", run, "--json"))
        return str(found["id"])

    return find


def _result(url: str, run: str, tenant: str = "default") -> Any:
    async def work(app: Holdfast) -> Any:
        return await app.run(run, tenant=tenant).result(30)

    return with_worker(url, work)


@pytest.mark.parametrize(
    ("filters", "runs"),
    [
        ([], ["asking", "doubtful"]),
        (["--status", "all"], ["paid", "asking", "doubtful"]),
        (["--status", "approved"], ["paid"]),
        (["--status", "rejected"], []),
        (["--tenant", "acme"], ["doubtful"]),
        (["--run", "asking"], ["asking"]),
        (["--status", "all", "--limit", "2"], ["paid", "asking"]),
        (["--limit", "0"], ["asking", "doubtful"]),
    ],
)
def test_tasks_are_listed_oldest_first(bank: Invoke, filters: list[str], runs: list[str]) -> None:
    """By default the open ones of all tenants; all filters hold together."""
    result = bank("tasks", *filters, "--json")
    assert ([record["run"] for record in lines(result)], result.exit_code) == (runs, 0)
    assert bank("tasks", "list", *filters, "--json").stdout == result.stdout


def test_tasks_for_people_have_a_row_each(bank: Invoke) -> None:
    """Who may answer, until when, and what it is about."""
    rows = bank("tasks").stdout.splitlines()
    assert rows[0].split() == ["TENANT", "ID", "AGE", "RUN", "STATUS", "TIER", "WHO", "EXPIRES", "SUMMARY"]
    assert "bob, cid, oncall-*" in rows[1]
    assert re.search(r" in (3h \d+m|4h 0m) ", rows[1])  # the tasks are as old as this module's tests
    assert rows[1].endswith("cli_pay: bank pay on account a-2")
    assert "anyone" in rows[2]
    assert "the oldest 1;" in bank("tasks", "--limit", "1").stderr
    assert "nobody is asked anything" in bank("tasks", "--run", "paid").stderr
    assert "no tasks match" in bank("tasks", "--status", "expired").stderr


def test_a_task_as_json_has_all_that_was_proposed(bank: Invoke, task: Find) -> None:
    """The keys are stable, the fields decoded, the secret masked."""
    (record,) = lines(bank("tasks", "show", task("asking"), "--json"))
    assert record["details"]["fields"] == {"account": "a-2", "amount": 5000, "token": "[secret]"}
    fields = {key: record[key] for key in ("kind", "status", "tier", "two_person", "starter", "rule", "answers")}
    assert fields == {
        "kind": "approval",
        "status": "requested",
        "tier": "high",
        "two_person": True,
        "starter": "cid",
        "rule": "large payments want two people",
        "answers": [],
    }
    assert record["policy"].startswith("sha256:")
    assert record["commands"][0] == f"holdfast approve {record['id']} --as YOU"
    assert set(record) >= {"proposal", "promise_id", "created_at", "expires_at", "closed_at", "candidates", "version"}


def test_a_proposal_is_shown_with_what_it_does_and_why_policy_asks(bank: Invoke, task: Find) -> None:
    """All that a person needs to decide, and the answers as commands."""
    id = task("asking")
    text = bank("tasks", "show", id).stdout
    for line in (
        "asking, started by cid",
        "two different people must approve; not cid",
        "cli_pay (writes, risk med, reversed by cli_refund)",
        "amount   5000",
        "token    [secret]",
        "rule 'large payments want two people' of sha256:",
        f"  holdfast approve {id} --as YOU\n  holdfast reject {id} --as YOU\n",
    ):
        assert line in text
    assert "s3cret" not in text


def test_an_unknown_outcome_is_shown_with_both_facts_and_three_answers(bank: Invoke, task: Find) -> None:
    """What was begun, what is known, and what may be said of it."""
    id = task("doubtful")
    text = bank("tasks", "show", id, *ACME).stdout
    assert "attempt 1 at " in text
    assert "idempotency key bank:wire:" in text
    assert "known      OutcomeUnknown: the line broke after it was sent" in text
    for answer in ("--happened --result JSON", "--did-not-happen", "--give-up"):
        assert f"  holdfast resolve {id} {answer} --as YOU --tenant acme\n" in text


def test_a_closed_task_shows_who_answered_and_offers_nothing(bank: Invoke, task: Find) -> None:
    """Nothing more can be said to it."""
    text = bank("tasks", "show", task("paid")).stdout
    assert "bob: approved (it is small)" in text
    assert "--as YOU" not in text


def test_a_field_cannot_forge_a_line(bank: Invoke, bank_url: str) -> None:
    """Text from a run is quoted where it breaks lines: what people see is what is proposed."""
    forged = "a-1\nstatus     approved"

    async def work(app: Holdfast) -> None:
        await app.start("cli_payment", forged, 5, id="forging")
        await asked(app, "forging")

    with_worker(bank_url, work)
    (record,) = lines(bank("tasks", "--run", "forging", "--json"))
    text = bank("tasks", "show", record["id"]).stdout
    assert '  account  "a-1\\nstatus     approved"\n' in text
    assert "\nstatus     approved" not in text


def test_two_people_approve_and_the_run_goes_on(bank: Invoke, bank_url: str, task: Find) -> None:
    """The first approval leaves it open; the second lets the act be done."""
    id = task("asking")
    first = bank("approve", id, "--as", "bob")
    assert (first.exit_code, "a second, different person must approve it" in first.stdout) == (0, True)
    assert "no worker is running" not in first.stderr
    second = bank("approve", id, "--as", "oncall-7", "--reason", "the customer called", "--json")
    (record,) = lines(second)
    assert (record["status"], record["action"]) == ("approved", "approve")
    assert [(answer["who"], answer["reason"]) for answer in record["answers"]] == [
        ("bob", ""),
        ("oncall-7", "the customer called"),
    ]
    assert "no worker is running" in second.stderr
    assert _result(bank_url, "asking") == {"payment": "p-5000"}


def test_a_rejection_fails_the_call(bank: Invoke, bank_url: str, task: Find) -> None:
    """One is enough, and its reason reaches the workflow."""
    result = bank("reject", task("asking"), "--as", "bob", "--reason", "not before Monday")
    assert (result.exit_code, "rejected: run asking goes on with that" in result.stdout) == (0, True)
    with pytest.raises(RunFailed, match="not before Monday"):
        _result(bank_url, "asking")


def test_a_delegated_task_is_one_persons(bank: Invoke, task: Find) -> None:
    """Until it is answered, only the person whom it was delegated to may answer."""
    id = task("asking")
    assert bank("delegate", id, "--as", "bob", "--to", "oncall-7").stdout == f"task {id} is now oncall-7's\n"
    assert "oncall-7 (delegated)" in bank("tasks").stdout
    refused = bank("approve", id, "--as", "bob")
    assert (refused.exit_code, refused.stderr) == (1, f"error: bob may not answer task {id}: oncall-7 may\n")
    (record,) = lines(bank("approve", id, "--as", "oncall-7", "--json"))
    assert (record["delegated_to"], record["status"]) == (None, "requested")


@pytest.mark.parametrize(
    ("to", "code", "message"),
    [
        ("dan", 1, "delegate it to one of its candidates, bob, cid, oncall-*"),
        ("cid", 1, "cid started the run, and may not give an approval of tier high: name another person"),
        ("oncall-*", 2, "is a pattern, and a task goes to one person: give their name"),
    ],
)
def test_a_task_goes_to_nobody_who_could_not_approve_it(
    bank: Invoke, task: Find, to: str, code: int, message: str
) -> None:
    """Passing it on does not break the rule."""
    refused = bank("delegate", task("asking"), "--as", "bob", "--to", to)
    assert (refused.exit_code, message in refused.stderr) == (code, True), refused.stderr


def test_an_outcome_is_resolved_with_what_the_act_gave(bank: Invoke, bank_url: str, task: Find) -> None:
    """The run continues with the result that a person gives, and the act is not repeated."""
    id = task("doubtful")
    done = bank("resolve", id, *ACME, "--as", "bob", "--happened", "--result", '"wired"', "--json")
    (record,) = lines(done)
    assert (record["action"], record["answers"][-1]["verdict"], record["answers"][-1]["value"]) == (
        "resolve",
        "happened",
        "wired",
    )
    for shown in (
        bank("tasks", "--status", "all", *ACME),
        bank("show", "doubtful", *ACME),
        bank("tasks", "show", id, *ACME),
    ):
        assert "happened" in shown.stdout, shown.stdout
    assert _result(bank_url, "doubtful", "acme") == "wired"


def test_an_act_that_did_not_happen_is_tried_again(bank: Invoke, bank_url: str, task: Find) -> None:
    """The gate judges it again; here its outcome is unknown once more, and a new task asks."""
    id = task("doubtful")
    assert bank("resolve", id, *ACME, "--as", "bob", "--did-not-happen").exit_code == 0

    async def work(app: Holdfast) -> str:
        return (await asked(app, "doubtful")).id

    assert with_worker(bank_url, work) != id


def test_an_outcome_can_be_given_up(bank: Invoke, bank_url: str, task: Find) -> None:
    """The call fails and the receipt stays unknown."""
    assert "given up" in bank("resolve", task("doubtful"), *ACME, "--as", "bob", "--give-up").stdout
    with pytest.raises(RunFailed):
        _result(bank_url, "doubtful", "acme")
    assert [record["state"] for record in lines(bank("receipts", *ACME, "--json"))] == ["unknown"]


@pytest.mark.parametrize("command", [["approve"], ["reject"], ["delegate", "--to", "x"], ["resolve", "--give-up"]])
def test_a_task_that_is_not_there_is_not_found(bank: Invoke, command: list[str]) -> None:
    """Exit 3, as text and as an object."""
    result = bank(*command, "a-0", "--as", "bob")
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.startswith("error: there is no task 'a-0' in tenant 'default'")
    (record,) = lines(bank(*command, "a-0", "--as", "bob", "--json"))
    assert record["error"]["code"] == "task_not_found"


@pytest.mark.parametrize("command", [["approve"], ["reject"], ["delegate", "--to", "x"]])
def test_a_closed_task_takes_no_answer(bank: Invoke, task: Find, command: list[str]) -> None:
    """Exit 4: it was answered already, and by whom."""
    result = bank(*command, task("paid"), "--as", "cid")
    assert (result.exit_code, "is approved by bob: nothing more can be said to it" in result.stderr) == (4, True)


@pytest.mark.parametrize(
    ("who", "message"),
    [("eve", "eve may not answer task"), ("cid", "cid started the run, and may not give an approval")],
)
def test_a_person_who_may_not_answer_gets_the_reason(bank: Invoke, task: Find, who: str, message: str) -> None:
    """Exit 1: people who are no candidates, and for tier high the starter of the run."""
    result = bank("approve", task("asking"), "--as", who)
    assert (result.exit_code, message in result.stderr) == (1, True)
    (error,) = lines(bank("approve", task("asking"), "--as", who, "--json"))
    assert error["error"]["code"] == "task_forbidden"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["approve", "a-0"], "Missing option '--as'"),
        (["reject", "a-0"], "Missing option '--as'"),
        (["delegate", "a-0", "--to", "x"], "Missing option '--as'"),
        (["resolve", "a-0", "--give-up"], "Missing option '--as'"),
        (["reverse", "r-0"], "Missing option '--as'"),
        (["delegate", "a-0", "--as", "x"], "Missing option '--to'"),
        (["resolve", "a-0", "--as", "x"], "give one of --happened"),
        (["resolve", "a-0", "--as", "x", "--happened", "--give-up"], "give one of --happened"),
        (["resolve", "a-0", "--as", "x", "--give-up", "--result", "1"], "only --happened has one"),
        (["resolve", "a-0", "--as", "x", "--happened", "--result", "{"], "not valid JSON"),
        (["approve", "a-0", "--as", " "], "there is no task"),
        (["tasks", "--status", "odd"], "odd"),
    ],
)
def test_wrong_usage_is_an_error(bank: Invoke, command: list[str], message: str) -> None:
    """Exit 2 before anything is written; who answers is never guessed."""
    result = bank(*command)
    assert message in result.stderr
    assert result.exit_code == (3 if "no task" in message else 2)


def test_an_answer_of_the_wrong_kind_is_refused(bank: Invoke, task: Find) -> None:
    """An approval is no outcome, and an outcome no approval."""
    result = bank("approve", task("doubtful"), *ACME, "--as", "bob")
    assert (result.exit_code, "is about the outcome of an act" in result.stderr) == (2, True)
    assert bank("resolve", task("asking"), "--as", "bob", "--give-up").exit_code == 2


def test_the_doctor_tells_what_waits_for_people(bank: Invoke, task: Find) -> None:
    """An act of unknown outcome needs someone; an approval may take its time."""
    result = bank("doctor")
    assert result.exit_code == 1
    assert "✗ tasks      2 wait for people" in result.stdout
    assert "1 of unknown outcome" in result.stdout
    bank("resolve", task("doubtful"), *ACME, "--as", "bob", "--give-up")
    checks = {check["name"]: check for check in lines(bank("doctor", "--json"))[0]["checks"]}
    assert (checks["tasks"]["good"], checks["tasks"]["facts"]) == (True, {"open": 1, "outcomes": 0})
    assert checks["audit"]["facts"]["unsealed"] > 0


def test_the_present_is_compared_with_the_proposal_by_the_apps_probe(bank: Invoke, task: Find) -> None:
    """Without the secrets of the call, and only for who may approve it; an unknown outcome has nothing to compare."""
    id, app = task("asking"), ("--app", "tests.unit.cli.cli_bank")
    shown = bank("tasks", "present", id, *app, "--as", "bob")
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[0] == "It has not happened."
    (record,) = lines(bank("tasks", "present", id, *app, "--as", "bob", "--json"))
    assert record["state"] == "not done"
    amount, account, secret = record["fields"]
    assert (amount["name"], amount["present"], amount["differs"]) == ("amount", 0, True)
    assert not account["differs"]
    assert "s3cret" not in shown.stdout + str(secret)
    assert bank("tasks", "present", id, *app, "--as", "eve").exit_code == 1
    assert bank("tasks", "present", "a-none", *app, "--as", "bob").exit_code == 3
