"""Definitions without a worker: short words for nodes, and a run of them in memory."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from holdfast.journal.payload import Payload
from holdfast.programs.definition import model as m
from holdfast.programs.definition.interpreter.program import DefinitionProgram
from holdfast.programs.definition.interpreter.routine import Routine
from holdfast.programs.function.decorators import STEPS, Step
from holdfast.programs.function.values import encode
from tests.runs import Run

CLAIMS = """\
holdfast: definition/1
name: claims.settle
version: 3
reference: =start.claimNo
start: {type: object, required: [claimNo], properties: {claimNo: {type: string}}}
state: {total: {type: number, default: 0}}
uses: {steps: [fraud.score], actions: [payout.pay], workflows: [letters.send@^2]}
retries: {net: {max: 5, first: 2s, factor: 2, cap: 5m, jitter: full, on: [transport, timeout]}}
tasks:
  approve:
    title: ="Approve claim " + start.claimNo
    for: {groups: [claims], exclude: "=[start.filedBy]"}
    show: {total: =state.total}
    form: {type: object, required: [decision], properties: {decision: {enum: [approve, reject]}}}
    check: [{when: =payload.decision == "approve" && state.score > 0.9, say: Too risky, at: /decision}]
    due: {in: 48h, remind: [24h], escalate: {groups: [leads]}, expire: 10d}
steps:
  - score: {step: fraud.score, with: {items: =start.items}, as: state.score, retry: net}
  - sum:
      repeat: {over: =start.items, item: line, index: i}
      do: [{add: {set: {state.total: =state.total + line.amount}}}]
  - checks:
      fork:
        stock:
          - get:
              http: {get: "https://s.example"}
              as: state.stock
              timeout: {try: 30s, all: 1h}
              on: {failure: [], timeout: [{late: {raise: {code: SLOW}}}]}
        papers: [{docs: {wait: documents, match: =payload.claimNo == start.claimNo, timeout: 30d}}]
      join: all
  - rest: {sleep: 2h}
  - route:
      switch:
        - {when: =state.score > 0.5, do: [{ask: {task: approve, as: state.answer}}]}
        - {else: [{auto: {set: {state.answer: {decision: approve}}}}]}
  - settle:
      graph:
        pay: {action: payout.pay, with: {sum: =state.total}, undo: payout.cancel}
        tell: {needs: [pay], run: letters.send, as: state.letter}
  - archive: {continue: claims.archive}
  - done: {end: {status: =state.answer.decision}}
migrate: {2: {steps: {review: route.ask}}}
tests: [{start: {claimNo: C-1}, mock: {score: 0.1}, expect: {status: completed}}]
"""
"""A definition with most of what the format has."""


class Tools:
    """The Python steps of the process, and no transports."""

    def step(self, name: str) -> Step[..., Any] | None:
        return STEPS.get(name)

    def names(self) -> Collection[str]:
        return STEPS.keys()

    def transport(self, verb: str) -> None:
        return None


class Defined:
    """A definition where ``Run`` wants a workflow."""

    def __init__(self, definition: m.Definition) -> None:
        self.routine = Routine(definition, "digest", Tools())
        self.signature = self

    def write(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Payload:
        return encode([list(args), kwargs])

    def program(self) -> DefinitionProgram:
        return DefinitionProgram(self.routine)


def begun(*nodes: m.Node, start: Any = None, **parts: Any) -> Run:
    """A run of these nodes, after its first turn."""
    definition = m.Definition(name="test", version=1, steps=nodes, **parts)
    run = Run(Defined(definition), start if start is not None else {})  # type: ignore[arg-type]
    run.advance()
    return run


def state_of(run: Run) -> dict[str, Any]:
    """The business state of a run that has not ended."""
    program = run.execution.program
    assert isinstance(program, DefinitionProgram)
    return program.state


def node(name: str, verb: m.Verb, **parts: Any) -> m.Node:
    return m.Node(name=name, verb=verb, **parts)


def put(name: str, **values: Any) -> m.Node:
    """``set``, by names of the state."""
    return node(name, m.SetVerb(values=tuple((("state", key), value) for key, value in sorted(values.items()))))


def step(name: str, called: str, into: str | None = None, **parts: Any) -> m.Node:
    """A call of a step with the arguments ``with_``."""
    arguments = parts.pop("with_", {})
    place = None if into is None else ("state", into)
    return node(name, m.CallVerb(kind="step", name=called, arguments=arguments), into=place, **parts)


def wait(name: str, signal: str, **parts: Any) -> m.Node:
    return node(name, m.WaitVerb(signal=signal), **parts)


def sleep(name: str, seconds: float, **parts: Any) -> m.Node:
    return node(name, m.SleepVerb(span=round(seconds * 1e6)), **parts)


def end(result: Any = None) -> m.Node:
    return node("end", m.EndVerb(result=result))
