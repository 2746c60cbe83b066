"""The Python builder: the same definition as YAML, whatever it is made of, and errors that say what to write."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from holdfast import action, step, workflow
from holdfast.definition import D, Flow, define, has, jq, task, value, when
from holdfast.errors import InvalidDefinition
from holdfast.programs.definition.compiler.compiler import compile_document, compile_text
from tests.unit.programs.definition.test_rules import Installed


@dataclass
class Claim:
    claimNo: str
    filedBy: str
    title: str = ""
    items: list[dict[str, float]] = field(default_factory=list)


class ClaimState(msgspec.Struct):
    score: float = 0.0
    answer: dict[str, str] = {}


@dataclass
class Decision:
    decision: str
    reason: str = ""


@step(name="builder.score")
async def fraud_score(items: list[Any]) -> float:
    return 0.5


@action(name="builder.pay", connector="bank", operation="pay")
async def pay(amount: float) -> str:
    return "paid"


@workflow(name="builder.archive")
async def archive(no: str) -> None: ...


approve = task(
    "approve",
    "Approve claim " + D.start.claimNo,
    Decision,
    groups=["claims"],
    exclude=[D.start.filedBy],
    show={"score": D.state.score},
    check=[{"when": (D.payload.decision == "reject") & ~has(D.payload.reason), "say": "Say why", "at": "/reason"}],
    due=datetime.timedelta(days=2),
    remind=["24h"],
    escalate={"groups": ["leads"]},
    expire="10d",
)

claims = (
    define("claims.settle", version=3, start=Claim, state=ClaimState, reference=D.start.claimNo)
    .retrying("net", max=5, first="2s", on=["transport"])
    .step("score", fraud_score, items=D.start.items, into=D.state.score, retry="net")
    .switch("route")
    .when(D.state.score > 0.5, lambda d: d.task("ask", approve, into=D.state.answer))
    .otherwise(lambda d: d.set("auto", {"state.answer": {"decision": "approve", "literal": "=x"}}))
    .fork(
        "both",
        {
            "left": lambda d: d.wait("papers", "documents", key=D.start.claimNo, timeout=datetime.timedelta(hours=36)),
            "right": lambda d: d.sleep("rest", "2h").sleep("until", until=D.now + datetime.timedelta(hours=1)),
        },
    )
    .graph(
        "settle",
        lambda d: d.action(
            "pay", pay, amount=D.state.score, undo={"action": "builder.pay", "with": {"amount": 0.0}}
        ).run("tell", archive, no=D.start.claimNo, needs=["pay"]),
    )
    .end("done", status=D.state.answer.decision, late=when(D.state.score > 1, "yes", "no"))
)

YAML = """
holdfast: definition/1
name: claims.settle
version: 3
reference: =start.claimNo
start:
  type: object
  required: [claimNo, filedBy]
  properties:
    claimNo: {type: string}
    filedBy: {type: string}
    title: {type: string, default: ""}
    items: {type: array, items: {type: object, additionalProperties: {type: number}}}
state:
  score: {type: number, default: 0.0}
  answer: {type: object, additionalProperties: {type: string}, default: {}}
retries: {net: {max: 5, first: 2s, on: [transport]}}
tasks:
  approve:
    title: ="Approve claim " + start.claimNo
    for: {groups: [claims], exclude: [=start.filedBy]}
    show: {score: =state.score}
    form:
      type: object
      required: [decision]
      properties: {decision: {type: string}, reason: {type: string, default: ""}}
    check: [{when: =payload.decision == "reject" && !has(payload.reason), say: Say why, at: /reason}]
    due: {in: 2d, remind: [24h], escalate: {groups: [leads]}, expire: 10d}
