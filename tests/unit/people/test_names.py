"""Two names mean two people only if they differ visibly."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.people.names import is_name, person

SAME = [
    "ben\ufe0f",  # a variation selector: printable but invisible
    "be\u200dn",  # a joiner
    "\u202eben",  # a change of direction
    "b\u00aden",  # a soft hyphen
    "ben\U000e0041",  # a tag
    "ben\u034f",
    "b\u3164en",
    "b\u2800en",
    "ben ",
    "b  en",
    "b\u00a0en",
    "BEN",
    "\uff22en",  # a wide letter
    "ben\U000e0100",
]


@pytest.mark.parametrize("name", SAME, ids=ascii)
def test_one_person_is_one_however_the_name_is_written(name: str) -> None:
    """Invisible characters, blanks, capitals and other codes for a letter make no second person."""
    assert person(name) == person("ben")


@pytest.mark.parametrize(
    "name", [name for name in SAME if name not in ("BEN", "\uff22en")] + ["", " ", "\ufe0f"], ids=ascii
)
def test_a_name_that_does_not_read_as_it_is_written_is_refused(name: str) -> None:
    """It would look like another name."""
    assert not is_name(name)


@pytest.mark.parametrize("name", ["ben", "Ben Miller", "Zoë", "Ольга", "李雷", "ben@example.org", "o'neill-7", "नमन"])
def test_ordinary_names_are_names(name: str) -> None:
    """In any alphabet, with a blank between first and last."""
    assert is_name(name)


def test_people_of_different_names_are_different() -> None:
    """Letters, digits and marks on letters make a difference."""
    assert len({person(name) for name in ("ben", "bén", "ben2", "ken", "ben-2", "Ольга", "Ольгa")}) == 7


@given(st.text(max_size=8))
def test_the_comparison_is_settled(one: str) -> None:
    """The form of the form is the same, and nothing invisible is left in it."""
    assert person(person(one)) == person(one)
    assert not any(unicodedata.category(letter)[0] in "CZ" for letter in person(one))


def test_every_character_that_cannot_be_seen_is_refused() -> None:
    """All of Unicode: a name with a character that makes no difference between people is no name."""
    for code in range(sys.maxunicode + 1):
        if person(letter := chr(code)) == "" and letter != " ":
            assert not is_name(f"a{letter}b"), hex(code)
