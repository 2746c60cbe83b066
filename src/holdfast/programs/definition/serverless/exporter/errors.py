"""Errors of a definition as ``raise`` and ``try``: the inverse of the importer's ``errors``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

from holdfast.programs.definition.compiler.faults import Trail
from holdfast.programs.definition.serverless.exporter.pieces import Export, Item, Piece, items_of, put_value
from holdfast.programs.definition.serverless.exporter.values import NotSayable, said_expression, said_value, split_jq
from holdfast.programs.definition.serverless.vocabulary import pointer
from holdfast.programs.definition.spans import read_span

Tasks = Callable[[list[dict[str, Any]], Trail], list[dict[str, Any]]]

_CAUGHT: Final = re.compile(r"=\$(\w+) \| caught\((.*)\)", re.DOTALL)
_JUDGED: Final = ("catch_with", "catch_when", "catch_except", "retry_when", "retry_except")
_COUNT: Final = re.compile(r"\(\$retry_attempt \+ 1 < (\d+)\)")
_LONGEST: Final = re.compile(r"\(now - \$local\.since\.\w+ < ([\d.]+)\)")
_BACKOFFS: Final = {
    "exponential": re.compile(r"=([\d.]+) \* pow\(2; \$retry_attempt\)"),
    "linear": re.compile(r"=([\d.]+) \* \(\$retry_attempt \+ 1\)"),
}


def write_raise(export: Export, piece: Piece) -> dict[str, Any] | None:
    """``raise``; None where the core is none."""
    if len(piece.core) != 1 or "raise" not in piece.core[0][1]:
        return None
    name, body = piece.core[0]
    export.plain(name, body, "raise")
    details = body["raise"].get("details")
    if not isinstance(details, dict) or not {"type", "status"} <= details.keys():
        export.refuse(name, "an error of a document has `details` with `type` and `status`")
        return {}
    said = {word: value for word, value in details.items() if (word, value) != ("instance", pointer(piece.trail))}
    return {"raise": {"error": export.sayable(name, said_value, said, {})}}


def write_try(export: Export, piece: Piece, tasks: Tasks) -> dict[str, Any] | None:
    """``try``, with or without retries; None where the core is none."""
    core = [item for item in piece.core if "set" not in item[1]]
    if len(core) != 1:
        return None
    _, body = core[0]
    if "repeat" in body and body.get("repeat", {}).get("index") == "retry_attempt":
        inner = [item for item in items_of(body["do"]) if "set" not in item[1]]
        return export.task(piece.name, lambda items: _tried(piece, items, tasks), inner)
    if "do" in body and "failure" in body.get("on", {}):
        return export.task(piece.name, lambda items: _tried(piece, items, tasks), core)
    return None


def _tried(piece: Piece, items: list[Item], tasks: Tasks) -> dict[str, Any]:
    ((_, body),) = items
    caught = items_of(body["on"]["failure"])
    if len(caught) != 1 or len(caught[0][1].get("let", {})) != 1 or set(body["on"]) != {"failure"}:
        raise NotSayable("a handler can be said as a catch where it is one block that binds the error")
    name = next(iter(caught[0][1]["let"]))
    judged, conditions = _judged(caught[0][1]["do"])
    retry, mended = _cases(judged)
    inner = [node for node in body["do"] if not _is_mark(node)]
    found: dict[str, Any] = {} if name == "error" else {"as": name}
    found |= _conditions(conditions)
    if retry is not None:
        found["retry"] = _retry(retry, conditions, body.get("timeout"))
    rest = [node for node in mended[1:] if not _is_mark(node)]
    if not mended or put_value(items_of(mended[:1])[0][1]) != (True, "=$input"):
        raise NotSayable("a catch begins with the data of its try: `set: {local.data: =$input}`")
    if rest:
        found["do"] = tasks(rest, (*piece.trail, "catch", "do"))
    return {"try": tasks(inner, (*piece.trail, "try")), "catch": found}


def _is_mark(node: dict[str, Any]) -> bool:
    """Whether a node only notes that a try is done."""
    ((_, body),) = node.items()
    return any(path.startswith("local.done.") for path in body.get("set", ()))


def _judged(nodes: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What a handler does, and the names that it judges by."""
    ((_, body), *more) = items_of(nodes)
    if not more and "do" in body and any(name in _JUDGED for name in body.get("let", ())):
        return body["do"], body["let"]
    return nodes, {}


def _cases(nodes: list[dict[str, Any]]) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """The case that tries again, where there is one, and the nodes of the one that mends."""
    ((_, body), *more) = items_of(nodes)
    if more or "switch" not in body:
        return None, nodes
    cases = body["switch"]
    retry = cases[0] if [next(iter(each)) for each in _bodies(cases[0])] == ["sleep"] else None
    usual = cases[1 if retry is not None else 0]
    return retry, usual.get("do", usual.get("else", []))


def _bodies(case: dict[str, Any]) -> list[dict[str, Any]]:
    return [body for _, body in items_of(case.get("do", case.get("else", [])))]


def _conditions(let: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "catch_with" in let:
        match = _CAUGHT.fullmatch(let["catch_with"])
        if match is None:
            raise NotSayable("the filter of a catch is `=$error | caught({…})`")
        found["errors"] = {"with": json.loads(match[2])}
    if "catch_when" in let:
        found["when"] = said_expression(let["catch_when"])
    if "catch_except" in let:
        found["exceptWhen"] = said_expression(let["catch_except"])
    return found


def _retry(case: dict[str, Any], let: dict[str, Any], attempt: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "retry_when" in let:
        found["when"] = said_expression(let["retry_when"])
    if "retry_except" in let:
        found["exceptWhen"] = said_expression(let["retry_except"])
    found |= _delay(_bodies(case)[0]["sleep"])
    limit: dict[str, Any] = {}
    for part in split_jq(case["when"][1:], " and "):
        if (count := _COUNT.fullmatch(part)) is not None:
            limit.setdefault("attempt", {})["count"] = int(count[1])
        elif (longest := _LONGEST.fullmatch(part)) is not None:
            limit["duration"] = _duration(float(longest[1]))
    if attempt is not None:
        limit.setdefault("attempt", {})["duration"] = said_span(attempt)
    return {**found, **({"limit": limit} if limit else {})}


def _delay(sleep: str) -> dict[str, Any]:
    for word, pattern in _BACKOFFS.items():
        if (found := pattern.fullmatch(sleep)) is not None:
            return {"delay": _duration(float(found[1])), "backoff": {word: {}}}
    return {} if sleep == "0s" else {"delay": said_span(sleep)}


def _duration(seconds: float) -> dict[str, int]:
    milliseconds = round(seconds * 1000)
    return {"milliseconds": milliseconds} if milliseconds % 1000 else {"seconds": milliseconds // 1000}


def said_span(span: str) -> Any:
    """A duration of the format. Raises NotSayable."""
    if span.startswith("="):
        return said_expression(span)
    microseconds = read_span(span)
    if microseconds % 1000:
        raise NotSayable(f"a document has no durations below the millisecond: {span}")
    return _duration(microseconds / 1e6)
