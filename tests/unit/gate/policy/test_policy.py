"""The decisions of a policy: rules and facts in, a ruling out."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.gate.policy.policy import (
    NO_POLICY,
    NO_RULE_HOLDS,
    NOT_IN_FORCE,
    REMEMBERED,
    SLOWEST_NANOSECONDS,
    Approval,
    Policy,
    load,
    parse,
)
from holdfast.gate.proposals import Proposal, RunFacts
from tests.unit.gate.policy.policies import EXAMPLE, NOON, PROPOSAL, RUN, Clock, policy_of, proposal, run


def test_the_first_rule_that_holds_decides() -> None:
    """The order counts: later rules are not evaluated."""
    policy = policy_of(("false", "deny"), ("action.writes", "allow"), ("true", "deny"))
    ruling = policy.decide(PROPOSAL, RUN, NOON)
    assert (ruling.effect, ruling.rule, ruling.stage) == ("allow", "r1", "policy")
    assert policy.decide(proposal(writes=False), RUN, NOON).rule == "r2"


@pytest.mark.parametrize("rules", [[], [("false", "allow")], [("!action.writes", "allow")]])
def test_what_no_rule_allows_is_denied(rules: list[tuple[str, str]]) -> None:
    """Without a rule there is no permission."""
    ruling = policy_of(*rules).decide(PROPOSAL, RUN, NOON)
    assert (ruling.effect, ruling.rule, ruling.reason) == ("deny", None, NO_RULE_HOLDS)


def test_each_effect_says_what_it_asks_and_by_which_policy() -> None:
    """A ruling carries the rule, a reason and the hash of the file's bytes."""
    policy = parse(EXAMPLE, "policy.yaml")
    allowed = policy.decide(proposal(writes=False), RUN, NOON)
    asked = policy.decide(PROPOSAL, RUN, NOON)
    denied = policy_of(("true", "deny")).decide(PROPOSAL, RUN, NOON)
    assert (allowed.effect, allowed.rule, allowed.approval) == ("allow", "reading is free", None)
    assert (asked.effect, asked.approval) == ("needs_approval", Approval("med", False, 14400, ("ann", "oncall-*")))
    assert "changes want a person" in asked.reason
    assert (denied.effect, denied.reason) == ("deny", "rule 'r0' denies it")
    assert policy.hash == asked.policy == f"sha256:{hashlib.sha256(EXAMPLE.encode()).hexdigest()}"
    assert policy.source == "policy.yaml"


def test_an_approval_is_medium_by_one_person_for_ever_unless_it_says_otherwise() -> None:
    """These are the defaults of the file."""
    assert policy_of(("true", "needs_approval")).decide(PROPOSAL, RUN, NOON).approval == Approval("med")


def test_without_a_policy_everything_is_denied_with_the_remedy() -> None:
    """A forgotten policy allows nothing."""
    ruling = NO_POLICY.decide(proposal(writes=False), RUN, NOON)
    assert (ruling.effect, ruling.reason, ruling.policy) == ("deny", NOT_IN_FORCE, "none")
    assert (NO_POLICY.limits, NO_POLICY.max_writes("acme", "triage")) == (None, None)


@pytest.mark.parametrize(
    ("connector", "operation", "stage"),
    [
        ("servicenow", "incident.close", "policy"),
        ("slack", "post", "policy"),
        ("slack", "post.all", "allowlist"),
        ("github", "merge", "allowlist"),
        ("servicenow/x", "y", "allowlist"),
        ("Slack", "post", "allowlist"),
    ],
)
def test_what_is_not_on_the_allowlist_is_denied_before_any_rule(connector: str, operation: str, stage: str) -> None:
    """Connector and operation are matched separately, and case counts; a second decision is the same."""
    policy = parse(
        'version: 1\nallowlist: ["servicenow/*", slack/post]\nrules: [{name: a, when: true, effect: allow}]', "p"
    )
    for _ in range(2):
        ruling = policy.decide(proposal(connector=connector, operation=operation), RUN, NOON)
        assert ruling.stage == stage
        assert ruling.effect == ("allow" if stage == "policy" else "deny")
    assert stage == "policy" or f"{connector}/{operation} is not on the allowlist" in ruling.reason


