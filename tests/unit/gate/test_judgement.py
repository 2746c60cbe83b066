"""The gate's judgement as a table: facts in, one judgement out."""

from __future__ import annotations

from typing import Any

import cbor2
import msgspec
import pytest

from holdfast.gate import judgement as j
from holdfast.gate.policy.policy import Policy, parse
from holdfast.store.governance import TaskAnswer, TaskRow
from holdfast.store.receipts import ReceiptRow
from holdfast.tasks import answers as tasks
from tests.unit.gate.policy.policies import NOON, PROPOSAL, RUN
from tests.unit.tasks.test_answers import task


def policy(effect: str = "allow", **more: Any) -> Policy:
    rule = {"name": "r", "when": "true", "effect": effect, **more}
    return parse(msgspec.json.encode({"version": 1, "rules": [rule]}), "p")


def asking(tier: str = "med", **more: Any) -> Policy:
    return policy("needs_approval", tier=tier, **more)


def capped(writes: int, **more: Any) -> Policy:
    caps = {"default": {"max_writes_per_run": writes}}
    rule = {"name": "r", "when": "true", "effect": "allow"}
    return parse(msgspec.json.encode({"version": 1, "caps": caps, "rules": [rule], **more}), "p")


RECEIPT = ReceiptRow(
    tenant="acme",
    key="k-1",
    id="r-1",
    run="run-1",
    root=b"r" * 32,
    position=0,
    attempt=1,
    token="worker~1",
    state="pending",
    action="close_incident",
    connector="servicenow",
    operation="incident.close",
    target="INC1",
    writes=True,
    risk="med",
    proposal=PROPOSAL.digest(),
    request=b"\xa0",
    opened_at=NOON,
)
DONE = msgspec.structs.replace(RECEIPT, state="succeeded", request=PROPOSAL.request)
RECEIPT_OF_ANOTHER = msgspec.structs.replace(DONE, request=b"\xa0")
FAILED = msgspec.structs.replace(DONE, state="failed")
DETAILS = cbor2.dumps({"token": RECEIPT.token, "receipt": RECEIPT.id}, canonical=True)


def approval(status: str = "requested", **changes: Any) -> TaskRow:
    answers = (TaskAnswer("bob", status, "why not", 1),) if status in ("approved", "rejected") else ()
    return task(**{"status": status, "proposal": PROPOSAL.digest(), "answers": answers, **changes})


def outcome(verdict: str | None = None) -> TaskRow:
    plain = {"kind": "outcome", "id": "o-1", "details": DETAILS}
    if verdict is None:
        return task(**plain)
    status = "rejected" if verdict == tasks.GIVEN_UP else "approved"
    return task(**plain, status=status, answers=(TaskAnswer("bob", verdict, "I saw", 1, b"\x01"),))


def judged(
    ruled: Policy, known: j.Known | None = None, *, safe: bool = False, probe: bool = False, **more: Any
) -> j.Judgement:
    attempt = more.pop("attempt", 1)
    proposal = msgspec.structs.replace(PROPOSAL, **more)
    return j.judge(proposal, RUN, ruled, known or j.Known(), NOON, safe_to_retry=safe, has_probe=probe, attempt=attempt)


def known(**facts: Any) -> j.Known:
    return j.Known(**facts)


