"""Shared parts of the policy's tests: a proposal, a run, and files made of rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from holdfast.gate.policy.policy import Policy, parse
from holdfast.gate.proposals import Proposal, RunFacts
from holdfast.journal.cbor import canonical

NOON = 1_777_636_800_000_000  # 2026-05-01T12:00:00Z, a Friday


def _request(fields: Mapping[str, Any]) -> bytes:
    try:
        return canonical(fields)
    except Exception:  # no action could have such an argument, but rules must handle anything
        return b""


PROPOSAL = Proposal(
    name="close_incident",
    connector="servicenow",
    operation="incident.close",
    target="INC1",
    fields={"number": "INC1", "sum": 50},
    request=_request({"number": "INC1", "sum": 50}),
    writes=True,
    risk="med",
    key="k-1",
)
RUN = RunFacts("acme", "run-1", "triage", "north", actor="ann", attributes={"team": "ops"}, writes=2, trigger="cron")

EXAMPLE = """\
version: 1
allowlist: ["servicenow/*", "slack/post"]
caps:
  default: {max_concurrency: 50, max_runs_per_min: 600, max_writes_per_run: 20}
  tenants:
    acme: {weight: 3, max_concurrency: 100, workflows: {triage: {max_writes_per_run: 5}}}
rules:
  - name: reading is free
    when: "!action.writes"
    effect: allow
  - name: changes want a person
    when: action.connector == "servicenow" && action.risk != "low"
    effect: needs_approval
    tier: med
    two_person: false
    expires_in: 4h
    candidates: [ann, "oncall-*"]
"""


def proposal(**changes: Any) -> Proposal:
    """The proposal with changes; its request follows its fields."""
    made = msgspec.structs.replace(PROPOSAL, **changes)
    return msgspec.structs.replace(made, request=_request(made.fields))


def run(**changes: Any) -> RunFacts:
    return msgspec.structs.replace(RUN, **changes)


def file_of(*rules: tuple[str, str]) -> str:
    """A policy file of rules, each an expression and an effect; they are called r0, r1, …"""
    lines = [
        f"  - name: r{number}\n    when: {msgspec.json.encode(when).decode()}\n    effect: {effect}\n"
        for number, (when, effect) in enumerate(rules)
    ]
    return "version: 1\nrules:\n" + "".join(lines) if lines else "version: 1\nrules: []\n"


def policy_of(*rules: tuple[str, str], clock: Callable[[], int] | None = None) -> Policy:
    text = file_of(*rules)
    return parse(text, "policy.yaml") if clock is None else parse(text, "policy.yaml", clock=clock)


class Clock:
    """A clock that moves only by the next of these steps, each time it is read."""

    def __init__(self, *steps: int) -> None:
        self.steps = list(steps)
        self.now = 0

    def __call__(self) -> int:
        self.now += self.steps.pop(0) if self.steps else 0
        return self.now
