"""References to versions of definitions: which of those that there are they mean, and what they may have meant."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidRequest
from holdfast.programs.definition.versions import latest, may_mean, parse_reference

DIGEST = "0" * 64


@pytest.mark.parametrize(
    ("reference", "expected"),
    [("x", 4), ("x@latest", 4), ("x@2", 2), ("x@3", None), ("x@^2", 4), ("x@>=4", 4), ("x@^5", None)],
)
def test_a_reference_means_the_newest_that_fits(reference: str, expected: int | None) -> None:
    assert latest([1, 2, 4], parse_reference(reference)[1]) == expected


@pytest.mark.parametrize("reference", ["", "x y", "x@", "x@^latest", "x@1.2", "x#1"])
def test_other_texts_are_no_references(reference: str) -> None:
    with pytest.raises(InvalidRequest, match="letters@3"):
        parse_reference(reference)


@pytest.mark.parametrize(
    ("reference", "called", "expected"),
    [
        ("x", f"x@3#{DIGEST}", True),
        ("x@^2", f"x@3#{DIGEST}", True),
        ("x@2", f"x@3#{DIGEST}", False),
        ("x@^4", f"x@3#{DIGEST}", False),
        ("y", f"x@3#{DIGEST}", False),
        ("x", "x", True),
        ("x@^1", "x", False),
    ],
)
def test_a_recorded_name_is_one_that_the_reference_may_have_meant(reference: str, called: str, expected: bool) -> None:
    assert may_mean(reference, called) == expected
