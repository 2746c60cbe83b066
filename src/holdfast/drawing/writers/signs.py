"""Small drawings: an icon for each verb and a sign for each state. All are SVG paths, so they need no font."""

from __future__ import annotations

from typing import Final

ICONS: Final = {
    "step": "M2 4.5 L6.5 8 L2 11.5 M8 12 H14",
    "action": "M9 1.5 L3.5 9 H8 L7 14.5 L12.5 7 H8 Z",
    "http": "M8 1.5 A6.5 6.5 0 1 0 8 14.5 A6.5 6.5 0 1 0 8 1.5 M1.5 8 H14.5 M8 1.5 C4 5.5 4 10.5 8 14.5 "
    "C12 10.5 12 5.5 8 1.5",
    "graphql": "M8 1.5 L13.6 4.7 V11.3 L8 14.5 L2.4 11.3 V4.7 Z M8 1.5 L2.4 11.3 H13.6 Z",
    "task": "M8 8 A3 3 0 1 0 8 2 A3 3 0 1 0 8 8 M2.5 14.5 C2.5 8.5 13.5 8.5 13.5 14.5 Z",
    "wait": "M1.5 3.5 H14.5 V12.5 H1.5 Z M1.5 4 L8 9 L14.5 4",
    "sleep": "M8 1.5 A6.5 6.5 0 1 0 8 14.5 A6.5 6.5 0 1 0 8 1.5 M8 4.5 V8 L10.5 10",
    "set": "M2.5 13.5 L3 10.5 L10.5 3 L13 5.5 L5.5 13 Z M9 4.5 L11.5 7",
    "repeat": "M13 8 A5 5 0 1 1 11.3 4.2 M13.5 1.8 L11.6 4.6 L8.6 3.4",
    "fork": "M8 1.5 V5 M2.5 5 H13.5 M4 5 V14.5 M8 5 V14.5 M12 5 V14.5",
    "graph": "M8 2 V6 M8 6 L3.5 11 M8 6 L12.5 11 M6.5 1.5 H9.5 V4 H6.5 Z M2 11 H5 V14 H2 Z M11 11 H14 V14 H11 Z",
    "do": "M2 2.5 H14 V13.5 H2 Z M2 6 H14",
    "run": "M1.5 1.5 H10 V10 H1.5 Z M6 12.5 V14.5 H14.5 V6 H12.5",
    "continue": "M1.5 8 H13 M9 3.5 L13.5 8 L9 12.5",
    "send": "M1.5 8 L14.5 2 L10.5 14 L7.5 9 Z M7.5 9 L14.5 2",
    "end": "M8 1.5 A6.5 6.5 0 1 0 8 14.5 A6.5 6.5 0 1 0 8 1.5 M5.5 5.5 H10.5 V10.5 H5.5 Z",
    "raise": "M8 2 L14.5 13.5 H1.5 Z M8 6.5 V9.5 M8 11.2 V11.8",
    "check": "M2.5 8.5 L6.5 12.5 L13.5 3.5",
    "compensate": "M6 3 L2 6.5 L6 10 M2 6.5 H10 A3.5 3.5 0 0 1 10 13.5 H6",
    "switch": "M8 1.5 L14.5 8 L8 14.5 L1.5 8 Z",
    "pick": "M8 1.5 L14.5 8 L8 14.5 L1.5 8 Z M5.5 8 H10.5",
}
"""Strokes in a square of 16 by 16. What is not here is drawn as ``action``: a package's transport."""

SIGNS: Final = {
    "pending": "M5 8 H11",
    "running": "M6.2 4.8 L11.4 8 L6.2 11.2 Z",
    "waiting": "M6.2 5 V11 M9.8 5 V11",
    "retrying": "M11 8.6 A3.2 3.2 0 1 1 10 5.6 M11.4 4.2 L10.2 6 L8.2 5.4",
    "success": "M4.8 8.3 L7.1 10.6 L11.3 5.8",
    "failed": "M5.6 5.6 L10.4 10.4 M10.4 5.6 L5.6 10.4",
    "skipped": "M5 5.2 L8 8 L5 10.8 M8.4 5.2 L11.4 8 L8.4 10.8",
    "cancelled": "M5.2 5.2 H10.8 V10.8 H5.2 Z",
}
"""Strokes in a disc of 16 by 16."""

GROUPS: Final = {
    "step": "call",
    "action": "outside",
    "http": "outside",
    "graphql": "outside",
    "task": "wait",
    "wait": "wait",
    "sleep": "wait",
    "pick": "wait",
    "check": "data",
    "set": "data",
    "send": "other",
    "run": "other",
    "workflow": "other",
    "continue": "other",
    "end": "end",
    "raise": "error",
    "compensate": "error",
}
"""Which verbs share a colour."""

_BLOCKS: Final = frozenset({"switch", "repeat", "fork", "graph", "do"})


def group_of(verb: str) -> str:
    """The colour of a verb."""
    return "block" if verb in _BLOCKS else GROUPS.get(verb, "outside")


def icon_of(verb: str) -> str:
    """The icon of a verb."""
    return ICONS.get(
        {"workflow": "run", "signal": "wait", "timer": "sleep", "form": "task"}.get(verb, verb), ICONS["action"]
    )
