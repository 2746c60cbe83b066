"""A policy's file that changes while it is in force."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from holdfast.errors import InvalidPolicy
from holdfast.gate.policy.keeper import PolicyKeeper
from holdfast.gate.policy.policy import NO_POLICY
from tests.unit.gate.policy.policies import file_of, policy_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "policy.yaml"
    file.write_text(file_of(("true", "allow")), encoding="utf-8")
    return file


def test_a_changed_file_comes_into_force_when_it_is_read_again(path: Path) -> None:
    """The result is whether the policy changed; the same content is the same policy."""
    keeper = PolicyKeeper(path)
    first = keeper.current
    assert keeper.reload() is False
    assert keeper.current is first
    path.write_text(file_of(("true", "deny")), encoding="utf-8")
    assert keeper.reload() is True
    assert keeper.current.hash != first.hash
    assert keeper.reload() is False


def test_a_broken_file_leaves_the_old_policy_in_force_and_is_logged(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The whole message is in the log once, and in ``trouble`` until the file is corrected."""
    keeper = PolicyKeeper(str(path))
    first = keeper.current
    path.write_text(file_of(("acton.writes", "allow"), ("true &&", "deny")), encoding="utf-8")
    with caplog.at_level(logging.ERROR, "holdfast.policy"):
        assert [keeper.reload() for _ in range(3)] == [False] * 3
    assert keeper.current is first
    assert keeper.trouble is not None
    assert "did you mean `action`?" in keeper.trouble
    assert "is not CEL" in keeper.trouble
    (record,) = caplog.records
    assert keeper.trouble in record.getMessage()
    path.write_text(file_of(("true", "allow")), encoding="utf-8")
    assert keeper.reload() is False
    assert (keeper.trouble, keeper.current) == (None, first)


@pytest.mark.parametrize("scalar", ["0x_", "0b_", "!!int abc", "!!bool x", "1" * 5000])
def test_an_invalid_number_leaves_the_old_policy_in_force(
    path: Path, caplog: pytest.LogCaptureFixture, scalar: str
) -> None:
    """It is logged once, with its place, and raises no error."""
    keeper = PolicyKeeper(path)
    first = keeper.current
    path.write_text(f"version: 1\nrules: []\ncaps: {{default: {{weight: {scalar}}}}}\n", encoding="utf-8")
    with caplog.at_level(logging.ERROR, "holdfast.policy"):
        assert [keeper.reload() for _ in range(3)] == [False] * 3
    assert keeper.current is first
    assert keeper.trouble is not None
    assert f"{path}:3:26: " in keeper.trouble
    assert len(caplog.records) == 1


def test_any_error_in_reading_leaves_the_old_policy_in_force(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected error is handled like any other."""
    keeper = PolicyKeeper(path)
    first = keeper.current

    def fails(*_: object) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(keeper, "_parse", fails)
    path.write_text("version: 1\nrules: []\n", encoding="utf-8")
    assert [keeper.reload() for _ in range(2)] == [False] * 2
    assert keeper.current is first
    assert keeper.trouble == f"{path}: it cannot be read: RecursionError: too deep"
    assert len(caplog.records) == 1


def test_a_file_that_is_gone_leaves_the_old_policy_in_force(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Deleting a policy does not switch it off."""
    keeper = PolicyKeeper(path)
    path.unlink()
    assert keeper.reload() is False
    assert keeper.trouble is not None
    assert "cannot be read" in keeper.trouble
    assert keeper.current.rules == ("r0",)
    path.write_text(file_of(("true", "deny")), encoding="utf-8")
    assert (keeper.reload(), keeper.trouble) == (True, None)


def test_nothing_begins_under_a_policy_that_cannot_be_read(path: Path) -> None:
    """At the start there is no old policy to keep."""
    path.write_text("rules: []", encoding="utf-8")
    with pytest.raises(InvalidPolicy, match="`version` is missing"):
        PolicyKeeper(path)
    with pytest.raises(InvalidPolicy, match="cannot be read"):
        PolicyKeeper(path.parent / "other.yaml")


def test_a_policy_that_comes_from_no_file_stays_as_it_is() -> None:
    """A policy object, or none, has no file to read again."""
    policy = policy_of(("true", "allow"))
    assert (PolicyKeeper(policy).current, PolicyKeeper(policy).reload()) == (policy, False)
    assert (PolicyKeeper(None).current, PolicyKeeper(None).reload()) == (NO_POLICY, False)