@pytest.mark.parametrize(
    "when",
    [
        'action.name == "close_incident" && action["operation"] == "incident.close"',
        'action.target.startsWith("INC") && action.target.matches("^INC[0-9]+$")',
        'action.fields.number == "INC1" && action.fields["sum"] > 49 && action.fields.sum < 50.5',
        "has(action.fields.sum) && !has(action.fields.other) && has(action.writes) && has(action.fields)",
        '"sum" in action.fields && !("other" in action.fields) && !("x" in run.attributes)',
        '("su" + "m") in action.fields && size(action.fields) == 2',
        'action.fields.exists(key, key == "sum") && action.fields.size() == 2',
        'action.fields[action.fields.exists(k, k == "sum") ? "sum" : "number"] == 50',
        "action.cost_estimate == 0.0 && action.cost_estimate < 1",
        'run.tenant == "acme" && run.run == "run-1" && run.workspace == "north" && run.workflow == "triage"',
        'run.attributes.team == "ops" && has(run.attributes.team) && run.trigger == "cron" && run.writes == 2',
        'actor.name == "ann" && {"ann": true}[actor.name]',
        'time.getHours() == 12 && time.getDayOfWeek() == 5 && time > timestamp("2026-01-01T00:00:00Z")',
        "time - duration('1h') < time",
        '[action].exists(a, a.risk == "med") && [run].all(r, r.writes == 2) && [actor].size() == 1',
        "action.writes // a comment with a ) in it",
        'r"\\d" == "\\\\d" && \'it "is"\' == "it \\"is\\"" && """a"b""" == \'a"b\'',
        "!(action.fields.missing > 1 && false)",
        "type(action.fields.sum) == int && string(action.fields.sum) == '50'",
        "[1, 2].map(x, x * 2) == [2, 4] && [1, 2].filter(x, x > 1).size() == 1",
        "size('πέντε') == 5 && 'ÿ'.size() == 1 && [1, 2, 3].all(x, 6 / (2 - x) == 6) == false",
        "time.getHours('Asia/Kathmandu') == 17 && string(duration('1000s')) == '1000s' && int(time) > 0",
        "bool('true') && {1: 'a'}[1u] == 'a' && 1 != 'a' && duration('1h') + time > time",
    ],
)
def test_an_expression_can_ask_for_every_fact(when: str) -> None:
    """Each expression holds, together with other rules and alone."""
    for policy in (policy_of((when, "allow")), policy_of(("false", "deny"), (when, "allow"), ("true", "deny"))):
        ruling = policy.decide(PROPOSAL, RUN, NOON)
        assert ruling.effect == "allow", ruling.reason
        assert policy.decide(PROPOSAL, RUN, NOON) == ruling


@pytest.mark.parametrize(
    ("rules", "effect", "rule"),
    [
        ([('actor.name != "bob"', "allow")], "deny", None),
        ([('actor.name == ""', "allow")], "deny", None),
        ([('actor.name == "admin"', "allow"), ("true", "allow")], "allow", "r1"),
        ([('actor.name == "bob"', "deny"), ("true", "allow")], "deny", "r0"),
        ([('actor.name != "admin"', "needs_approval"), ("true", "allow")], "deny", "r0"),
        ([('actor.name == "bob" && action.risk == "high"', "deny"), ("true", "allow")], "allow", "r1"),
        ([('actor.name == "bob" || action.risk == "med"', "deny"), ("true", "allow")], "deny", "r0"),
        ([("!has(actor.name)", "allow")], "allow", "r0"),
        ([("has(actor.name)", "allow")], "deny", None),
        ([('actor == {"name": ""}', "allow")], "deny", None),
        ([("actor.name < 1", "allow"), ("true", "allow")], "deny", "r0"),
    ],
)
def test_a_rule_that_depends_on_who_started_the_run_is_not_passed_where_nobody_knows(
    rules: list[tuple[str, str]], effect: str, rule: str | None
) -> None:
    """A rule that allows does not hold, another rule denies. A rule that does not need the starter decides as usual."""
    policy = policy_of(*rules)
    for _ in range(2):  # remembered, it is the same
        ruling = policy.decide(PROPOSAL, run(actor=None), NOON)
        assert (ruling.effect, ruling.rule) == (effect, rule)
    known = policy.decide(PROPOSAL, run(actor="ann"), NOON)
    assert policy.decide(PROPOSAL, run(actor=None), NOON) == ruling
    assert policy.decide(PROPOSAL, run(actor="ann"), NOON) == known


