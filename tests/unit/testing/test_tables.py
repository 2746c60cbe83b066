"""Tables in one test: every row is tried, and none that fails is hidden by another."""

from __future__ import annotations

import inspect

import pytest

from tests.tables import MOST_SHOWN, table


def test_every_row_is_tried_and_all_that_fail_are_named() -> None:
    tried = []

    @table(("number", "limit"), [(1, 2), (5, 4), (2, 3), (7, 6)])
    def check(number: int, limit: int, fixture: str) -> None:
        tried.append((number, fixture))
        assert number < limit

    assert list(inspect.signature(check).parameters) == ["fixture"]
    with pytest.raises(pytest.fail.Exception) as caught:
        check(fixture="f")
    assert tried == [(1, "f"), (5, "f"), (2, "f"), (7, "f")]
    said = str(caught.value)
    assert said.startswith("2 of 4 rows fail:\n(5, 4): AssertionError: assert 5 < 4")
    assert "(7, 6): AssertionError: assert 7 < 6" in said
    assert "of test_tables.py)" in said


def test_a_table_that_holds_is_silent_and_an_empty_one_fails() -> None:
    table("number", [1, 2])(lambda number: None)()
    with pytest.raises(AssertionError, match="the table is empty"):
        table("number", [])(lambda number: None)()


def test_a_list_of_failures_is_cut() -> None:
    """A thousand rows that fail for one reason do not fill the screen."""

    @table("number", range(1000))
    def check(number: int) -> None:
        pytest.fail("no")

    with pytest.raises(pytest.fail.Exception, match="1000 of 1000") as caught:
        check()
    assert len(str(caught.value).splitlines()) == MOST_SHOWN + 2
