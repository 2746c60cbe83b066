"""SQL lives in ``.sql`` files: statements with a name and a comment each, and numbered, forward-only migrations."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


class Migration(NamedTuple):
    number: int
    name: str
    sql: str


def load_statements(package: str, file: str) -> dict[str, str]:
    """The statements of a file, by the name in the ``-- name:`` line that opens each."""
    text = (_folder(package) / file).read_text(encoding="utf-8")
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
    return [
        Migration(number, file.stem.partition("_")[2], file.read_text(encoding="utf-8"))
        for number, file in enumerate(_migration_files(package), 1)
    ]


@cache
def newest_migration(package: str) -> int:
    """The number of a package's newest migration. None is read for it."""
    return len(_migration_files(package))


def _migration_files(package: str) -> list[Path]:
    files = (_folder(package) / "migrations").glob("*.sql")
    found = sorted((int(file.name.partition("_")[0]), file) for file in files)
    if [number for number, _ in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"the migrations of {package} are not numbered 1, 2, 3, …")
    return [file for _, file in found]


def _folder(package: str) -> Path:
    """Where a package's files are. ``importlib.resources`` would load the libraries of archives for it."""
    return Path(import_module(package).__path__[0])
