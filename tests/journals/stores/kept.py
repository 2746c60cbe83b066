"""Readers of the kept databases."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent

POLICY: Final = FOLDER / "policy.yaml"
"""The policy that their acts are judged by."""


def script(path: Path) -> str:
    """The SQL, with the long sequences of one byte that ``make`` had shortened."""
    return re.sub(r"<([0-9a-fA-F]{2})\*(\d+)>", lambda m: m[1] * int(m[2]), path.read_text(encoding="utf-8"))


def load_sqlite(path: Path, target: Path) -> None:
    """Make the file that a script describes."""
    with closing(sqlite3.connect(target)) as connection:
        connection.executescript(script(path))