def test_a_denial_for_want_of_a_starter_says_so() -> None:
    """The reason has the remedy."""
    policy = policy_of(('actor.name == "bob"', "deny"))
    ruling = policy.decide(PROPOSAL, run(actor=None), NOON)
    assert ruling.reason.endswith("it depends on who started the run, and that is not known: start the run with actor=")
    (step,) = policy.steps(PROPOSAL, run(actor=None), NOON)
    assert step.outcome == "error"
    assert "actor=" in step.detail


def test_a_run_without_a_trigger_has_none() -> None:
    """It is null, not an error."""
    assert policy_of(("run.trigger == null", "allow")).decide(PROPOSAL, run(trigger=None), NOON).effect == "allow"


@pytest.mark.parametrize(
    ("when", "fields", "problem"),
    [
        ("action.fields.missing > 1", {}, "there is no 'missing'"),
        ('action.fields["missing"] == 1', {}, "there is no 'missing'"),
        ("action.fields.a < 'x'", {"a": 1}, "No such overload"),
        ("action.risk", {}, "it gives 'med', which is neither true nor false"),
        ("action.fields.a", {"a": None}, "neither true nor false"),
        ("action.fields.a", {"a": 1}, "neither true nor false"),
        ("1 / action.fields.a == 1", {"a": 0}, "division by zero"),
        ("action.fields.a == 1", {"a": object()}, "CEL has no values of type object"),
        ("action.fields.a == 1", {"a": print}, "CEL has no values of type"),
        ("action.fields.a.matches('(')", {"a": "x"}, "the pattern of matches() is invalid"),
        ("action.fields.l[5] == 1", {"l": [1]}, "index out of bounds"),
    ],
)
def test_a_rule_that_cannot_be_evaluated_denies_and_is_named(when: str, fields: dict[str, Any], problem: str) -> None:
    """It fails closed: a later rule that allows is not evaluated, and the reason names the rule and the problem."""
    policy = policy_of(("false", "allow"), (when, "allow"), ("true", "allow"))
    for _ in range(2):
        ruling = policy.decide(proposal(fields=fields), RUN, NOON)
        assert (ruling.effect, ruling.rule) == ("deny", "r1")
        assert "rule 'r1' cannot be evaluated" in ruling.reason
        assert problem in ruling.reason


@pytest.mark.parametrize(
    ("when", "fields", "explained"),
    [
        ("action.fields.a * 4611686018427387904 > 0", {"a": 77777}, "integer overflow"),
        ("duration(action.fields.a) > duration('1s')", {"a": "x77777"}, "Duration conversion failed"),
        ("action.fields.a.matches(action.fields.b)", {"a": "x", "b": "77777("}, "77777("),
        ("action.fields.m[action.fields.k] == 1", {"m": {}, "k": "77777"}, "77777"),
        ("action.fields.a", {"a": "77777"}, "77777"),
        ("action.fields.a", {"a": ["b", {"c": 77777}]}, "77777"),
        ("action.fields.a == 1", {"a": 77777 * 2**64}, "an integer has more than 64 bits"),
    ],
)
def test_a_reason_quotes_no_argument(when: str, fields: dict[str, Any], explained: str) -> None:
    """The reason is in the audit, which has only type, size and hash of values. `policy explain` shows the values."""
    policy = policy_of((when, "allow"))
    reason = policy.decide(proposal(fields=fields), RUN, NOON).reason
    assert "rule 'r0' cannot be evaluated: " in reason
    assert "777" not in reason
    assert explained in next(policy.steps(proposal(fields=fields), RUN, NOON)).detail


def test_a_broken_rule_does_not_affect_an_earlier_rule_that_decides() -> None:
    """Rules after the deciding one do not count, even if all are evaluated together."""
    broken = ("action.fields.a == 1", "deny")
    assert (
        policy_of(("action.writes", "allow"), broken).decide(proposal(fields={"a": object()}), RUN, NOON).rule == "r0"
    )
    assert policy_of(("action.writes", "allow"), broken).decide(proposal(fields={}), RUN, NOON).rule == "r0"


