"""Failures and retry policies."""

from __future__ import annotations

import pytest

from holdfast.journal.payload import ONCE, Failure, RetryPolicy, policy_fields, policy_of


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_attempts": 0},
        {"initial": -1.0},
        {"maximum": -0.1},
        {"factor": 0.5},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"deadline": 0.0},
        {"attempt_timeout": 0.0},
        {"attempt_timeout": float("inf")},
        {"on": "timeout"},
        {"on": ("",)},
    ],
    ids=str,
)
def test_a_policy_out_of_bounds_is_refused(wrong: dict[str, object]) -> None:
    """A policy that could not be followed is never recorded."""
    with pytest.raises(ValueError):
        RetryPolicy(**wrong)  # type: ignore[arg-type]  # one wrong field at a time


def test_the_delay_grows_by_the_factor_up_to_the_maximum() -> None:
    """Attempt n waits initial * factor ** (n - 1), at most the maximum."""
    policy = RetryPolicy(max_attempts=9, initial=1.0, factor=2.0, maximum=5.0, jitter=0.0)
    assert [policy.delay_seconds(n, 0.9) for n in range(1, 6)] == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_the_delay_of_a_very_late_attempt_is_the_maximum() -> None:
    """No attempt number makes the power overflow."""
    policy = RetryPolicy(max_attempts=10**9, factor=10.0, maximum=60.0, jitter=0.0)
    assert policy.delay_seconds(10**9, 0.0) == 60.0


@pytest.mark.parametrize(("entropy", "expected"), [(0.0, 5.0), (0.5, 10.0), (0.999999, 15.0)])
def test_jitter_moves_the_delay_either_way(entropy: float, expected: float) -> None:
    """Jitter is a fraction of the plain delay, decided by the given entropy alone."""
    policy = RetryPolicy(initial=10.0, jitter=0.5)
    assert policy.delay_seconds(1, entropy) == pytest.approx(expected, abs=1e-4)


def test_once_is_one_attempt() -> None:
    """The policy of a step that names none."""
    assert ONCE.max_attempts == 1


def test_a_failure_reads_as_its_class_and_message() -> None:
    """People see the class's name without its module."""
    assert str(Failure("shop.errors:Declined", "no funds")) == "Declined: no funds"
    assert str(Failure("builtins:KeyError", "")) == "KeyError"


@pytest.mark.parametrize(
    "policy",
    [
        ONCE,
        RetryPolicy(on=("timeout",)),
        RetryPolicy(attempt_timeout=2.5),
        RetryPolicy(on=("a", "b"), attempt_timeout=1.0),
    ],
    ids=str,
)
def test_a_policy_is_read_as_it_was_written(policy: RetryPolicy) -> None:
    """And can be a key, as those that are not read are."""
    assert policy_of(policy_fields(policy)) == policy
    assert hash(policy_of(policy_fields(policy))) == hash(policy)


def test_what_a_policy_does_not_say_is_not_written() -> None:
    """Journals of calls that say nothing of it have the bytes that they always had."""
    assert len(policy_fields(RetryPolicy())) == 6


def test_a_failure_without_details_is_written_as_ever() -> None:
    """Three members, and a fourth only where there is one."""
    assert Failure("a:B", "c", "d").fields() == ["a:B", "c", "d"]
    assert Failure("a:B", "c", "d", "{}").fields() == ["a:B", "c", "d", "{}"]
