"""The published traces of the model, and the oracle that lies beside them."""

from __future__ import annotations

import functools
import importlib.util
import os
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from holdfast.testing.model_traces.trace import ModelTrace, read_trace

CORPORA = Path(os.environ.get("HOLDFAST_CORPORA") or Path(__file__).parents[5] / "shared" / "data")
TEMPLATES = CORPORA / "templates"
FILES = sorted(path for folder in ("traces", "mutants") for path in (TEMPLATES / folder).rglob("*.json*"))

needs_traces = pytest.mark.skipif(not FILES, reason="the corpus of templates is not here: set HOLDFAST_CORPORA")


@functools.cache
def covering(times: int = 2) -> tuple[Path, ...]:
    """Few of the files, in which each action is accepted, and refused by each of its rules, in ``times`` traces.

    What fewer traces do is in all of them.
    """
    found = {file: _verdicts(read_trace(file)) for file in FILES}
    left = Counter({verdict: times for verdicts in found.values() for verdict in verdicts})
    chosen: list[Path] = []
    while left:
        best = max(found, key=lambda file: len(found[file] & left.keys()), default=None)
        if best is None or not found[best] & left.keys():
            break
        chosen.append(best)
        left -= Counter(found.pop(best))
    return tuple(sorted(chosen))


def _verdicts(trace: ModelTrace) -> set[tuple[str, str | None]]:
    rules = dict(trace.expect.illegal)
    return {(step.action, rules.get(index)) for index, step in enumerate(trace.steps)}


def oracle() -> ModuleType:
    """The oracle, which is no part of the project."""
    spec = importlib.util.spec_from_file_location("model_oracle", TEMPLATES / "oracle.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plain(trace: ModelTrace) -> dict[str, Any]:
    """A trace as the oracle reads it."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(trace))
    return found
