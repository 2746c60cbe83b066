"""Schedules that are declared in code: by a decorator, or in a definition. Pure: what a declaration changes.

| the schedule of that name | the declaration | then |
|---|---|---|
| none | any | it is made |
| declared before | in a decorator, not seen yet | it follows the new declaration |
| declared before | in a decorator, seen before | nothing: older code, or the same, is being started |
| declared before | of a newer version of the definition | it follows that; without a schedule there, it is over |
| deleted by a person | any but of a newer version of the definition | nothing |
| made by a person | any | nothing |

So many workers may declare at once, and workers of older and newer code side by side: the newest declaration wins, and
older code does not take it back. What people change or pause stays so until a declaration is changed.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.schedules.planner import ended, retimed
from holdfast.schedules.schedule import CatchUp, Input, Outcome, Overlap, Schedule
from holdfast.schedules.timing import Timing

REMEMBERED: Final = 20
"""So many declarations of one schedule are remembered."""


class DeclaredSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """What code says of a schedule. ``version`` is that of the definition; 0 for a decorator.

    Without a timing a definition says that it has no schedule.
    """

    name: str
    timing: Timing | None
    program: str
    input: Input = Input()
    overlap: Overlap = "skip"
    catch_up: CatchUp = "latest"
    window: int | None = None
    jitter: int = 0
    version: int = 0

    @property
    def mark(self) -> str:
        """By what the declaration is known again."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:16]


Followed = tuple[Schedule, tuple[Outcome, ...]]
"""A schedule as declared, and what becomes of ticks by that."""


def declared(
    present: Schedule | None, declaration: DeclaredSchedule, now: int, offset: int, owner: str | None = None
) -> Followed | None:
    """The schedule as declared; None where it stays as it is."""
    timing, mark = declaration.timing, declaration.mark
    if present is None:
        return None if timing is None else (_with(declaration, _new(declaration, timing, now, owner), mark), ())
    if not _applies(present, declaration, mark):
        return None
    if timing is None:
        if present.over is not None or present.deleted:
            return None
        words = f"version {declaration.version} of the definition has no schedule"
        after, outcomes = ended(present, now, offset, words)
        return replace(after, over=words, version=declaration.version), outcomes
    if present.deleted:
        return _with(declaration, _new(declaration, timing, now, owner), mark), ()
    after, outcomes = retimed(present, timing, now, offset) if timing != present.timing else (present, ())
    return _with(declaration, replace(after, over=None, owner=owner or present.owner), mark), outcomes


def _applies(present: Schedule, declaration: DeclaredSchedule, mark: str) -> bool:
    if not present.declared:  # a person made it
        return False
    if declaration.version or present.version:
        return declaration.version > present.version
    return not present.deleted and mark not in present.declared


def is_older(present: Schedule, declaration: DeclaredSchedule) -> bool:
    """Whether the schedule follows another declaration than this one."""
    return bool(present.declared) and declaration.mark != present.declared[-1]


def _new(declaration: DeclaredSchedule, timing: Timing, now: int, owner: str | None) -> Schedule:
    return Schedule(timing=timing, workflow=declaration.name, owner=owner, made_at=now, cursor=now)


def _with(declaration: DeclaredSchedule, schedule: Schedule, mark: str) -> Schedule:
    return replace(
        schedule,
        input=declaration.input,
        program=declaration.program,
        overlap=declaration.overlap,
        catch_up=declaration.catch_up,
        window=declaration.window,
        jitter=declaration.jitter,
        declared=(*schedule.declared, mark)[-REMEMBERED:],
        version=declaration.version,
    )