VALUES = [0, 1, 2, True, False, None, 1.0, 0.0, -0.0, float("nan"), "x", "", "1", b"x", [1], {"c": 1}, {}, 2**63, 2**70]
ODD = [*VALUES, print, object(), ...]


@pytest.mark.parametrize("when", ["action.fields.a == 1", "1.0 / action.fields.a > 0.0", "has(action.fields.a)"])
def test_no_value_is_mistaken_for_the_one_before_it(when: str) -> None:
    """Any two values in a row, or a missing one, get the same rulings as alone."""
    cases = [proposal(fields={"a": value}) for value in ODD] + [proposal(fields={})]
    for before in cases:
        for after in cases:
            policy = policy_of((when, "allow"))
            policy.decide(before, RUN, NOON)
            assert policy.decide(after, RUN, NOON) == _meaning(policy, after, RUN, NOON), (before.fields, after.fields)


def test_a_list_that_changed_in_place_is_read_again() -> None:
    """Only values that cannot change are remembered."""
    policy, items = policy_of(("2 in action.fields.items", "allow")), [1]
    assert policy.decide(proposal(fields={"items": items}), RUN, NOON).effect == "deny"
    items.append(2)
    assert policy.decide(proposal(fields={"items": items}), RUN, NOON).effect == "allow"


def test_a_time_outside_of_the_calendar_is_denied() -> None:
    """There is a ruling for any time."""
    ruling = policy_of(("time.getHours() < 30", "allow")).decide(PROPOSAL, RUN, 10**20)
    assert (ruling.effect, ruling.rule) == ("deny", "r0")


def test_a_policy_that_takes_too_long_denies_and_says_so() -> None:
    """The time is measured twice, so one pause of the machine does not deny."""
    slow = SLOWEST_NANOSECONDS + 1
    # The clock is read before and after all rules together, then before the first rule alone, and after each.
    twice = policy_of(("true", "allow"), clock=Clock(0, slow, 0, slow)).decide(PROPOSAL, RUN, NOON)
    assert (twice.effect, twice.rule) == ("deny", "r0")
    assert "took too long" in twice.reason
    assert "50 ms" in twice.reason
    once = policy_of(("true", "allow"), clock=Clock(0, slow, 0, 0)).decide(PROPOSAL, RUN, NOON)
    assert once.effect == "allow"


def test_a_policy_that_was_slow_is_not_remembered_as_slow() -> None:
    """The time is no fact of the action: the next decision is measured again."""
    slow = SLOWEST_NANOSECONDS + 1
    policy = policy_of(("true", "allow"), clock=Clock(0, slow, 0, slow))
    assert [policy.decide(PROPOSAL, RUN, NOON).effect for _ in range(2)] == ["deny", "allow"]


def test_a_really_slow_rule_is_denied() -> None:
    """By the real clock."""
    when = f"{[0] * 3000}.map(a, a).size() > 0"
    ruling = policy_of((when, "allow")).decide(PROPOSAL, RUN, NOON)
    assert (ruling.effect, ruling.rule) == ("deny", "r0")
    assert "took too long" in ruling.reason


