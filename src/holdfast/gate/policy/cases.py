"""Tests of a policy: a YAML list of actions, each with the ruling that is expected."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterator
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.gate.policy.file import Tier, read_as
from holdfast.gate.policy.place import Path
from holdfast.gate.policy.policy import Policy, RuleEffect, Ruling
from holdfast.gate.policy.shape import nearest
from holdfast.gate.proposals import Proposal, Risk, RunFacts
from holdfast.journal.cbor import canonical

Moment = Annotated[
    str,
    Meta(
        pattern=r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?$",
        description="when it is; 1970-01-01T00:00:00Z unless it is given",
        examples=["2026-05-01T12:00:00Z"],
    ),
]


CONTENT: Final = "it is a list of cases, such as `- {name: reading is free, action: {writes: false}, expect: allow}`"


class CaseAction(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A proposed action. Fields that are left out are empty, except ``writes``, which is true."""

    name: str = ""
    connector: str = ""
    operation: str = ""
    target: str = ""
    fields: dict[str, Any] = {}
    writes: bool = True
    risk: Risk = "low"
    cost_estimate: float = 0.0

    def proposal(self) -> Proposal:
        return Proposal(key="", request=canonical(self.fields), **msgspec.structs.asdict(self))


class CaseRun(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The run that proposes it. Fields that are left out are empty; the tenant is the default one."""

    tenant: str = "default"
    run: str = ""
    workspace: str = ""
    workflow: str = ""
    attributes: dict[str, str] = {}
    trigger: str | None = None
    writes: int = 0

    def facts(self, actor: str | None) -> RunFacts:
        return RunFacts(actor=actor, **msgspec.structs.asdict(self))


class PolicyCase(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An action and the ruling that is expected."""

    name: Annotated[str, Meta(min_length=1, description="what the case shows")]
    expect: Annotated[RuleEffect, Meta(description="the effect that is expected: allow, deny or needs_approval")]
    action: CaseAction = CaseAction()
    run: CaseRun = CaseRun()
    actor: str | None = None
    time: Moment = "1970-01-01T00:00:00Z"
    rule: Annotated[str, Meta(description="the rule that must decide")] | UnsetType = UNSET
    tier: Annotated[Tier, Meta(description="the tier of the approval")] | UnsetType = UNSET
    two_person: Annotated[bool, Meta(description="whether two people must approve")] | UnsetType = UNSET


class Result(Struct, frozen=True):
    """The policy's ruling on a case. ``wrong`` has each difference; a case without one has passed."""

    case: PolicyCase
    ruling: Ruling
    wrong: list[str]


def read_cases(text: str, source: str, rules: Collection[str] | None = None) -> list[PolicyCase]:
    """The cases of a file. Raises InvalidPolicy with every problem, each with its line and column.

    ``rules`` are the names of the policy's rules: a case that expects another name could never pass.
    """

    def check(cases: list[PolicyCase]) -> Iterator[tuple[Path, str]]:
        yield from _timely(cases)
        for number, case in enumerate(cases):
            if rules is not None and not isinstance(case.rule, UnsetType) and case.rule not in rules:
                known = nearest(case.rule, rules) if rules else ": it has none"
                yield (number, "rule"), f"the policy has no rule {case.rule!r}{known}"

    return read_as(text, source, list[PolicyCase], check, CONTENT)


def try_cases(policy: Policy, cases: list[PolicyCase]) -> Iterator[Result]:
    """Try a policy with each case, in order."""
    for case in cases:
        ruling = policy.decide(case.action.proposal(), case.run.facts(case.actor), microseconds(case.time))
        yield Result(case, ruling, list(_differences(case, ruling)))


def microseconds(moment: str) -> int:
    """A time in ISO 8601 as microseconds since 1970; UTC where it names no zone. Raises ValueError."""
    parsed = datetime.datetime.fromisoformat(moment)
    aware = parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=datetime.UTC)
    return (aware - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)


def _timely(cases: list[PolicyCase]) -> Iterator[tuple[Path, str]]:
    """The problems of times that have the right pattern, and do not exist."""
    for number, case in enumerate(cases):
        try:
            microseconds(case.time)
        except ValueError:
            yield (number, "time"), f"{case.time!r} is no time: write 2026-05-01T12:00:00Z"


def _differences(case: PolicyCase, ruling: Ruling) -> Iterator[str]:
    if ruling.effect != case.expect:
        yield f"expected {case.expect}, got {ruling.effect}: {ruling.reason}"
        return
    if not isinstance(case.rule, UnsetType) and case.rule != ruling.rule:
        decided = "no rule" if ruling.rule is None else f"rule {ruling.rule!r}"
        yield f"expected rule {case.rule!r} to decide, and {decided} did"
    approval = ruling.approval
    if not isinstance(case.tier, UnsetType) and (approval is None or approval.tier != case.tier):
        yield f"expected tier {case.tier}, got {'none' if approval is None else approval.tier}"
    if not isinstance(case.two_person, UnsetType) and (approval is not None and approval.two_person) != case.two_person:
        yield f"expected {'two people' if case.two_person else 'one person'} to approve"
