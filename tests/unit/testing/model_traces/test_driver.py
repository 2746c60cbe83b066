"""Traces of the model replay through the product, with the same verdicts, the same states and a legal audit."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.testing.model_traces.__main__ import UNUSABLE, WRONG, followed, main
from holdfast.testing.model_traces.cast import Cast
from holdfast.testing.model_traces.driver import Report, follow
from holdfast.testing.model_traces.engine import run_steered, trace_engine
from holdfast.testing.model_traces.exported import model_actions
from holdfast.testing.model_traces.model import Model
from holdfast.testing.model_traces.rules import refusals
from holdfast.testing.model_traces.trace import ModelTrace, read_trace
from holdfast.testing.model_traces.walks import random_trace
from tests.scope import one_stays, volume
from tests.unit.testing.model_traces.corpus import FILES, covering, needs_traces, oracle

GROUPS = volume(2, 4)


def problems(report: Report) -> str:
    return f"{report.trace}: {report.problems}"


@pytest.mark.parametrize("group", range(volume(1, 8)))
def test_random_traces_are_followed(group: int) -> None:
    """T-41, and in it T-14 to T-27: each action is accepted or refused as the model says, and leads to its state."""
    for seed in range(group * 8, group * 8 + 8):
        report = followed(random_trace(seed), f"seed {seed}")
        assert report.agrees, problems(report)


@pytest.mark.long
@needs_traces
@pytest.mark.parametrize("group", one_stays(range(GROUPS)))
def test_published_traces_are_followed(group: int) -> None:
    """T-41: traces and mutants of the corpus; a covering choice of them, or all."""
    for file in volume(covering(), tuple(FILES))[group::GROUPS]:
        report = followed(read_trace(file), str(file))
        assert report.agrees, problems(report)


@needs_traces
def test_the_oracle_judges_the_exported_audit_as_the_module_does() -> None:
    """The module must not need the oracle, and must not differ from it."""
    judge = oracle().judge
    for file in FILES[:: volume(52, 26)]:
        trace = read_trace(file)
        actions = run_steered(_exported(trace))
        steps = [{"action": action, "params": params} for action, params in actions]
        judged = {"constants": msgspec.to_builtins(trace.constants), "init": msgspec.to_builtins(trace.init)}
        said = judge({**judged, "steps": steps})
        assert (said["illegal"], said["broken"]) == ([], []), file
        model = Model(trace.constants, trace.init.users)
        for action, params in actions:
            assert refusals(model, action, params) == [], file
            model.apply(action, params)


async def _exported(trace: ModelTrace) -> list[tuple[str, dict[str, Any]]]:
    """What the audit exports after a trace."""
    found: list[tuple[str, dict[str, Any]]] = []

    async def look(cast: Cast) -> None:
        found.extend(await model_actions(cast))

    async with trace_engine() as engine:
        report = await follow(engine, trace, "a trace", at_end=look)
        assert report.agrees, problems(report)
    return found


# -- traces that lie --------------------------------------------------------------------------------------------------


def _legal_label(trace: dict[str, Any]) -> None:
    trace["expect"]["illegal"] = trace["expect"]["illegal"][1:]


def _illegal_label(trace: dict[str, Any]) -> None:
    legal = set(range(len(trace["steps"]))) - {index for index, _ in trace["expect"]["illegal"]}
    trace["expect"]["illegal"] = sorted([*trace["expect"]["illegal"], [min(legal), "over_cap"]])


def _other_rule(trace: dict[str, Any]) -> None:
    index, _ = trace["expect"]["illegal"][0]
    trace["expect"]["illegal"][0] = [index, "no_such_step"]


def _other_status(trace: dict[str, Any]) -> None:
    state = next(step["state"] for step in trace["steps"] if step["state"]["templates"])
    next(iter(state["templates"].values()))["status"] = "paused"


def _other_step(trace: dict[str, Any]) -> None:
    state = next(step["state"] for step in trace["steps"] if step["state"]["instances"])
    instance = next(iter(state["instances"].values()))
    instance["steps"][next(iter(instance["steps"]))] = ["failed", 1]


def _other_starter(trace: dict[str, Any]) -> None:
    state = next(step["state"] for step in trace["steps"] if step["state"]["instances"])
    next(iter(state["instances"].values()))["startedBy"] = "somebody"


def _other_entry(trace: dict[str, Any]) -> None:
    step = next(step for step in trace["steps"] if step["state"]["audit"])
    step["state"]["audit"][0]["user"] = "somebody"


def _no_step_ran(trace: dict[str, Any]) -> None:
    for step in trace["steps"]:
        step["state"]["runningWorkflows"] = []


@pytest.fixture(scope="module")
def honest() -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(random_trace(2)))
    return found


@pytest.mark.parametrize(
    "lie",
    [_legal_label, _illegal_label, _other_rule, _other_status, _other_step, _other_starter, _other_entry, _no_step_ran],
)
def test_a_trace_that_lies_does_not_agree(lie: Callable[[Any], None], honest: dict[str, Any], tmp_path: Path) -> None:
    altered = json.loads(json.dumps(honest))
    lie(altered)
    assert altered != honest
    file = tmp_path / "lie.json"
    file.write_text(json.dumps(altered))
    assert main([str(file)]) == WRONG


def test_labels_may_say_that_a_state_differs(honest: dict[str, Any]) -> None:
    altered = json.loads(json.dumps(honest))
    index = next(n for n, step in enumerate(altered["steps"]) if step["state"]["instances"])
    altered["steps"][index]["state"]["instances"] = {}
    altered["expect"]["differs"] = [index]
    report = followed(msgspec.convert(altered, ModelTrace), "a trace")
    assert report.agrees, problems(report)


# -- the command ------------------------------------------------------------------------------------------------------


def lines(capsys: pytest.CaptureFixture[str]) -> Iterator[Any]:
    return map(json.loads, capsys.readouterr().out.splitlines())


def test_the_command_writes_a_line_for_each_trace(
    honest: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Plain files, compressed ones, folders of them, and random ones."""
    (tmp_path / "plain.json").write_text(json.dumps(honest))
    (tmp_path / "packed.json.gz").write_bytes(gzip.compress(json.dumps(honest).encode()))
    assert main([str(tmp_path), "--random", "1", "--seed", "3"]) == 0
    packed, plain, walk = lines(capsys)
    assert plain["agrees"]
    assert plain["illegal"] == honest["expect"]["illegal"]
    assert plain["accepted"] + len(plain["refused"]) == plain["steps"] == len(honest["steps"])
    assert {**packed, "trace": ""} == {**plain, "trace": ""}
    assert walk["trace"] == "seed 3"


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"{", "is no trace"), (b'{"steps": []}', "constants"), (b"\x1f\x8bno", "is no trace"), (None, "No such file")],
)
def test_a_file_that_is_no_trace_is_said_to_be_none(
    content: bytes | None, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "trace.json"
    if content is not None:
        file.write_bytes(content)
    assert main([str(file)]) == UNUSABLE
    assert words in capsys.readouterr().err


def test_without_any_trace_the_command_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == UNUSABLE
    assert "--random" in capsys.readouterr().err
