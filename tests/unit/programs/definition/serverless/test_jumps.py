"""Jumps: random lists of tasks go the way that a plain reading of the specification goes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scope import volume
from tests.unit.programs.definition.serverless.documents import check

pytest.importorskip("jq", reason="jq is not installed: holdfast[serverless]")

Task = dict[str, Any]


def task_of(draw: st.DrawFn, name: str, names: list[str], depth: int) -> Task:
    """A task that adds its name to the trace, or a switch. Only switches jump backwards, while the trace is short."""
    later = names[names.index(name) + 1 :]
    ways = ["continue", "exit", "end", *later]
    kind = draw(st.sampled_from(["set", "set", "switch", "block"] if depth else ["set", "switch"]))
    if kind == "switch":
        cases = [
            {f"c{at}": {"when": f"(.trace | length) < {draw(st.integers(1, 8))}", "then": draw(st.sampled_from(way))}}
            for at, way in enumerate([names, ways][: draw(st.integers(1, 2))])
        ]
        return {"switch": cases, "then": draw(st.sampled_from(ways))}
    then = draw(st.sampled_from(ways))
    found: Task = {} if then == "continue" else {"then": then}
    if draw(st.booleans()):
        found["if"] = f"(.trace | length) % 2 == {draw(st.integers(0, 1))}"
    if kind == "block":
        return {"do": draw(lists(f"{name}x", depth - 1)), **found}
    return {"set": {"trace": f'${{ .trace + ["{name}"] }}'}, **found}


@st.composite
def lists(draw: st.DrawFn, prefix: str, depth: int = 1) -> list[dict[str, Task]]:
    names = [f"{prefix}{at}" for at in range(draw(st.integers(1, 4)))]
    return [{name: task_of(draw, name, names, depth)} for name in names]


class Endless(Exception):
    """The list goes round for ever, in the specification as well."""


class Ended(Exception):
    """The workflow has ended."""


class Walk:
    """The specification, read plainly."""

    def __init__(self) -> None:
        self.trace: list[str] = []
        self._steps = 0

    def walk(self, tasks: list[dict[str, Task]]) -> None:
        names = [next(iter(each)) for each in tasks]
        at = 0
        while at < len(tasks):
            self._steps += 1
            if self._steps > 60:
                raise Endless
            name = names[at]
            then = self._done(name, tasks[at][name])
            if then == "end":
                raise Ended
            if then == "exit":
                return
            at = at + 1 if then == "continue" else names.index(then)

    def _done(self, name: str, task: Task) -> str:
        length = len(self.trace)
        if "if" in task and length % 2 != int(task["if"][-1]):
            return "continue"
        for case in task.get("switch", ()):
            ((_, body),) = case.items()
            if length < int(body["when"].rpartition(" ")[2]):
                return str(body["then"])
        if "set" in task:
            self.trace = [*self.trace, name]
        elif "do" in task:
            self.walk(task["do"])
        return str(task.get("then", "continue"))


@settings(max_examples=volume(10, 60), deadline=None)
@given(lists("t"))
def test_a_list_goes_the_way_of_the_specification(tasks: list[dict[str, Task]]) -> None:
    walk = Walk()
    try:
        walk.walk(tasks)
    except Ended:
        pass
    except Endless:
        return
    check(f"do: {json.dumps(tasks)}", {"trace": []}, status="completed", result={"trace": walk.trace})