CASES: list[tuple[str, j.Judgement, type, dict[str, Any]]] = [
    ("allowed", judged(policy()), j.Act, {"task": None, "instead_of": None}),
    ("denied", judged(policy("deny")), j.Refuse, {"error": "ActionDenied", "stage": "policy", "rule": "r"}),
    ("asked for", judged(asking()), j.Ask, {"superseded": None}),
    ("waiting", judged(asking(), known(approval=approval())), j.Await, {"task": approval()}),
    ("approved", judged(asking(), known(approval=approval("approved"))), j.Act, {"task": approval("approved")}),
    (
        "rejected",
        judged(asking(), known(approval=approval("rejected"))),
        j.Refuse,
        {"error": "ApprovalRejected", "stage": "approval", "expired": None},
    ),
    (
        "out of time",
        judged(asking(), known(approval=approval(expires_at=NOON))),
        j.Refuse,
        {"error": "ApprovalExpired", "expired": approval(expires_at=NOON)},
    ),
    (
        "known to be expired",
        judged(asking(), known(approval=approval("expired"))),
        j.Refuse,
        {"error": "ApprovalExpired", "expired": None},
    ),
    ("asked again after a cancellation", judged(asking(), known(approval=approval("cancelled"))), j.Ask, {}),
    (
        "another proposal, still open",
        judged(asking(), known(approval=approval(proposal=b"other"))),
        j.Ask,
        {"superseded": approval(proposal=b"other")},
    ),
    (
        "another proposal was approved",
        judged(asking(), known(approval=approval("approved", proposal=b"other"))),
        j.Ask,
        {"superseded": None},
    ),
    (
        "another proposal was rejected",
        judged(asking(), known(approval=approval("rejected", proposal=b"other"))),
        j.Ask,
        {"superseded": None},
    ),
    (
        "a higher tier is wanted now",
        judged(asking("high"), known(approval=approval("approved"))),
        j.Ask,
        {"superseded": None},
    ),
    (
        "two people are wanted now",
        judged(asking(two_person=True), known(approval=approval())),
        j.Ask,
        {"superseded": approval()},
    ),
    (
        "the person who approved it may not any more",
        judged(asking(candidates=["cleo"]), known(approval=approval("approved"))),
        j.Ask,
        {"superseded": None},
    ),
    (
        "the person who approved it still may",
        judged(asking(candidates=["b*"]), known(approval=approval("approved"))),
        j.Act,
        {"task": approval("approved")},
    ),
    (
        "it was delegated, and the person who approved it may not any more",
        judged(asking(candidates=["cleo"]), known(approval=approval("approved", delegated_to="bob"))),
        j.Ask,
        {"superseded": None},
    ),
    (
        "it was delegated, and the person who approved it still may",
        judged(asking(candidates=["b*"]), known(approval=approval("approved", delegated_to="bob"))),
        j.Act,
        {},
    ),
    (
        "less is wanted now",
        judged(asking("low"), known(approval=approval("approved", tier="high", two_person=True))),
        j.Act,
        {},
    ),
    ("no approval is wanted now", judged(policy(), known(approval=approval())), j.Act, {"task": None}),
    ("denied now", judged(policy("deny"), known(approval=approval("approved"))), j.Refuse, {"error": "ActionDenied"}),
    ("at the cap", judged(capped(2)), j.Refuse, {"error": "ActionDenied", "stage": "caps"}),
    ("below the cap", judged(capped(3)), j.Act, {}),
    ("reading is not capped", judged(capped(2), writes=False), j.Act, {}),
    ("another attempt is not another write", judged(capped(2), attempt=2), j.Act, {}),
    (
        "a repetition is not another write",
        judged(capped(2), known(receipt=RECEIPT, own=True), safe=True),
        j.Act,
        {"counts": False},
    ),
    (
        "repeating the attempt of another call is another write",
        judged(capped(3), known(receipt=RECEIPT), safe=True),
        j.Act,
        {"instead_of": "worker~1", "counts": True},
    ),
    (
        "repeating the attempt of another call is capped",
        judged(capped(2), known(receipt=RECEIPT), safe=True),
        j.Refuse,
        {"stage": "caps"},
    ),
    ("unknown", judged(policy(), known(receipt=RECEIPT)), j.AskOutcome, {"receipt": RECEIPT}),
    ("unknown and asked", judged(policy(), known(receipt=RECEIPT, outcome=outcome())), j.Await, {"task": outcome()}),
    ("unknown and safe", judged(policy(), known(receipt=RECEIPT), safe=True), j.Act, {"instead_of": "worker~1"}),
    ("unknown, with a probe", judged(policy(), known(receipt=RECEIPT), probe=True), j.Probe, {"receipt": RECEIPT}),
    ("a probe before a repetition", judged(policy(), known(receipt=RECEIPT), probe=True, safe=True), j.Probe, {}),
    ("probed without a result", judged(policy(), known(receipt=RECEIPT, probed=True), probe=True), j.AskOutcome, {}),
    (
        "probed without a result, and safe",
        judged(policy(), known(receipt=RECEIPT, probed=True), probe=True, safe=True),
        j.Act,
        {"instead_of": "worker~1"},
    ),
    (
        "it happened",
        judged(policy(), known(receipt=RECEIPT, outcome=outcome(tasks.HAPPENED))),
        j.Recall,
        {"receipt": RECEIPT},
    ),
    (
        "it did not happen",
        judged(policy(), known(receipt=RECEIPT, outcome=outcome(tasks.DID_NOT_HAPPEN))),
        j.Act,
        {"instead_of": "worker~1"},
    ),
    (
        "given up",
        judged(policy(), known(receipt=RECEIPT, outcome=outcome(tasks.GIVEN_UP))),
        j.Refuse,
        {"error": "ApprovalRejected", "stage": "outcome"},
    ),
    ("unknown before a denial", judged(policy("deny"), known(receipt=RECEIPT)), j.AskOutcome, {}),
    ("unknown before an approval", judged(asking(), known(receipt=RECEIPT)), j.AskOutcome, {}),
    ("unknown before the caps", judged(capped(0), known(receipt=RECEIPT)), j.AskOutcome, {}),
    ("a probe before a denial", judged(policy("deny"), known(receipt=RECEIPT), probe=True), j.Probe, {}),
    (
        "it did not happen, and is denied now",
        judged(policy("deny"), known(receipt=RECEIPT, outcome=outcome(tasks.DID_NOT_HAPPEN))),
        j.Refuse,
        {"error": "ActionDenied"},
    ),
    ("not on the list, at the cap", judged(capped(2, allowlist=["other/*"])), j.Refuse, {"stage": "allowlist"}),
    ("done with the same request", judged(asking(), known(found=j.Found(DONE))), j.Reuse, {"receipt": DONE}),
    ("done by itself", judged(asking(), known(receipt=DONE, own=True)), j.Reuse, {"receipt": DONE}),
    ("done, and denied", judged(policy("deny"), known(found=j.Found(DONE))), j.Refuse, {"stage": "policy"}),
    ("done, at the cap", judged(capped(2), known(found=j.Found(DONE))), j.Refuse, {"stage": "caps"}),
    ("done with another request", judged(asking(), known(found=j.Found(RECEIPT_OF_ANOTHER))), j.Ask, {}),
    ("failed with the same request", judged(asking(), known(found=j.Found(FAILED))), j.Ask, {}),
    ("nothing has the key", judged(asking(), known(found=j.Found(None))), j.Ask, {}),
    (
        "another act has the key",
        judged(asking(), known(found=j.Found(msgspec.structs.replace(DONE, connector="mail")))),
        j.Refuse,
        {"error": "ActionDenied", "stage": "key"},
    ),
    (
        "it did not happen, and is approved",
        judged(
            asking(),
            known(receipt=RECEIPT, outcome=outcome(tasks.DID_NOT_HAPPEN), approval=approval("approved")),
        ),
        j.Act,
        {"instead_of": "worker~1", "task": approval("approved")},
    ),
]


