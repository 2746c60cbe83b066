"""The conformance cases that CEL's own project publishes, read where they lie."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

CORPORA = Path(os.environ.get("HOLDFAST_CORPORA") or Path(__file__).parents[4] / "shared" / "data")
CASES = CORPORA / "cel" / "cases.jsonl"
LEFT_OUT = frozenset({"skip", "proto", "container", "check_only"})
WITHOUT = frozenset({"bindings_ext", "block_ext", "enums", "macros2", "network_ext"})
"""Extensions that expressions here do not have."""

needs_cases = pytest.mark.skipif(
    not CASES.exists(), reason="the CEL conformance cases are not here: set HOLDFAST_CORPORA"
)


def cases() -> list[dict[str, Any]]:
    """Each with what it expects, and what its variables hold."""
    lines = CASES.read_text(encoding="utf-8").splitlines()
    found = [case for case in map(json.loads, lines) if not any(case.get(mark) for mark in LEFT_OUT)]
    return [case for case in found if "typed" not in case["expect"] and case["id"].split("/")[0] not in WITHOUT]


def types_of(case: dict[str, Any]) -> dict[str, str]:
    """What a case's variables are declared as."""
    return {name: kind if kind not in ("list", "map") else "dyn" for name, (kind,) in case["bindings"].items()}


def variables_of(case: dict[str, Any]) -> dict[str, Any]:
    """What a case's variables hold. Raises NotImplementedError for protobuf messages."""
    return {name: value_of(value) for name, value in case["bindings"].items()}


def value_of(written: dict[str, Any]) -> Any:
    """A value as the cases write it."""
    ((kind, value),) = written.items()
    match kind:
        case "int" | "uint":
            return int(value)
        case "double":
            return float(value)
        case "bytes":
            return base64.b64decode(value)
        case "list":
            return [value_of(item) for item in value]
        case "map":
            return {value_of(key): value_of(item) for key, item in value}
        case "null":
            return None
        case "string" | "bool" | "type":
            return value
    raise NotImplementedError(kind)


def same(found: Any, wanted: Any) -> bool:
    """Equal, and of the same types all the way down; NaN is NaN."""
    if type(found) is not type(wanted):
        return False
    if isinstance(found, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(found, dict):
        return found.keys() == wanted.keys() and all(same(found[key], wanted[key]) for key in found)
    return bool(found == wanted or (found != found and wanted != wanted))
