"""A law that was broken inside of a step. The engine makes a failed attempt of what a step raises, so it is noted."""

from __future__ import annotations

from typing import Final

noted: Final[list[str]] = []
"""What was broken in the simulation that is under way."""


class Broken(SystemExit):
    """Raised by a step's own check; the simulation ends with it, or finds it noted."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        noted.append(text)
