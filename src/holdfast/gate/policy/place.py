"""Places in a file: the path to a part, and a problem with where it stands. It knows nothing of YAML's library."""

from __future__ import annotations

from typing import Final, NamedTuple

Path = tuple[str | int, ...]

LONGEST: Final = 1_000_000
"""How many bytes a file has at most."""


class Problem(NamedTuple):
    """A place in the file, from 1, and what is wrong there. Line 0 is the file as a whole."""

    line: int
    column: int
    what: str