steps:
  - score: {step: builder.score, with: {items: =start.items}, as: state.score, retry: net}
  - route:
      switch:
        - {when: =state.score > 0.5, do: [{ask: {task: approve, as: state.answer}}]}
        - {else: [{auto: {set: {state.answer: {decision: approve, literal: ==x}}}}]}
  - both:
      fork:
        left: [{papers: {wait: documents, key: =start.claimNo, timeout: 36h}}]
        right: [{rest: {sleep: 2h}}, {until: {sleep: {until: =now + duration("3600s")}}}]
  - settle:
      graph:
        pay: {action: builder.pay, with: {amount: =state.score}, undo: {action: builder.pay, with: {amount: 0.0}}}
        tell: {needs: [pay], run: builder.archive, with: {no: =start.claimNo}}
  - done: {end: {status: =state.answer.decision, late: '=state.score > 1 ? "yes" : "no"'}}
"""


def test_what_is_built_is_what_is_written() -> None:
    """Types for start, state and forms, steps, actions, workflows and tasks as objects, spans and terms."""
    assert compile_document(claims.document, Installed()).digest == compile_text(YAML, Installed()).digest


def test_a_beginning_can_be_used_twice() -> None:
    beginning = define("a", version=1).sleep("rest", "1h")
    one, other = beginning.end("done", 1), beginning.end("done", 2)
    assert [list(node) for node in beginning.nodes] == [["rest"]]
    assert compile_document(one.document).digest != compile_document(other.document).digest


def test_a_definition_runs_another_by_its_object() -> None:
    letters = define("letters", version=2).end("done", 1)
    (node,) = define("a", version=1).run("tell", letters, to="ann").nodes
    assert node == {"tell": {"run": "letters@2", "with": {"to": "ann"}}}


def test_an_argument_with_the_name_of_an_option_is_given_by_with() -> None:
    flow = define("a", version=1).step("one", "x.y", with_={"title": 1, "timeout": 2}, title="One", timeout="1h")
    assert flow.nodes == [{"one": {"step": "x.y", "with": {"title": 1, "timeout": 2}, "title": "One", "timeout": "1h"}}]


def test_jq_is_written_as_it_is() -> None:
    flow = define("a", version=1, language="jq").set("one", {"state.x": jq(".a | length")}, only_if=jq(".b"))
    assert flow.nodes == [{"one": {"set": {"state.x": "=.a | length"}, "when": "=.b"}}]
    compile_document(flow.document)


@pytest.mark.parametrize(
    ("write", "remedy"),
    [
        (
            lambda d: d.switch("s").when(D.state.x, lambda d: d).end("e"),
            r"\.otherwise\(…\) or \.done\(\) before \.end",
        ),
        (lambda d: d.block("b", lambda d: None), r"gives it back with nodes, as `lambda d: d\.sleep"),
        (lambda d: d.block("b", lambda d: d.switch("s").when(D.state.x, lambda d: d)), "gives it back with nodes"),
        (lambda d: d.step("s", print), "it calls a step, an action or a workflow, or the name of one"),
        (lambda d: d.end("e", 1, x=2), "with a value or with members, not with both"),
        (lambda d: d.sleep("s", "1h", tmeout="1h"), "nobody knows the option 'tmeout'"),
        (lambda d: d.set("s", {"state.x": f"{D.state.y}"}), "not an f-string"),
        (lambda d: d.set("s", {"state.x": D.state.y and 1}), "write `&`"),
        (lambda d: d.set("s", {"state.x": len(D.state.y)}), r"write `xs\.size\(\)`"),
        (lambda d: d.set("s", {"state.x": 1 in D.state.y}), "is_in"),
        (lambda d: d.set("s", {"state.x": value(object())}), "CEL has no values of type object"),
    ],
)
def test_a_mistake_is_refused_with_what_to_write_instead(write: Any, remedy: str) -> None:
    with pytest.raises((InvalidDefinition, AttributeError, TypeError), match=remedy):
        write(define("a", version=1))


def test_two_tasks_of_one_name_are_refused() -> None:
    other = task("approve", "Another", Decision)
    flow = define("a", version=1).task("one", approve).block("b", lambda d: d.task("two", other))
    with pytest.raises(InvalidDefinition, match="two different tasks are called 'approve': rename one"):
        cast("Any", flow.document)


def test_a_flow_is_shown_by_its_nodes() -> None:
    assert Flow().sleep("a", "1h").nodes == [{"a": {"sleep": "1h"}}]
