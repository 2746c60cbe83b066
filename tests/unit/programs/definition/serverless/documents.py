"""Short Serverless Workflow documents, and what comes of them without a store."""

from __future__ import annotations

import textwrap
from typing import Any

from holdfast.definition import from_serverless, to_serverless
from holdfast.programs.definition.compiler.compiler import compile_document, compile_text
from holdfast.programs.definition.decompiler.yaml_text import yaml_of
from holdfast.programs.definition.engine_tools import EngineTools
from holdfast.programs.definition.interpreter.routine import Routine
from holdfast.programs.definition.trials import ExpectSpec, SignalSpec, TrialSpec, play

HEAD = "document: {dsl: 1.0.3, namespace: test, name: short, version: 1.2.3}\n"


def imported(text: str) -> dict[str, Any]:
    """The definition of a document whose head is left out."""
    return from_serverless(HEAD + textwrap.dedent(text))


def keeps_its_digest(definition: dict[str, Any]) -> bool:
    """Whether export and import give the same definition again, and so does its text in YAML."""
    found = compile_document(definition)
    again = from_serverless(to_serverless(definition))
    return compile_document(again).digest == found.digest == compile_text(yaml_of(found.definition)).digest


def check(
    text: str,
    start: Any = None,
    *,
    mock: dict[str, Any] | None = None,
    signals: tuple[SignalSpec, ...] = (),
    **expect: Any,
) -> None:
    """Play a document, with a crash around every turn; and once more as it is exported and imported again."""
    definition = imported(text)
    assert keeps_its_digest(definition)
    found = compile_document(definition)
    routine = Routine(found.definition, found.digest, EngineTools({}))
    spec = TrialSpec(
        start={} if start is None else start, mock=mock or {}, signals=signals, expect=ExpectSpec(**expect)
    )
    assert play(routine, spec, crash=True).problems == ()
