"""A node of a definition as a task: the inverse of the importer's ``tasks``, ``lists`` and ``blocks``."""

from __future__ import annotations

import re
from typing import Any, Final

from holdfast.programs.definition.compiler.faults import Trail
from holdfast.programs.definition.serverless.exporter import calls, errors, events
from holdfast.programs.definition.serverless.exporter.pieces import Export, Item, Piece, items_of, put_value
from holdfast.programs.definition.serverless.exporter.values import (
    NotSayable,
    said_expression,
    said_value,
)

_AT: Final = re.compile(r'=\$local\.at\.(\w+) == ""')
_GOING: Final = re.compile(r"=\(\$local\.going\.\w+ \| not \| not\) and \(\((.*)\) \| not \| not\)", re.DOTALL)
_HELPERS: Final = ("fits-in", "take", "give", "fits-out", "export", "fits-context", "then-fits", "then", "do")
_BELONGING: Final = ("shape", "event", "document", "begin", "joined", "heard", "with")
END: Final = "end"


class TaskWriter:
    """Writes the tasks of one definition."""

    def __init__(self, export: Export) -> None:
        self._export = export

    def tasks(self, nodes: list[dict[str, Any]], trail: Trail) -> list[dict[str, Any]]:
        """A list of nodes as a list of tasks."""
        items, slug = items_of(nodes), ""
        if len(items) == 2 and "repeat" in items[1][1]:
            found = _AT.fullmatch(str(items[1][1]["repeat"].get("until", "")))
            if found is not None:
                items, slug = self._unlooped(items[1]), found[1]
        return [self._task(item, (*trail, at), slug) for at, item in enumerate(items)]

    def _unlooped(self, loop: Item) -> list[Item]:
        """The tasks of a list with jumps, in order."""
        ((_, body),) = items_of(loop[1]["do"])
        return [item for case in body["switch"] for item in items_of(case["do"])[1:]]

    # -- one task ------------------------------------------------------------------------------------------------------

    def _task(self, item: Item, place: Trail, slug: str) -> dict[str, Any]:
        name, body = item
        said_name = str(body.get("title", name))
        trail = (*place, said_name)
        outer = self._export.sayable(name, _outer, body, {})
        inner = {word: value for word, value in body.items() if word not in ("title", "when", "timeout")}
        found: dict[str, Any] = {}
        core: list[Item] = [(name, inner)]
        if self._is_wrapped(name, inner):
            core, found = self._unwrapped(name, inner, slug)
        kind = self._kind(Piece(name, said_name, trail, core, slug))
        return {said_name: {**outer, **kind, **found}}

    def _is_wrapped(self, name: str, body: dict[str, Any]) -> bool:
        if "do" not in body or "repeat" in body:
            return False
        belonging = {f"{name}-{suffix}" for suffix in (*_HELPERS, *_BELONGING)}
        return "let" in body or any(each in belonging for each, _ in items_of(body["do"]))

    def _unwrapped(self, name: str, body: dict[str, Any], slug: str) -> tuple[list[Item], dict[str, Any]]:
        """What its kind does, and the members that the nodes around it stand for."""
        export, let = self._export, body.get("let", {})
        export.plain(name, body, "do", "let")
        for bound in set(let) - {"input", "task"}:
            export.refuse(name, f"the name {bound!r} of a block cannot be said in a Serverless Workflow document")
        core: list[Item] = []
        found: dict[str, Any] = {}
        for each, inner in items_of(body["do"]):
            suffix = each.removeprefix(f"{name}-")
            match suffix:
                case "fits-in" | "fits-out" | "fits-context":
                    word = {"fits-in": "input", "fits-out": "output", "fits-context": "export"}[suffix]
                    found.setdefault(word, {})["schema"] = {"format": "json", "document": inner.get("schema", {})}
                case "take":
                    found.setdefault("input", {})["from"] = export.sayable(name, _said_filter, let["input"], "")
                case "give":
                    found.setdefault("output", {})["as"] = export.sayable(name, _said_filter, put_value(inner)[1], "")
                case "export":
                    value = inner["set"]["state.context"]
                    found.setdefault("export", {})["as"] = export.sayable(name, _said_filter, value, "")
                case "then-fits":
                    pass
                case "then":
                    found["then"] = _way(inner, slug)
                case _:
                    core.append((each, inner))
        return core, found

    def _kind(self, piece: Piece) -> dict[str, Any]:
        export = self._export
        writers = (calls.write_call, calls.write_run, events.write_emit, events.write_listen, errors.write_raise)
        for write in writers:
            if (found := write(export, piece)) is not None:
                return found
        if (tried := errors.write_try(export, piece, self.tasks)) is not None:
            return tried
        if len(piece.core) == 1:
            return self._plain(piece, piece.core[0][1])
        if len(piece.core) == 2 and piece.core[0][0] == f"{piece.name}-with":
            return self._function(piece)
        if len(piece.core) == 2 and "fork" in piece.core[0][1]:
            return self._fork(piece)
        if len(piece.core) == 2 and "repeat" in piece.core[1][1]:
            return export.task(piece.name, lambda body: self._for(piece, body), piece.core[1][1])
        if piece.core:
            return {"do": self.tasks([dict([item]) for item in piece.core], (*piece.trail, "do"))}
        export.refuse(piece.name, "it does nothing that can be said in a Serverless Workflow document")
        return {}

    def _plain(self, piece: Piece, body: dict[str, Any]) -> dict[str, Any]:
        export = self._export
        is_put, value = put_value(body)
        if is_put:
            return {"set": export.sayable(piece.name, said_value, value, {})}
        if "sleep" in body and isinstance(body["sleep"], str):
            export.plain(piece.name, body, "sleep")
            return {"wait": export.sayable(piece.name, errors.said_span, body["sleep"], "")}
        if "repeat" in body:
            return export.task(piece.name, lambda found: self._for(piece, found), body)
        if "switch" in body:
            return self._switch(piece, body)
        if "do" in body:
            export.plain(piece.name, body, "do")
            return {"do": self.tasks(body["do"], (*piece.trail, "do"))}
        verb = next(iter(body), "it")
        export.refuse(piece.name, f"`{verb}` cannot be said in a Serverless Workflow document, or not like this")
        return {}

    def _fork(self, piece: Piece) -> dict[str, Any]:
        (name, body), (_, joined) = piece.core
        self._export.plain(name, body, "fork", "gives", "join", "as")
        order = re.findall(r'\.\["([^"]+)"\]', str(put_value(joined)[1]))
        names = order or list(body["fork"])
        fits = body.get("gives") == "=." and set(names) == set(body["fork"])
        if not fits or any(len(nodes) != 1 for nodes in body["fork"].values()):
            self._export.refuse(name, "a branch can be said where it is one node, and gives its data: `gives: =.`")
            return {}
        trail = (*piece.trail, "fork", "branches")
        branches = [self._task(items_of(body["fork"][each])[0], (*trail, at), "") for at, each in enumerate(names)]
        return {"fork": {"branches": branches, **({"compete": True} if body.get("join") == "any" else {})}}

    def _function(self, piece: Piece) -> dict[str, Any]:
        """A task that was declared for reuse, and is called with arguments."""
        (_, arguments), (name, body) = piece.core
        said = str(body.get("title", name))
        called = said.removeprefix(f"{piece.said_name}-")
        task = self._task((name, {**body, "title": called}), ("use", "functions"), "")
        self._export.functions[called] = next(iter(task.values()))
        given = self._export.sayable(piece.name, said_value, put_value(arguments)[1], {})
        return {"call": called, **({"with": given} if given else {})}

    def _for(self, piece: Piece, body: dict[str, Any]) -> dict[str, Any]:
        repeat = body["repeat"]
        if "over" not in repeat or set(repeat) - {"over", "item", "index"} or set(body) - {"repeat", "do"}:
            raise NotSayable("of repeats only `over` can be said, one item after the other")
        found: dict[str, Any] = {"in": said_expression(str(repeat["over"]))}
        found |= {"each": repeat["item"]} if "item" in repeat else {}
        found |= {"at": repeat["index"]} if "index" in repeat else {}
        nodes, condition = body["do"], {}
        first = items_of(nodes)[0][1].get("set", {}) if nodes else {}
        going = _GOING.fullmatch(str(next(iter(first.values()), "")))
        if going is not None:
            condition = {"while": f"${{ {going[1]} }}"}
            nodes = items_of(nodes)[1][1]["do"]
        return {"for": found, **condition, "do": self.tasks(nodes, (*piece.trail, "do"))}

    def _switch(self, piece: Piece, body: dict[str, Any]) -> dict[str, Any]:
        self._export.plain(piece.name, body, "switch")
        cases: list[dict[str, Any]] = []
        then = {}
        for at, case in enumerate(body["switch"]):
            inner = items_of(case.get("do", case.get("else", [])))
            nodes = [each for name, each in inner if not name.endswith("-fits")]
            if len(nodes) > 1 or (nodes and not {"set", "end"} & nodes[0].keys()):
                self._export.refuse(piece.name, "a case can be said where it leads elsewhere, and does nothing itself")
                continue
            way = _way(nodes[0], piece.slug) if nodes else "continue"
            if "else" in case:
                then = {} if way == "continue" else {"then": way}
            else:
                when = self._export.sayable(piece.name, said_expression, case["when"], "")
                cases.append({f"case{at + 1}": {"when": when, "then": way}})
        return {"switch": cases or [{"otherwise": {"then": "continue"}}], **then}


def _outer(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"if": said_expression(body["when"])} if "when" in body else {}
    if "timeout" in body:
        if not isinstance(body["timeout"], str):
            raise NotSayable("of time-outs only the one of the whole node can be said")
        found["timeout"] = {"after": errors.said_span(body["timeout"])}
    return found


def _said_filter(value: Any) -> Any:
    return said_expression(value) if isinstance(value, str) else said_value(value)


def _way(body: dict[str, Any], slug: str) -> str:
    """Where a task goes on."""
    if "end" in body:
        return END
    return str(body["set"].get(f"local.at.{slug}", "")) or "exit"
