"""Places in a file: the path to a part, and a problem with its place. It does not import the YAML library."""

from __future__ import annotations

from typing import Final, NamedTuple

Path = tuple[str | int, ...]

LONGEST: Final = 1_000_000
"""The largest size of a file, in bytes."""


class Problem(NamedTuple):
    """A problem and its place in the file. Lines and columns count from 1; line 0 is the file as a whole."""

    line: int
    column: int
    what: str
