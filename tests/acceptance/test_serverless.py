"""Serverless Workflow: the conformance kit and the SDKs' workflows come out as published, whichever commit kills the
engine; every example imports, or says what is not supported."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.definition import from_serverless, to_serverless
from holdfast.errors import InvalidDefinition
from holdfast.programs.definition.compiler.compiler import compile_document
from holdfast.programs.definition.interpreter.program import DefinitionProgram
from tests.acceptance.corpora import (
    KIT,
    Case,
    document_of,
    judge,
    kit_cases,
    more_cases,
    needs_corpora,
    play,
    services,
)
from tests.definitions import Defined
from tests.runs import Run
from tests.scope import SEED, volume

pytestmark = needs_corpora
pytest.importorskip("jq", reason="jq is not installed: holdfast[serverless]")

CASES = [*kit_cases(), *more_cases()]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with services() as found:
        yield found


@pytest.fixture(autouse=True)
def _loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_PRIVATE_HOSTS", "127.0.0.1")


def test_all_scenarios_and_workflows_are_there() -> None:
    assert (len(kit_cases()), len(more_cases())) == (21, 35)


EACH = volume(8, 1)
"""So many of the commits of a run follow each other before one kills its engine."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_workflow_ends_as_published_whichever_commit_kills_its_engine(case: Case, port: int) -> None:
    document = document_of(case, port)
    usual, commits = asyncio.run(play(document, case.input))
    judge(case, usual, _ran(case, document))
    for number in range(1 + SEED % EACH, commits + 1, EACH):
        for after in (False, True):
            outcome, _ = asyncio.run(play(document, case.input, number, after=after))
            assert _comparable(outcome.value) == _comparable(usual.value), f"commit {number}, after={after}"
            assert outcome.status == usual.status


def _comparable(value: Any) -> Any:
    """An event has the time at which it was emitted, and an answer the one at which it was given."""
    if isinstance(value, dict) and "specversion" in value:
        return {**value, "time": ""}
    if isinstance(value, dict) and "statusCode" in value:
        return {**value, "headers": {**value["headers"], "date": ""}}
    return value


def _ran(case: Case, document: object) -> list[str]:
    """The tasks in the order in which they began, where the case asks for it: such workflows need one turn."""
    if not any("ran" in expect for expect in case.expect):
        return []
    run = Run(Defined(compile_document(document).definition), case.input or {})  # type: ignore[arg-type]
    run.advance()
    program = run.execution.program
    assert isinstance(program, DefinitionProgram)
    marks = program.interpreter.marks
    tasks = [name for item in _tasks(case) for name in item]
    return [name for name, mark in marks.items() if name in tasks and mark.state == "success"]


def _tasks(case: Case) -> list[dict[str, object]]:
    import json

    found: list[dict[str, object]] = json.loads(case.text)["do"]
    return found


EXAMPLES = sorted((KIT / "examples").glob("*.yaml"))
REASONS = {
    "`call: asyncapi`": 5,
    "`call: grpc`": 1,
    "`call: mcp`": 1,
    "`correlate`": 2,
    "`extensions`": 1,
    "`foreach`": 1,
    "`run: container`": 10,
    "`run: script`": 1,
    "`run: shell`": 1,
    "`schedule`": 4,
    "`secrets`": 2,
    "`until`": 3,
    "authentication by oauth2": 2,
    "authentication by oidc": 2,
    "events of any type": 1,
    "use.functions has no": 1,
}


def test_whatever_imports_is_the_same_after_export_and_import() -> None:
    texts = [*(path.read_text() for path in EXAMPLES), *(case.text for case in CASES)]
    kept = 0
    for text in texts:
        try:
            definition = from_serverless(text)
        except InvalidDefinition:
            continue
        again = from_serverless(to_serverless(definition))
        assert compile_document(again).digest == compile_document(definition).digest, definition["name"]
        kept += 1
    assert kept == 32 + 21 + 35


def test_every_example_imports_or_says_what_is_not_supported() -> None:
    imported, reasons = [], Counter[str]()
    for path in EXAMPLES:
        try:
            imported.append(from_serverless(path)["name"])
        except InvalidDefinition as error:
            for fault in error.faults:
                assert str(fault).startswith(f"{path}:"), fault
                reasons[next(known for known in REASONS if known in str(fault))] += 1
    assert (len(EXAMPLES), len(imported)) == (66, 32)
    assert reasons == REASONS
