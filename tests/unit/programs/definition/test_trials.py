"""Tests inside a definition: played without a worker, and once more with a crash around every commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import InvalidDefinition
from holdfast.programs.definition.compiler.compiler import compile_document, compile_text
from holdfast.programs.definition.compiler.source import read_source
from holdfast.programs.definition.interpreter.routine import Routine
from holdfast.programs.definition.trials import play, read_trials
from holdfast.programs.function.decorators import step
from tests.definitions import Tools

CLAIMS = Path(__file__).parents[4] / "examples" / "claims" / "claims.yaml"


@step(name="trials.get")
async def get() -> int:
    return 1


def routine(nodes: list[Any]) -> Routine:
    document = {"holdfast": "definition/1", "name": "t", "version": 1, "steps": nodes}
    found = compile_document(document)
    return Routine(found.definition, found.digest, Tools())


@pytest.mark.parametrize("crash", [False, True])
def test_the_tests_of_the_example_hold(crash: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(CLAIMS.parent))
    __import__("claims_app")
    text = CLAIMS.read_text()
    found = compile_text(text, Tools())
    document, _ = read_source(text)
    ready = Routine(found.definition, found.digest, Tools())
    results = [play(ready, spec, crash=crash) for spec in read_trials(document["tests"])]
    assert [result.problems for result in results] == [(), ()]


@pytest.mark.parametrize(
    ("expect", "problem"),
    [
        ({"status": "failed"}, "it is completed, and not failed"),
        ({"result": 2}, "its result is 1, and not 2"),
        ({"state": {"n": 5}}, "state.n is"),
        ({"done": ["never"]}, "node never is not reached, and not success"),
        ({"error": {"code": "X"}}, "it has not failed"),
    ],
)
def test_what_is_not_as_expected_is_said(expect: dict[str, Any], problem: str) -> None:
    ready = routine([{"get": {"step": "trials.get", "as": "state.n"}}, {"done": {"end": "=state.n"}}])
    (spec,) = read_trials([{"mock": {"get": 1}, "expect": expect}])
    assert any(problem in each for each in play(ready, spec).problems)


def test_mocks_raise_and_give_one_after_the_other_and_time_is_skipped() -> None:
    ready = routine(
        [
            {"nap": {"sleep": "30d"}},
            {
                "again": {
                    "do": [{"get": {"step": "trials.get", "as": "state.n"}}],
                    "retry": {"max": 3, "first": "1h", "jitter": "none"},
                }
            },
            {"done": {"end": "=state.n"}},
        ]
    )
    mock = {"get": {"each": [{"raise": {"class": "transport"}}, 7]}}
    (spec,) = read_trials([{"mock": mock, "expect": {"status": "completed", "result": 7}}])
    assert play(ready, spec, crash=True).problems == ()


def test_a_call_without_a_mock_is_said() -> None:
    ready = routine([{"get": {"step": "trials.get"}}])
    (spec,) = read_trials([{"expect": {"status": "completed"}}])
    assert "the test has no mock for it" in play(ready, spec).problems[0]


TESTED: dict[str, Any] = {
    "holdfast": "definition/1",
    "name": "tested",
    "version": 1,
    "tasks": {"approve": {"form": {"type": "object"}}},
    "steps": [{"ask": {"task": "approve"}}],
}


@pytest.mark.parametrize(
    ("test", "trail", "problem"),
    [
        ({"expects": {}}, ("tests", 0, "expects"), "there is no word 'expects': did you mean 'expect'?"),
        ({"expect": {"status": "complete"}}, ("tests", 0, "expect", "status"), "did you mean 'completed'?"),
        ({"signals": [{"value": 1}]}, ("tests", 0, "signals", 0), "`name` is missing"),
        ({"mock": ["ask"]}, ("tests", 0, "mock"), "this is a map, not ['ask']"),
        ({"mock": {"aks": 1}}, ("tests", 0, "mock", "aks"), "there is no node 'aks': did you mean 'ask'?"),
        ({"expect": {"done": ["aks"]}}, ("tests", 0, "expect", "done", 0), "there is no node 'aks'"),
        ({"answers": [{"task": "aprove", "value": {}}]}, ("tests", 0, "answers", 0, "task"), "did you mean 'approve'?"),
    ],
)
def test_a_mistake_in_a_test_is_found_where_it_stands(test: Any, trail: tuple[Any, ...], problem: str) -> None:
    """By the compiler, with its place, before anything is played."""
    with pytest.raises(InvalidDefinition) as caught:
        compile_document({**TESTED, "tests": [test]})
    (fault,) = caught.value.faults
    assert fault.trail == trail
    assert problem in fault.message
