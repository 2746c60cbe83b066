"""Moves of runs to another version of their definition, as they are shown."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.programs.definition.migration.plan import Verdict


class MoveInfo(msgspec.Struct, frozen=True):
    """Whether a run can move: ``safe``, ``mapped`` (by ``migrate:``) or ``blocked``, and why.

    ``asked`` is whether it was asked to: it moves when a worker takes it up.
    """

    run: str
    tenant: str
    before: int  # versions
    after: int
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    asked: bool = False


def move_record(move: MoveInfo) -> dict[str, Any]:
    """A move as JSON has it."""
    found: dict[str, Any] = msgspec.to_builtins(move)
    return found
