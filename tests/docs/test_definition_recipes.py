"""The recipes for definitions compile, with whatever they call."""

from __future__ import annotations

import pytest

from holdfast.programs.definition.compiler.compiler import compile_text
from tests.docs.pages import ROOT, Block, blocks

PAGE = ROOT / "docs" / "definitions-how-to.md"
HEAD = "holdfast: definition/1\nname: recipe\nversion: 1\nsteps:\n"


@pytest.mark.parametrize("block", blocks(PAGE, "yaml"), ids=lambda block: f"line-{block.line}")
def test_a_recipe_compiles(block: Block) -> None:
    compile_text(HEAD + block.text)
