"""SQL lives in ``.sql`` files: statements with a name and a comment each, and numbered, forward-only migrations."""

from __future__ import annotations

import re
from importlib import resources
from typing import NamedTuple

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


class Migration(NamedTuple):
    number: int
    name: str
    sql: str


def load_statements(package: str, file: str) -> dict[str, str]:
    """The statements of a file, by the name in the ``-- name:`` line that opens each."""
    text = (resources.files(package) / file).read_text(encoding="utf-8")
    parts = _NAME.split(text)
    statements: dict[str, str] = {}
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        if name in statements:
            raise ValueError(f"{package}/{file} has two statements called {name}")
        lines = [line for line in body.splitlines() if not line.lstrip().startswith("--")]
        statements[name] = "\n".join(lines).strip().rstrip(";")
    return statements


def load_migrations(package: str) -> list[Migration]:
    """The migrations of a package in order: 1, 2, 3, …"""
    found = []
    for entry in (resources.files(package) / "migrations").iterdir():
        if entry.name.endswith(".sql"):
            number, _, name = entry.name.removesuffix(".sql").partition("_")
            found.append(Migration(int(number), name, entry.read_text(encoding="utf-8")))
    found.sort()
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"the migrations of {package} are not numbered 1, 2, 3, …")
    return found