@pytest.mark.parametrize(("verdict", "kind", "fields"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_every_verdict(verdict: j.Judgement, kind: type, fields: dict[str, Any]) -> None:
    """The order is the law: unknown outcomes come first, then allowlist, caps, policy, key, approval."""
    assert type(verdict) is kind
    assert {name: getattr(verdict, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("ruled", "facts", "why"),
    [
        (asking(), known(approval=approval("rejected")), "bob rejected it (a-1): why not"),
        (policy(), known(receipt=RECEIPT, outcome=outcome(tasks.GIVEN_UP)), "bob gave it up: I saw"),
        (capped(2), known(), "the run has written 2 times, and its cap max_writes_per_run is 2"),
        (asking(), known(approval=approval("expired")), "nobody answered approval a-1 in time"),
    ],
)
def test_a_refusal_says_why(ruled: Policy, facts: j.Known, why: str) -> None:
    """The workflow, its log and the audit all show this sentence."""
    verdict = judged(ruled, facts)
    assert isinstance(verdict, j.Refuse)
    assert verdict.reason == why


@pytest.mark.parametrize("status", [None, "requested", "approved"])
def test_an_approval_of_tier_high_is_not_asked_for_where_nobody_knows_who_started_the_run(status: str | None) -> None:
    """The approver might be the starter, who must not approve. An earlier approval does not count either."""
    before = known(approval=None if status is None else approval(status, tier="high"))
    nameless = msgspec.structs.replace(RUN, actor=None)
    verdict = j.judge(PROPOSAL, nameless, asking("high"), before, NOON, safe_to_retry=False, has_probe=False)
    assert isinstance(verdict, j.Refuse)
    assert (verdict.error, verdict.stage, verdict.rule) == ("ActionDenied", "approval", "r")
    assert verdict.reason.endswith("nobody knows who that was: start the run with actor=")
