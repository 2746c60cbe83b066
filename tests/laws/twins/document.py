"""A program as a definition: its document, and those of its children, inner ones first."""

from __future__ import annotations

from typing import Any

from tests.laws.twins.grow import Op
from tests.laws.twins.world import ACTS, UNDOS

Body = dict[str, Any]


def documents(name: str, run: str, ops: tuple[Op, ...]) -> list[Body]:
    """The definitions that play this program. The last gives what the function gives, and an empty text for each act
    that it does not rely on."""
    writer = _Writer(name, run)
    document = writer.document(ops)
    return [*writer.children, document]


class _Writer:
    def __init__(self, name: str, run: str) -> None:
        self._name = name
        self._run = run
        self._places: list[str] = []
        self.children: list[Body] = []

    def document(self, ops: tuple[Op, ...]) -> Body:
        steps = [*self._nodes(ops)]
        kept = [f"state.{place}" for place in self._places]
        steps.append({"the_end": {"end": f"=[{', '.join(kept)}]"}})
        state = {place: {"default": ""} for place in self._places}
        found: Body = {"holdfast": "definition/1", "name": self._name, "version": 1, "steps": steps}
        return found | ({"state": state} if state else {})

    def _nodes(self, ops: tuple[Op, ...]) -> list[Body]:
        return [self._node(op) for op in ops]

    def _node(self, op: Op) -> Body:
        name = _name(op)
        match op.do:
            case "gather":
                branches = {_name(row): self._nodes(row.parts) for row in op.parts}
                return {name: {"fork": branches, "join": "all"}}
            case "race":
                branches = {f"{_name(part)}_way": [self._node(part)] for part in op.parts}
                return {name: {"fork": branches, "join": "any"}}
            case "limit":
                return {name: {"do": self._nodes(op.parts), "timeout": f"{op.seconds:g}s", "on": {"timeout": []}}}
            case "try":
                return {name: {"do": self._nodes(op.parts), "on": {"failure": []}}}
            case "child":
                child = _Writer(f"{self._name}.{name}", self._run)
                document = child.document(op.parts)
                self.children += [*child.children, document]
                return {name: {"run": document["name"]}}
            case "sleep":
                return {name: {"sleep": f"{op.seconds:g}s"}}
            case "word":
                heard = {f"{name}_word": {"wait": "word", "as": f"local.{name}"}}
                bad = {f"{name}_bad": {"raise": {"code": "BAD"}, "when": f'=local.{name} == "bad"'}}
                return {name: {"do": [heard, bad]}}
            case "doubt":
                return {name: {"step": "twins.doubt", "with": {"at": op.at, "seconds": op.seconds}}}
            case "mark":
                return {name: {"step": "twins.mark", "with": {"run": self._run, "at": op.at}}}
            case "fail":
                return {name: {"raise": {"code": "FAIL"}, "when": "=true"}}
            case _:
                return {name: self._act(op, name)}

    def _act(self, op: Op, name: str) -> Body:
        self._places.append(name)
        given = {"at": op.at, "order": op.order, "seconds": op.seconds}
        body: Body = {"action": ACTS[op.do].name, "with": given, "as": f"state.{name}"}
        return body | ({"undo": UNDOS[op.do]} if op.do in UNDOS else {})


def _name(op: Op) -> str:
    return f"n{op.at.replace('.', '_')}"
