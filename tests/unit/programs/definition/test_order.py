"""The order in which an author writes branches, options and nodes: kept for people, and nothing that a run does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.drawing.definitions import draw_definition
from holdfast.programs.definition.compiler.compiler import as_written, compile_text
from holdfast.programs.definition.decompiler.python_text import python_of
from holdfast.programs.definition.decompiler.yaml_text import yaml_of
from holdfast.programs.definition.walks import in_authors_order, names_inside, order_of

TEXT = """\
holdfast: definition/1
name: ordered
version: 1
steps:
  - f:
      fork:
        zeta: [{z: {step: ordered.one, as: state.z}}]
        mid: [{m: {set: {state.m: 1}}}]
        alpha: [{p: {pick: {late: {sleep: 1h}, early: {wait: e}}}}]
  - g: {graph: {second: {needs: [first], set: {state.b: 2}}, first: {set: {state.a: 1}}}}
"""
ORDER = {"f": ("zeta", "mid", "alpha"), "p": ("late", "early"), "g": ("second", "first")}


def test_the_order_is_beside_the_canonical_form_and_the_digest_has_none_of_it() -> None:
    found = compile_text(TEXT)
    again = compile_text(yaml_of(found.definition))
    assert (again.digest, again.canonical, again.order) == (found.digest, found.canonical, {})
    assert found.order == ORDER
    assert names_inside(found.definition.steps[0].verb) == ("alpha", "mid", "zeta")
    assert order_of(as_written(found)) == ORDER
    assert order_of(found.definition) == {}


def test_exported_texts_have_the_order_and_compile_to_the_same_digest() -> None:
    found = compile_text(TEXT)
    text = yaml_of(as_written(found))
    assert text.index("zeta") < text.index("mid") < text.index("alpha")
    again = compile_text(text)
    assert (again.digest, again.order) == (found.digest, ORDER)
    python = python_of(as_written(found))
    assert python.index("zeta") < python.index("alpha")


def test_an_order_of_other_names_changes_nothing() -> None:
    """One that lacks names, or has more: what it does not name comes last."""
    found = compile_text(TEXT)
    definition = in_authors_order(found.definition, {"f": ("gone", "mid"), "none": ("x",)})
    assert names_inside(definition.steps[0].verb) == ("mid", "alpha", "zeta")


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_pictures_and_texts_of_what_is_published_have_the_order(kind: str, tmp_path: Path) -> None:
    """Also in a process that has no file of it, and of a run."""
    url = f"sqlite:///{tmp_path / 'kept.db'}" if kind == "sqlite" else "memory://"

    async def main() -> None:
        async with Holdfast(url) as app:
            await app.definitions.publish(TEXT, by="ann", check_uses=False)
            found = await app.definitions.load("ordered")
            assert found is not None
            assert found.order == ORDER
            run = await app.start("ordered", {})
            await run.settled(30)
            columns = {box.id: box.x for box in (await run.picture()).boxes if box.id in "zmp"}
            assert columns["z"] < columns["m"] < columns["p"]
            assert sorted(columns.values()) == [columns[name] for name in "zmp"]

    asyncio.run(main())


def test_a_picture_has_the_branches_from_left_to_right_as_they_are_written() -> None:
    boxes = {box.id: box.x for box in draw_definition(as_written(compile_text(TEXT))).boxes}
    assert boxes["z"] < boxes["m"] < boxes["p"]