@pytest.mark.parametrize("count", [1, 31, 32, 33, 200])
def test_any_number_of_rules_is_judged_in_order(count: int) -> None:
    """Too many rules for one expression become several expressions."""
    policy = policy_of(*((f"run.writes == {number}", "allow") for number in range(count)))
    for number in {0, count // 2, count - 1}:
        assert policy.decide(PROPOSAL, run(writes=number), NOON).rule == f"r{number}"
    assert policy.decide(PROPOSAL, run(writes=count), NOON).rule is None


def test_rules_that_nest_deeply_are_judged_too() -> None:
    """Rules that cannot be one expression are evaluated one by one."""
    deep = "(" * 90 + "action.writes" + ")" * 90
    policy = policy_of(("false", "deny"), *[(deep, "deny")] * 3, ("true", "allow"))
    assert policy.decide(proposal(writes=False), RUN, NOON).rule == "r4"
    assert policy.decide(PROPOSAL, RUN, NOON).rule == "r1"


def test_what_is_remembered_is_bounded() -> None:
    """A policy does not grow with the actions that it judges."""
    policy = policy_of(('action.target == "x"', "allow"))
    for number in range(REMEMBERED + 10):
        policy.decide(proposal(target=str(number)), RUN, NOON)
    assert len(policy._remembered) == 10
    policy = policy_of(('action.fields.text == "x"', "allow"))
    policy.decide(proposal(fields={"text": "x" * 10_000}), RUN, NOON)
    assert len(policy._remembered) == 0


def test_a_policy_is_loaded_from_a_file(tmp_path: Any) -> None:
    """The hash is of the bytes, so a comment makes another policy."""
    path = tmp_path / "policy.yaml"
    path.write_text(EXAMPLE, encoding="utf-8")
    first = load(path)
    path.write_text(f"{EXAMPLE}# more\n", encoding="utf-8")
    assert (first.source, first.rules) == (str(path), ("reading is free", "changes want a person"))
    assert load(str(path)).hash != first.hash


def test_there_is_a_step_for_each_rule() -> None:
    """Each rule is evaluated by itself, even after the one that decides."""
    policy = policy_of(("false", "deny"), ("action.fields.x", "deny"), ("true", "allow"))
    steps = list(policy.steps(PROPOSAL, RUN, NOON))
    assert [step.outcome for step in steps] == ["not matched", "error", "matched"]
    assert "there is no 'x'" in steps[1].detail


_ATOMS = [
    "action.writes",
    'action.risk == "high"',
    'action.connector == "slack"',
    'action.target.startsWith("p")',
    "action.fields.a == 1",
    "action.fields.a > 1",
    "action.fields.b == true",
    "has(action.fields.a)",
    '"b" in action.fields',
    'action.fields.a in [1, "x"]',
    "action.fields.size() == 1",
    "1.0 / action.cost_estimate > 0.0",
    'action["risk"] == "low"',
    'run.tenant == "acme"',
    "run.writes > 1",
    'run.attributes.team == "ops"',
    'actor.name == "ann"',
    "time.getHours() < 6",
    '[action].exists(a, a.risk == "low")',
    "action.fields.a",
    "action.fields.b.c == 1",
]
_expressions = st.recursive(
    st.sampled_from(_ATOMS),
    lambda inner: (
        st.tuples(inner, st.sampled_from(["&&", "||"]), inner).map(lambda parts: f"({' '.join(parts)})")
        | inner.map(lambda part: f"!({part})")
    ),
    max_leaves=3,
)
_values = st.sampled_from(VALUES)
_proposals = st.builds(
    proposal,
    writes=st.booleans(),
    risk=st.sampled_from(["low", "med", "high"]),
    connector=st.sampled_from(["slack", "x"]),
    target=st.sampled_from(["prod", "dev"]),
    fields=st.dictionaries(st.sampled_from(["a", "b", "z"]), _values, max_size=3),
    cost_estimate=st.sampled_from([0.0, -0.0, 1, 2.5]),
)
_runs = st.builds(
    run,
    tenant=st.sampled_from(["acme", "beta"]),
    writes=st.integers(0, 3),
    actor=st.sampled_from([None, "ann"]),
    attributes=st.dictionaries(st.just("team"), st.sampled_from(["ops", "dev"]), max_size=1),
)


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.tuples(_expressions, st.sampled_from(["allow", "deny", "needs_approval"])), min_size=1, max_size=4),
    st.lists(st.tuples(_proposals, _runs, st.sampled_from([0, NOON])), min_size=1, max_size=25),
)
def test_the_fast_ways_give_the_answer_of_the_rules_one_by_one(
    rules: list[tuple[str, str]], cases: list[tuple[Proposal, RunFacts, int]]
) -> None:
    """Flat variables, rules in one expression and remembered rulings change no ruling."""
    policy = policy_of(*rules, clock=Clock())
    for case in [*cases, *reversed(cases)]:
        assert policy.decide(*case) == _meaning(policy, *case)


def _meaning(policy: Policy, proposal: Proposal, run: RunFacts, now: int) -> Any:
    """The ruling of the rules in order, each evaluated by itself."""
    ruling, _ = policy._one_by_one(proposal, run, now)
    return ruling
