"""A law that was broken inside a step. The engine treats what a step raises as a failed attempt, so it is noted."""

from __future__ import annotations

from typing import Final

noted: Final[list[str]] = []
"""The laws that were broken in the present simulation."""


class Broken(SystemExit):
    """Raised by a check inside a step. The simulation ends with it, or finds it in ``noted``."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        noted.append(text)
