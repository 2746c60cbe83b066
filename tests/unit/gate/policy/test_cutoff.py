"""No rule stops its worker: a rule that may be slow is evaluated in a process that can be ended."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.gate.policy.policy import Policy, parse
from holdfast.gate.policy.process import CUT_OFF_SECONDS, CutOff, PolicyProcess
from holdfast.gate.policy.weight import QUICK, weigh
from tests.scope import one_stays
from tests.unit.gate.policy.policies import NOON, PROPOSAL, RUN, policy_of, proposal

BOUND_SECONDS = 0.05
MANY = list(range(9_000))
SLOW = "action.fields.x.map(a, action.fields.x).size() > 0"

ENDLESS = [  # each takes many times what the cut-off allows, also on a fast machine
    (SLOW, {"x": MANY}),
    ("action.fields.x.map(a, action.fields.x.map(b, a)).size() > 0", {"x": MANY}),
    ("action.fields.x.filter(a, true).size() > 0", {"x": MANY}),
    (
        "action.fields.x.all(a, !action.fields.s.matches(action.fields.p))",
        {"x": MANY, "s": "a" * 999, "p": "(a?){100}c"},
    ),
    ("action.fields.x.all(a, !('a'.matches('\\\\w{999}')))", {"x": MANY}),
]


@pytest.mark.parametrize(("when", "fields"), one_stays(ENDLESS))
def test_a_rule_that_takes_too_long_is_cut_off_and_denies(when: str, fields: dict[str, Any]) -> None:
    """In time, however long it would take; the ruling names it. The next decision is not affected."""
    policy = policy_of(("false", "allow"), (when, "allow"), ("true", "allow"))
    policy.decide(proposal(fields={**fields, "x": [1]}), RUN, NOON)  # this starts its process
    began = time.monotonic()
    ruling = policy.decide(proposal(fields=fields), RUN, NOON)
    assert time.monotonic() - began < 30
    assert (ruling.effect, ruling.rule) == ("deny", "r1")
    assert "the policy took too long" in ruling.reason
    assert not policy.is_quick(proposal(fields=fields), RUN)


@pytest.mark.parametrize(
    "when",
    [
        "action.fields.x.all(a, !action.fields.x.exists(b, b == a + 1000000))",
        "action.fields.x.filter(a, action.fields.x.filter(b, b == a).size() > 0).size() > 0",
        "[1,2,3].all(a, action.fields.x.all(b, action.fields.x.all(c, c >= 0)))",
        "action.fields.x.all(a, a >= 0) && !(action.fields.x.exists(a, a < 0))",
    ],
)
def test_a_rule_that_loops_too_often_is_refused_and_denies(when: str) -> None:
    """The limit is 9,999 loops in one evaluation; the ruling names the rule, and later rules are not evaluated."""
    policy = policy_of((when, "allow"), ("true", "allow"))
    ruling = policy.decide(proposal(fields={"x": MANY}), RUN, NOON)
    assert (ruling.effect, ruling.rule) == ("deny", "r0")
    assert ruling.reason == "rule 'r0' cannot be evaluated: it loops too often for one evaluation"
    assert policy.decide(proposal(fields={"x": MANY[:50]}), RUN, NOON).effect == "allow"


def test_each_rule_has_a_step_even_if_one_is_cut_off() -> None:
    """As in `policy explain`: the rules after it are still evaluated."""
    policy = policy_of(("false", "allow"), (SLOW, "allow"), ("true", "allow"))
    steps = list(policy.steps(proposal(fields={"x": MANY}), RUN, NOON))
    assert [step.outcome for step in steps] == ["not matched", "error", "matched"]
    assert steps[1].detail == "it took too long, and was cut off"


@pytest.mark.parametrize(
    ("when", "effect"),
    [
        (f'action.operation == "other" && {SLOW}', "deny"),
        (f"size(action.fields.x) < 100 && {SLOW}", "deny"),
        (f'action.operation == "incident.close" || {SLOW}', "allow"),
        ("action.fields.x.exists(a, a == 8999)", "allow"),
        ("size(action.fields.x) == 9000", "allow"),
        ("action.fields.x.all(a, a >= 0)", "allow"),
    ],
)
def test_a_rule_that_is_quick_after_all_decides(when: str, effect: str) -> None:
    """A guard in front of a loop counts: the cost without the guard does not matter."""
    ruling = policy_of((when, "allow")).decide(proposal(fields={"x": MANY}), RUN, NOON)
    assert ruling.effect == effect
    assert "too long" not in ruling.reason


EVERY = [
        "action.fields.x == action.fields.x", "action.fields.x + action.fields.x == action.fields.x",
        "action.fields.x.all(a, a != 7)", "action.fields.x.exists(a, a == 7)", "action.fields.s.matches('a+b')",
        "action.fields.x.map(a, a).size() > 2", "action.fields.s.contains('b')", "size(action.fields) > 1",
        "action.fields.x.exists(a, action.fields.x.exists(b, a == b))", "action.fields.s + action.fields.s != 'a'",
        "action.fields.m.exists(k, action.fields.m[k] == 2)", "string(action.fields.s) == action.fields.s",
        "action.fields.x.filter(a, a != 1).map(b, [b, b]).size() > 1", "action.fields.s.matches('[0-9]{1,50}c')",
        "bytes(action.fields.s) == b'a'", "'a' in action.fields.m", "action.fields.s.matches('\\\\w+x')",
]  # fmt: skip
TERMS = st.sampled_from(EVERY)
POLICIES = [  # few, as each starts a process
    policy_of(*[(f"({term}) == {wanted}", "deny") for term in EVERY[first:]])
    for first, wanted in ((0, "false"), (5, "true"), (11, "false"))
]
VALUES = st.fixed_dictionaries(
    {
        "x": st.integers(0, 3000).map(lambda count: list(range(count))),
        "s": st.integers(0, 100_000).map(lambda count: "ab" * count),
        "m": st.integers(0, 2000).map(lambda count: {str(number): number for number in range(count)}),
    }
)


@settings(deadline=None, max_examples=150)
@given(st.lists(TERMS, min_size=1, max_size=12), VALUES)
def test_a_decision_in_this_process_takes_less_than_the_bound(terms: list[str], fields: dict[str, Any]) -> None:
    """For any policy and facts: either the other process decides, or it is quick here."""
    policy = policy_of(*[(term, "deny") for term in terms])
    offered = proposal(fields=fields)
    began = time.thread_time()
    quick = policy.is_quick(offered, RUN)
    if quick:
        policy.decide(offered, RUN, NOON)
    assert time.thread_time() - began < BOUND_SECONDS, (quick, terms)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(POLICIES), st.lists(st.integers(0, 9), max_size=6), st.text("ab", max_size=6))
def test_both_processes_decide_alike(policy: Policy, x: list[int], s: str) -> None:
    """For rules that are quick enough for both."""
    offered = proposal(fields={"x": x, "s": s, "m": {"a": 2, "b": 3}})
    assert policy._decided_in_process(offered, RUN, NOON) == policy._one_by_one(offered, RUN, NOON)[0]


def test_usual_rules_are_evaluated_at_once() -> None:
    """No process is started for them: over an action of a few fields, one of a hundred rules."""
    rules = [(f'action.connector == "c{n}" && action.fields.sum > {n}', "allow") for n in range(100)]
    policy = policy_of(*rules, ('action.fields.to.all(a, a.endsWith("@example.org"))', "allow"))
    offered = proposal(fields={"sum": 50, "to": ["ann@example.org", "ben@example.org"], "text": "x" * 1000})
    assert policy.is_quick(offered, RUN)
    assert policy.decide(offered, RUN, NOON).rule == "r100"
    assert policy._process._process is None


def test_the_weight_of_a_value_is_counted_only_up_to_the_limit() -> None:
    """A million items are not counted one by one."""
    items, text = {"a": [list(range(1_000_000))] * 1000}, "x" * 10_000_000
    began = time.thread_time()
    assert weigh(items) > QUICK
    assert weigh(text) > QUICK
    assert time.thread_time() - began < BOUND_SECONDS
    assert weigh({"a": [1, {"b": 2}], "c": "x" * 32}) == 11


def test_a_process_that_is_gone_is_replaced() -> None:
    """The next question starts another."""
    policy = policy_of((SLOW, "allow"))
    offered = proposal(fields={"x": list(range(30))})
    assert policy.decide(offered, RUN, NOON).effect == "allow"
    process = policy._process._process
    assert process is not None
    process.kill()
    process.wait()
    assert policy.decide(offered, RUN, NOON).effect == "allow"
    assert policy._process._process is not process
    policy._process.end()
    policy._process.end()


def test_a_busy_machine_makes_no_policy_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only processor time of the process counts: it may stand still for longer than the cut-off. Not for ever."""
    policy = policy_of((SLOW, "allow"))
    offered = proposal(fields={"x": list(range(30))})
    assert policy.decide(offered, RUN, NOON).effect == "allow"
    process = policy._process._process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    goes_on = threading.Timer(4 * CUT_OFF_SECONDS, process.send_signal, [signal.SIGCONT])
    goes_on.start()
    assert policy.decide(offered, RUN, NOON).effect == "allow"
    goes_on.join()
    assert policy._process._process is process
    monkeypatch.setattr(policy._process, "_cut_off_seconds", 0.1)
    process.send_signal(signal.SIGSTOP)
    assert "the policy took too long" in policy.decide(offered, RUN, NOON).reason
    assert process.poll() is not None


