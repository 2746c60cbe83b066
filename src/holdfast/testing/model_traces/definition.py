"""The definition of a template of the model: a graph of its steps, whose run ends when the trace says so.

The graph is one branch of a fork. Behind it, the run waits for the signal ``complete``; a failed graph waits for ever.
Beside it, the other branch waits for the signal ``fail``, with which the run fails at once: the model may fail an
instance while other steps go on.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.testing.model_traces.stage import know_step
from holdfast.testing.model_traces.trace import Constants, Params

COMPLETE: Final = "complete"
FAIL: Final = "fail"


def definition_of(params: Params, constants: Constants, name: str) -> dict[str, Any]:
    """The definition that a ``CreateTemplate`` asks for."""
    functions = {each: know_step(each) for each in constants.steps}
    retry = {"max": constants.max_retries, "first": "1s", "jitter": 0}
    given = {"tenant": "=run.tenant", "run": "=run.id"}
    nodes: dict[str, Any] = {}
    for step in params["steps"]:
        nodes[step] = {"step": functions.get(step, step), "with": given, "retry": retry}
        # A step that the graph lacks is needed by the name of its function, and counts as skipped.
        present = params["steps"]
        if needs := [
            each if each in present else functions.get(each, each) for each in params["dependencies"].get(step, ())
        ]:
            nodes[step]["needs"] = needs
    flow = [
        {"model-graph": {"graph": nodes, "on": {"failure": [{"model-stuck": {"wait": "nothing"}}]}}},
        {"model-complete": {"wait": COMPLETE}},
    ]
    branches = {"flow": flow, "failing": [{"model-fail": {"wait": FAIL}}]}
    return {
        "holdfast": "definition/1",
        "name": name,
        "version": 1,
        "uses": {"steps": sorted(functions.values())},
        "steps": [
            {"model-run": {"fork": branches, "join": "any", "gives": "=true", "as": "state.ended"}},
            {
                "model-end": {
                    "when": "=has(state.ended.failing)",
                    "raise": {"code": "FAILED", "message": "a step has failed"},
                }
            },
        ],
    }
