"""Exceptions become data and come back as something the author can catch."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.errors import InvalidFunction, StepFailed, Undecodable
from holdfast.journal.payload import Failure
from holdfast.programs.function.failures import TRACE_LIMIT, describe, revive


class Declined(Exception):
    """An author's own error, with its own constructor."""

    def __init__(self, code: int, *, why: str) -> None:
        super().__init__(code, why)
        self.code = code

    def __str__(self) -> str:
        return f"declined with {self.code}"


class Odd(Exception):
    """An error that cannot be made without its own arguments."""

    def __new__(cls, one: int, two: int) -> Odd:
        return super().__new__(cls, one, two)


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:
        return caught


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        KeyError("gone"),
        OSError(2, "missing"),
        FileNotFoundError("x"),
        TimeoutError(),
        UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"),
        StopIteration(1),
        Declined(7, why="funds"),
        json.JSONDecodeError("bad", "doc", 0),
        Undecodable("stored otherwise"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_known_class_can_be_caught_as_itself(error: Exception) -> None:
    """``except ValueError`` in a workflow catches a step's ValueError; it is a StepFailed as well."""
    failure = describe(raised(error))
    back = revive(failure, "step charge")
    assert isinstance(back, type(error))
    assert isinstance(back, StepFailed)
    assert back.failure == failure
    assert str(back).startswith(f"step charge failed: {type(error).__name__}")


@pytest.mark.parametrize(
    "name",
    ["gone.module:Error", "builtins:NoSuchError", "builtins:print", "builtins:KeyboardInterrupt", "", "nonsense"],
)
def test_an_unknown_class_gives_a_step_failed(name: str) -> None:
    """The worker that made it may have modules that this one lacks; nothing but an Exception is ever revived."""
    back = revive(Failure(name, "no"), "step charge")
    assert type(back) is StepFailed
    assert "no" in str(back)


@pytest.mark.parametrize("error", [ExceptionGroup("several", [ValueError("a")]), Odd(1, 2)], ids=["group", "odd"])
def test_a_class_that_cannot_be_made_gives_a_step_failed(error: Exception) -> None:
    """A child whose TaskGroup failed must not break its parent."""
    assert type(revive(describe(error), "workflow child")) is StepFailed


def test_a_failure_that_passes_through_keeps_its_origin() -> None:
    """A workflow that does not catch a step's error fails with that error, not with a wrapper's."""
    failure = Failure("builtins:ValueError", "no", "where it was raised")
    assert describe(revive(failure, "step charge")) == failure


def test_the_trace_shows_where_and_is_bounded() -> None:
    """The end of a traceback is what people read."""

    def deep(n: int) -> Any:
        return deep(n - 1) if n else 1 / 0

    try:
        deep(200)
    except ZeroDivisionError as error:
        failure = describe(error)
    assert failure.trace.rstrip().endswith("division by zero")
    assert "in deep" in failure.trace
    assert len(failure.trace) <= TRACE_LIMIT


def test_a_long_traceback_is_cut_between_lines() -> None:
    """Half of a secret would not be recognised, and so not removed."""
    try:
        raise ValueError("\n".join("s3cret" for _ in range(TRACE_LIMIT)))
    except ValueError as error:
        failure = describe(error)
    assert len(failure.trace) <= TRACE_LIMIT
    assert set(failure.trace.splitlines()) == {"s3cret"}


def test_a_recorded_name_outlives_the_renaming_of_its_class() -> None:
    """Journals have the old name: it is written on, and read as the class of today."""
    assert describe(InvalidFunction("no")).type == "holdfast.errors:InvalidDefinition"
    assert isinstance(revive(Failure("holdfast.errors:InvalidDefinition", "no"), "it"), InvalidFunction)
