"""Templates of graphs that others made: those that some order can run are accepted, and the rest is refused."""

from __future__ import annotations

import json

import pytest

from holdfast import Holdfast
from holdfast.errors import InvalidDefinition, TemplateNotFound
from tests.unit.templates import ground
from tests.unit.templates.oracle import TEMPLATES, needs_templates


@needs_templates
async def test_cycles_are_refused_and_everything_else_is_accepted(holdfast_app: Holdfast) -> None:
    """A dependency on a step that the template has not is met at once, as in the model."""
    cases = json.loads((TEMPLATES / "cycles.json").read_text())["cases"]
    refused = 0
    for number, case in enumerate(cases):
        steps = case["steps"]
        needs = {step: [each for each in case["dependencies"].get(step, ()) if each in steps] for step in steps}
        document = ground.graph(needs, name=f"graph_{number}")
        id = f"template {number}"
        if case["acyclic"]:
            info = await holdfast_app.templates.create(id, source=document, by="god")
            assert info.status == "draft"
            continue
        refused += 1
        with pytest.raises(InvalidDefinition, match=r"cycle|wait|each other|itself"):
            await holdfast_app.templates.create(id, source=document, by="god")
        with pytest.raises(TemplateNotFound):
            await holdfast_app.templates.show(id)
    assert (len(cases), 0 < refused < len(cases)) == (300, True)


async def test_a_graph_with_a_cycle_is_no_template(holdfast_app: Holdfast) -> None:
    for number, needs in enumerate([{"a": ["a"]}, {"a": ["b"], "b": ["a"]}, {"a": [], "b": ["c"], "c": ["b", "a"]}]):
        with pytest.raises(InvalidDefinition, match=r"cycle|wait|each other|itself"):
            await holdfast_app.templates.create("round", source=ground.graph(needs, name=f"round_{number}"), by="god")


async def test_a_template_has_steps(holdfast_app: Holdfast) -> None:
    for steps in ([], [{"all": {"graph": {}}}]):
        document = {"holdfast": "definition/1", "name": "empty", "version": 1, "steps": steps}
        with pytest.raises(InvalidDefinition):
            await holdfast_app.templates.create("empty", source=document, by="god")
