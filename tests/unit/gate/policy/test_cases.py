"""Tests of a policy, as people write them."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidPolicy
from holdfast.gate.policy.cases import CONTENT, microseconds, read_cases, try_cases
from holdfast.gate.policy.policy import parse
from tests.unit.gate.policy.policies import EXAMPLE, NOON, file_of


def _wrong(policy: str, case: str) -> list[str]:
    (result,) = try_cases(parse(policy, "policy.yaml"), read_cases(case, "cases.yaml"))
    return result.wrong


PERSON = "action: {connector: servicenow, risk: high}"


@pytest.mark.parametrize(
    ("case", "wrong"),
    [
        ("{name: a, expect: deny}", []),
        ("{name: a, expect: allow}", ["expected allow, got deny: / is not on the allowlist"]),
        (f"{{name: a, expect: needs_approval, tier: med, two_person: false, {PERSON}}}", []),
        (f"{{name: a, expect: needs_approval, tier: high, {PERSON}}}", ["expected tier high, got med"]),
        (f"{{name: a, expect: needs_approval, two_person: true, {PERSON}}}", ["expected two people to approve"]),
        (
            f"{{name: a, expect: needs_approval, rule: reading, {PERSON}}}",
            ["expected rule 'reading' to decide, and rule 'changes want a person' did"],
        ),
        (
            "{name: a, expect: deny, tier: low, rule: x}",
            ["expected rule 'x' to decide, and no rule did", "expected tier low, got none"],
        ),
        (
            "{name: a, expect: allow, rule: reading is free, action: {connector: slack, operation: post, writes: no}}",
            [],
        ),
    ],
)
def test_a_case_has_each_difference(case: str, wrong: list[str]) -> None:
    """Only the fields that the case sets are compared."""
    assert _wrong(EXAMPLE, f"- {case}\n") == wrong


def test_a_case_can_give_every_fact() -> None:
    """Action, run, actor and time are as the worker would give them."""
    when = (
        'action.fields.sum == 3 && action.cost_estimate == 1.5 && run.tenant == "acme" && run.attributes.team == "ops"'
        ' && run.writes == 2 && run.trigger == "cron" && actor.name == "ann" && time.getHours() == 12'
    )
    case = """\
- name: all of it
  action: {fields: {sum: 3}, cost_estimate: 1.5}
  run: {tenant: acme, attributes: {team: ops}, writes: 2, trigger: cron}
  actor: ann
  time: 2026-05-01T12:00:00Z
  expect: allow
"""
    assert _wrong(file_of((when, "allow")), case) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- {name: a}", "cases.yaml:1:3: `expect` is missing"),
        ("- {name: a, expect: maybe}", "cases.yaml:1:21: `expect` must be one of allow, deny, needs_approval"),
        ("- {name: a, expect: deny, action: {conector: x}}", "cases.yaml:1:36: `conector` is not known here"),
        ("- {name: a, expect: deny, time: noon}", "cases.yaml:1:33: `time` must be text like 2026-05-01T12:00:00Z"),
        ("{name: a, expect: deny}", "cases.yaml:1:1: the file must be a list, not a mapping"),
        ("- {name: a, expect: deny, time: 2026-13-01}", "cases.yaml:1:33: '2026-13-01' is no time"),
        ("", "cases.yaml:1:1: the file is empty: it is a list of cases, such as `- {name: reading is free, "),
        ("# none yet", "the file is empty: it is a list of cases"),
    ],
)
def test_wrong_cases_are_refused_with_their_place(text: str, problem: str) -> None:
    """Cases are read as strictly as policies: a typing error must not count as a test."""
    with pytest.raises(InvalidPolicy) as raised:
        read_cases(text, "cases.yaml")
    assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        (("reading is free", "sums"), "cases.yaml:1:33: the policy has no rule 'sum': did you mean `sums`?"),
        (("reading is free",), "cases.yaml:1:33: the policy has no rule 'sum': there are `reading is free`"),
        ((), "cases.yaml:1:33: the policy has no rule 'sum': it has none"),
    ],
)
def test_a_rule_that_the_policy_does_not_have_is_a_mistake_of_the_case(rules: tuple[str, ...], problem: str) -> None:
    """It can never decide. The case must be corrected; the policy may be right."""
    with pytest.raises(InvalidPolicy) as raised:
        read_cases("- {name: a, expect: deny, rule: sum}", "cases.yaml", rules)
    assert problem in str(raised.value)
    assert read_cases("- {name: a, expect: deny, rule: sum}", "cases.yaml", ("sum",))


def test_the_text_for_an_empty_file_shows_a_case_that_can_be_read() -> None:
    """A reader can copy it."""
    assert read_cases(CONTENT.split("`")[1], "cases.yaml")[0].expect == "allow"


def test_a_time_without_a_zone_is_utc() -> None:
    """As everywhere on the command line."""
    assert microseconds("2026-05-01T12:00:00") == microseconds("2026-05-01T14:00:00+02:00") == NOON
