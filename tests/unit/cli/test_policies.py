"""``holdfast policy``: check, test, explain, schema; no store is opened."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from holdfast.cli.main import main
from tests.unit.cli.conftest import lines

POLICY = """\
version: 1
allowlist: ["servicenow/*", "slack/post"]
rules:
  - name: reading is free
    when: "!action.writes"
    effect: allow
  - name: sums
    when: action.fields.sum > 100
    effect: deny
  - name: a person
    when: action.risk != "low"
    effect: needs_approval
    tier: high
"""

CASES = """\
- name: reading
  action: {connector: slack, operation: post, writes: false}
  expect: allow
- name: a large sum
  action: {connector: servicenow, operation: pay, fields: {sum: 500}}
  expect: deny
  rule: sums
- name: risky
  action: {connector: servicenow, operation: close, risk: high, fields: {sum: 1}}
  expect: needs_approval
  tier: high
"""

Call = Callable[..., Result]


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call ``holdfast policy`` in a folder with a policy and its cases, and with a store that does not exist."""
    (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")
    (tmp_path / "cases.yaml").write_text(CASES, encoding="utf-8")
    (tmp_path / "broken.yaml").write_text("version: 1\nrules:\n  - {name: a, when: acton.x, effect: alow}\n")
    monkeypatch.chdir(tmp_path)

    def call(*args: str, input: str | None = None) -> Result:
        env = {"HOLDFAST_STORE": "sqlite:///nowhere/at-all.db"}
        result = CliRunner().invoke(main, ["policy", *args], env=env, input=input, prog_name="holdfast")
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return call


def test_check_says_that_a_policy_is_in_order(policy: Call) -> None:
    """With its number of rules and its hash, which decisions will carry."""
    result = policy("check", "policy.yaml")
    assert (result.exit_code, "policy.yaml is in order: 3 rules, sha256:" in result.stdout) == (0, True)
    (record,) = lines(policy("check", "policy.yaml", "--json"))
    assert record["valid"] is True
    assert record["rules"] == ["reading is free", "sums", "a person"]
    assert record["hash"] in result.stdout
    assert record["hash"] in policy("check", "-", input=POLICY).stdout


def test_check_tells_every_problem_with_its_place(policy: Call) -> None:
    """The answer is no, for people and for programs."""
    result = policy("check", "broken.yaml")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "broken.yaml:3:21: there is no variable `acton`: did you mean `action`?",
        "broken.yaml:3:38: `effect` must be one of allow, deny, needs_approval, not 'alow'",
    ]
    result = policy("check", "broken.yaml", "--json")
    (record,) = lines(result)
    assert (result.exit_code, record["valid"]) == (1, False)
    assert [(problem["line"], problem["column"]) for problem in record["problems"]] == [(3, 21), (3, 38)]


def test_cases_that_pass_end_well(policy: Call) -> None:
    """One row for each case."""
    result = policy("test", "policy.yaml", "cases.yaml")
    assert result.exit_code == 0
    assert [row.split()[0] for row in result.stdout.splitlines()] == ["CASE", "reading", "a", "risky"]
    assert "3 passed, 0 failed" in result.stderr


def test_a_case_that_fails_is_listed_and_exits_1(policy: Call, tmp_path: Path) -> None:
    """The row says what was expected and what came."""
    (tmp_path / "cases.yaml").write_text(f"{CASES}  rule: sums\n", encoding="utf-8")
    result = policy("test", "policy.yaml", "cases.yaml")
    assert result.exit_code == 1
    assert "expected rule 'sums' to decide, and rule 'a person' did" in result.stdout
    records = lines(policy("test", "policy.yaml", "cases.yaml", "--json"))
    assert [record["passed"] for record in records] == [True, True, False]
    assert records[2]["ruling"]["approval"]["tier"] == "high"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("test", "broken.yaml", "cases.yaml"), "broken.yaml:3:21: there is no variable `acton`"),
        (("test", "policy.yaml", "policy.yaml"), "policy.yaml:1:1: the file must be a list"),
        (("test", "policy.yaml", "empty.yaml"), "empty.yaml:1:1: the file is empty: it is a list of cases"),
        (
            ("test", "policy.yaml", "strange.yaml"),
            "strange.yaml:1:33: the policy has no rule 'sum': did you mean `sums`",
        ),
        (("test", "no.yaml", "cases.yaml"), "no.yaml: the file cannot be read: No such file"),
        (("test", "policy.yaml", "no.yaml"), "no.yaml: the file cannot be read"),
        (("explain", "no.yaml", "--action", "{}"), "no.yaml: the file cannot be read"),
        (("explain", "broken.yaml", "--action", "{}"), "broken.yaml:3:21"),
        (("explain", ".", "--action", "{}"), ".: the file cannot be read: Is a directory"),
        (("check", "no.yaml"), "no.yaml: the file cannot be read: No such file"),
    ],
)
def test_files_that_cannot_be_used_are_bad_input(policy: Call, args: tuple[str, ...], message: str) -> None:
    """Exit 2, whichever command reads them: a test that did not run has not passed, and has not failed either."""
    Path("empty.yaml").write_text("# no case yet\n")
    Path("strange.yaml").write_text("- {name: a, expect: deny, rule: sum}\n")
    result = policy(*args)
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr
    assert lines(policy(*args, "--json"))[0]["error"]["code"] == "invalid_policy"


