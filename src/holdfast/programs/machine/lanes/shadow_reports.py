"""What a shadow run saw: what other code would have made of the events that were recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class EffectTally(msgspec.Struct, frozen=True, omit_defaults=True):
    """How often an effect was asked for: by the code that recorded it, by the shadow, and by both for the same cell at
    the same event. ``pending`` are calls of the shadow to which no receipt was recorded."""

    recorded: int = 0
    shadow: int = 0
    same: int = 0
    pending: int = 0


class StateDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    """A cell whose state is another one in the shadow: its fields, before and after. A missing side is null."""

    key: Any
    recorded: Any = None
    shadow: Any = None
    statuses: tuple[str, str] = ("", "")


class MachineShadow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was seen of one machine. ``statuses`` and ``shadow_statuses`` count cells. ``failures`` counts events that
    the shadow could not handle, by reason. ``deltas`` are the first cells that differ; ``different`` counts all.
    ``unreadable`` are cells whose kept state this code cannot read, with the reason. ``unseen`` says what was not
    observed, and why."""

    machine: str
    change: str
    allowed: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    lanes: int = 0
    events: int = 0
    cells: int = 0
    effects: Mapping[str, EffectTally] = {}
    emitted: int = 0
    statuses: Mapping[str, int] = {}
    shadow_statuses: Mapping[str, int] = {}
    failures: Mapping[str, int] = {}
    different: int = 0
    deltas: tuple[StateDelta, ...] = ()
    unreadable: Mapping[str, str] = {}
    unseen: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether the shadow did what was recorded, as far as it was seen."""
        same = all(each.recorded == each.shadow == each.same for each in self.effects.values())
        return same and not (self.different or self.failures or self.unreadable)


class ShadowReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a shadow run saw. It is bounded to what was recorded: ``bounds`` says to what."""

    digest: str
    at: int
    machines: tuple[MachineShadow, ...] = ()
    bounds: str = ""

    @property
    def agrees(self) -> bool:
        """Whether nothing was seen that differs."""
        return all(each.agrees for each in self.machines)
