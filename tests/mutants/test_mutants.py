"""The mutants keep up with the source: ``make mutants`` then shows that the suite catches them."""

from __future__ import annotations

import ast

import pytest

from tests.mutants.mutants import MUTANTS, Mutant
from tests.mutants.run import ROOT, NoMutant, place
from tests.tables import table


@table("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_can_be_made_of_the_present_source(mutant: Mutant) -> None:
    """A mutant whose place has moved away would break nothing, and its survival would say nothing."""
    file = place(ROOT, mutant)
    text = file.read_text()
    broken = text.replace(mutant.old, mutant.new)
    assert broken != text
    if file.suffix == ".py":
        ast.parse(broken)  # a mutant that is no Python is caught by any judge


def test_every_mutant_has_another_name() -> None:
    """The output and the command line identify them by name."""
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_a_text_that_is_not_there_once_is_reported() -> None:
    """A text that is missing or ambiguous is an error."""
    for old in ("no file of this project says this", "import"):
        with pytest.raises(NoMutant):
            place(ROOT, Mutant("none", "src/holdfast/kernel", old, "", ()))
