"""The mutants keep up with the source: ``make mutants`` then shows that the suite catches them."""

from __future__ import annotations

import pytest

from tests.mutants.mutants import MUTANTS, Mutant
from tests.mutants.run import ROOT, NoMutant, place


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_can_be_made_of_the_present_source(mutant: Mutant) -> None:
    """A mutant whose place has moved away would break nothing, and its survival would say nothing."""
    text = place(ROOT, mutant).read_text()
    assert text.replace(mutant.old, mutant.new) != text


def test_mutants_have_names_of_their_own() -> None:
    """The table and the command line tell them apart by name."""
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_a_text_that_is_not_there_once_is_reported() -> None:
    """Neither a text that is gone nor one that is ambiguous is passed over."""
    for old in ("no file of this project says this", "import"):
        with pytest.raises(NoMutant):
            place(ROOT, Mutant("none", "src/holdfast/kernel", old, "", ()))
