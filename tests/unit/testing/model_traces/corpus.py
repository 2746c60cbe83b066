"""The published traces of the model, and the oracle that lies beside them."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from holdfast.testing.model_traces.trace import ModelTrace

CORPORA = Path(os.environ.get("HOLDFAST_CORPORA") or Path(__file__).parents[5] / "shared" / "data")
TEMPLATES = CORPORA / "templates"
FILES = sorted(path for folder in ("traces", "mutants") for path in (TEMPLATES / folder).rglob("*.json*"))

needs_traces = pytest.mark.skipif(not FILES, reason="the corpus of templates is not here: set HOLDFAST_CORPORA")


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