def test_without_a_process_it_is_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails closed: the rule is not evaluated in this process."""
    monkeypatch.setattr("sys.executable", "/nowhere")
    ruling = policy_of((SLOW, "allow")).decide(proposal(fields={"x": list(range(30))}), RUN, NOON)
    assert (ruling.effect, ruling.reason) == ("deny", "the policy cannot be evaluated: FileNotFoundError")


def test_the_process_ends_with_its_policy() -> None:
    """No process stays when a changed file has replaced the policy."""
    child = _process_of_a_dropped_policy()
    assert child.wait(60) != 0


def _process_of_a_dropped_policy() -> subprocess.Popen[bytes]:
    """A process that has answered, of a policy that is gone then."""
    process = PolicyProcess(f"version: 1\nrules: [{{name: a, when: '{SLOW}', effect: allow}}]".encode(), "p")
    question = [None, ["", "", "", "", {"x": MANY}, b"", True, "low", ""], ["", "", ""], 0]
    with pytest.raises(CutOff, match=r"^a$"):
        process.ask(question)
    question[1][4] = {"x": [1]}  # type: ignore[index]
    assert process.ask(question) == [0, None]
    assert process._process is not None
    return process._process


def test_a_slow_rule_within_the_cut_off_is_denied() -> None:
    """A rule that takes more than 50 ms, and less than the cut-off, is denied with its time."""
    policy = parse(f"version: 1\nrules: [{{name: a, when: '{SLOW}', effect: allow}}]", "p")
    for count in (1000, 1500, 2000, 2500, 3000):
        ruling = policy.decide(proposal(fields={"x": list(range(count))}), RUN, NOON)
        if ruling.effect == "deny":
            break
    assert "the policy took too long" in ruling.reason
    assert policy.decide(PROPOSAL, RUN, NOON).effect == "deny"
