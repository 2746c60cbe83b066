"""Promise ids name positions in a call tree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.journal.promise import JoinSetId, PromiseId

RUN = PromiseId.of_run("digest", None, "order-42")


def test_a_run_has_an_empty_path_and_no_parent() -> None:
    """J-01: an execution id is a promise id at depth 0."""
    assert RUN.path == ()
    assert RUN.parent() is None
    assert RUN.run() == RUN


def test_a_child_knows_its_parent_and_its_run() -> None:
    """J-01: the parent learns of the settlement, and the run's journal holds the promise."""
    grandchild = RUN.child(3).child(0)
    assert grandchild.path == (3, 0)
    assert grandchild.parent() == RUN.child(3)
    assert grandchild.run() == RUN


def test_a_negative_position_is_refused() -> None:
    """J-01: positions count from 0."""
    with pytest.raises(ValueError, match="0 or more"):
        RUN.child(-1)


@given(st.binary(min_size=32, max_size=32), st.lists(st.integers(0, 2**32 - 1), max_size=6))
def test_the_text_form_round_trips(root: bytes, path: list[int]) -> None:
    """J-01: ``parse`` is the inverse of ``str``."""
    promise = PromiseId(root, tuple(path))
    assert PromiseId.parse(str(promise)) == promise
    assert JoinSetId.parse(str(promise)) == JoinSetId(promise)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        "zz" * 32,
        "00" * 32 + ".",
        "00" * 32 + ".-1",
        "00" * 32 + ".01",
        "AB" * 32,
        "00" * 33,
        "00" * 32 + ". 1",
    ],
)
def test_other_text_is_refused(text: str) -> None:
    """J-01: one id has one spelling."""
    with pytest.raises(ValueError, match="not a promise id"):
        PromiseId.parse(text)


def test_the_root_is_a_function_of_digest_parent_and_key() -> None:
    """J-02: the same start finds the same execution, any other finds another."""
    same = PromiseId.of_run("digest", None, "order-42")
    others = [
        PromiseId.of_run("other", None, "order-42"),
        PromiseId.of_run("digest", RUN, "order-42"),
        PromiseId.of_run("digest", RUN.child(0), "order-42"),
        PromiseId.of_run("digest", None, "order-43"),
    ]
    assert same == RUN
    assert len({RUN, *others}) == 5


def test_a_join_set_id_is_no_promise_id() -> None:
    """J-03: the two types never compare equal, so one cannot stand for the other."""
    promise = RUN.child(1)
    join_set = JoinSetId(promise)
    assert join_set != promise
    assert not isinstance(join_set, PromiseId)
    assert hash(join_set) != hash(promise)
    assert join_set == JoinSetId(RUN.child(1))
    assert repr(join_set) == f"JoinSetId({promise})"