def test_explain_shows_each_rule_and_which_decided(policy: Call) -> None:
    """Also what came of the rules behind it, which were not reached."""
    action = json.dumps({"connector": "servicenow", "operation": "pay", "risk": "high", "fields": {"sum": 500}})
    result = policy("explain", "policy.yaml", "--action", action)
    header, reading, sums, person, verdict = result.stdout.splitlines()
    assert result.exit_code == 0
    assert header.split() == ["RULE", "EFFECT", "OUTCOME", "WHEN"]
    assert "not matched" in reading
    assert sums.startswith("→")
    assert "matched, but not reached" in person
    assert verdict == "deny by policy: rule 'sums' denies it"


@pytest.mark.parametrize(
    ("action", "effect", "stage", "reached", "reason"),
    [
        ({"connector": "slack", "operation": "post"}, "deny", "policy", [True, True, False], "there is no 'sum'"),
        ({"connector": "github"}, "deny", "allowlist", [False] * 3, "not on the allowlist"),
        (
            {"connector": "slack", "operation": "post", "fields": {"sum": 1}},
            "deny",
            "policy",
            [True] * 3,
            "no rule holds",
        ),
        (
            {"connector": "slack", "operation": "post", "writes": False},
            "allow",
            "policy",
            [True, False, False],
            "allows",
        ),
    ],
)
def test_explain_tells_programs_what_decided(
    policy: Call, action: dict[str, object], effect: str, stage: str, reached: list[bool], reason: str
) -> None:
    """A rule that fails, the allowlist, no rule at all, and a rule that holds."""
    (record,) = lines(policy("explain", "policy.yaml", "--action", json.dumps(action), "--json"))
    assert (record["effect"], record["stage"]) == (effect, stage)
    assert [rule["reached"] for rule in record["rules"]] == reached
    assert reason in record["reason"]


def test_explain_takes_run_actor_and_time(policy: Call, tmp_path: Path) -> None:
    """All facts can be given."""
    when = "run.tenant == 'acme' && actor.name == 'ann' && time.getHours() == 3"
    (tmp_path / "p.yaml").write_text(f'version: 1\nrules: [{{name: a, when: "{when}", effect: allow}}]\n')
    given = ("--action", "{}", "--run", '{"tenant": "acme"}', "--actor", "ann")
    assert "allow by policy" in policy("explain", "p.yaml", *given, "--time", "2026-05-01T03:00:00Z").stdout
    assert "deny by policy" in policy("explain", "p.yaml", *given, "--time", "2026-05-01T04:00:00Z").stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--action", "{"), "--action is not valid JSON"),
        (("--action", "[]"), '--action is a JSON object like {"connector": "slack", "operation": "post"}, not []'),
        (("--action", "{}", "--run", "7"), '--run is a JSON object like {"tenant": "acme"}, not 7'),
        (("--action", '{"conector": "x"}'), "--action: Object contains unknown field `conector`"),
        (("--action", "{}", "--run", '{"writes": "x"}'), "--run: Expected `int`, got `str`"),
        (("--action", "{}", "--time", "noon"), "'noon' is no time"),
        ((), "Missing option '--action'"),
    ],
)
def test_wrong_facts_are_wrong_usage(policy: Call, args: tuple[str, ...], message: str) -> None:
    """Exit 2, and what to write."""
    result = policy("explain", "policy.yaml", *args)
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr


def test_schema_is_printed_as_it_is_shipped(policy: Call) -> None:
    """For people in lines, for programs in one."""
    assert json.loads(policy("schema").stdout) == lines(policy("schema", "--json"))[0]
    assert lines(policy("schema", "--json"))[0]["title"] == "Holdfast policy"
