"""Signals of a definition as events: the inverse of the importer's ``events``."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from holdfast.programs.definition.serverless.exporter.pieces import Export, Piece, items_of, put_value
from holdfast.programs.definition.serverless.exporter.values import NotSayable, read_jq, said_value, split_jq
from holdfast.programs.definition.serverless.importer.events import EVENT_ID, EVENT_TIME

_HEARD: Final = {"=[$payload | event | .data]": "data", "=[$payload | event]": "envelope"}
_DATA: Final = re.compile(r"\(\$payload \| event \| \.data \| \((.*)\)\)", re.DOTALL)
_EQUAL: Final = re.compile(r"\((.*) == \(\$payload \| event \| \.\[(\"(?:[^\"\\]|\\.)*+\")\]\)\)", re.DOTALL)


def write_emit(export: Export, piece: Piece) -> dict[str, Any] | None:
    """``emit``; None where the core is none."""
    if len(piece.core) != 2 or "send" not in piece.core[1][1]:
        return None
    is_put, event = put_value(piece.core[0][1])
    name, body = piece.core[1]
    export.plain(name, body, "send")
    send = body["send"]
    if not is_put or not isinstance(event, dict) or (send.get("to"), send.get("value")) != ("=$run.id", "=."):
        export.refuse(name, "only an event that the run sends itself can be said, and that is its data before")
        return {}
    usual = {"specversion": "1.0", "id": EVENT_ID, "time": EVENT_TIME}
    said = {word: value for word, value in event.items() if usual.get(word) != value}
    return {"emit": {"event": {"with": export.sayable(name, said_value, said, {})}}}


def write_listen(export: Export, piece: Piece) -> dict[str, Any] | None:
    """``listen``; None where the core is none."""
    if any(word in body for _, body in piece.core for word in ("wait", "pick")) or _is_all(piece):
        return export.task(piece.name, _listen, piece)
    return None


def _is_all(piece: Piece) -> bool:
    gives = str(piece.core[0][1].get("gives", "")) if piece.core else ""
    return "fork" in piece.core[0][1] and gives.startswith("=$payload | event")


def _listen(piece: Piece) -> dict[str, Any]:
    body = piece.core[0][1]
    if "wait" in body and len(piece.core) == 2:
        heard = put_value(piece.core[1][1])[1]
        return _listened({"one": _filter(body)}, heard)
    if "pick" in body and len(piece.core) == 1:
        options = sorted(body["pick"].items(), key=lambda option: _number(option[0]))
        filters, taken = [], set()
        for _, option in options:
            ((_, take),) = items_of(option["do"])
            taken.add(put_value(take)[1])
            filters.append(_filter({word: value for word, value in option.items() if word != "do"}))
        if len(taken) == 1:
            return _listened({"any": filters}, taken.pop())
    if "fork" in body and len(piece.core) == 2:
        branches = sorted(body["fork"].items(), key=lambda branch: _number(branch[0]))
        filters = [_filter(items_of(nodes)[0][1]) for _, nodes in branches]
        return _listened({"all": filters}, f"=[{body['gives'][1:]}]")
    raise NotSayable("a wait can be said where the data becomes what is heard: `=[$payload | event]`")


def _number(name: str) -> int:
    found = re.search(r"event-(\d+)", name)
    return int(found[1]) if found else 0


def _listened(to: dict[str, Any], heard: Any) -> dict[str, Any]:
    if heard not in _HEARD:
        raise NotSayable("a wait can be said where the data is what is heard: `=[$payload | event | .data]`")
    read = _HEARD[heard]
    return {"listen": {"to": to, **({} if read == "data" else {"read": read})}}


def _filter(body: dict[str, Any]) -> dict[str, Any]:
    """A wait as a filter of events."""
    if set(body) - {"wait", "match"}:
        raise NotSayable("a wait with a key, a time-out or handlers cannot be said as an event")
    found: dict[str, Any] = {"type": body["wait"]}
    for part in split_jq(body["match"][1:], " and ") if "match" in body else ():
        data, equal = _DATA.fullmatch(part), _EQUAL.fullmatch(part)
        if data is not None:
            found["data"] = f"${{ {data[1]} }}"
        elif equal is not None:
            found[json.loads(equal[2])] = said_value(read_jq(equal[1]))
        else:
            raise NotSayable(f"the match `{part[:80]}` cannot be said as a filter of events")
    return {"with": found}
