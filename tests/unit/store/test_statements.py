"""SQL in files: which migrations a package has, and when their texts are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.store.statements import load_migrations, newest_migration

PACKAGES = ("holdfast.store.sqlite", "holdfast.store.postgres")


def _package(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, *files: str) -> str:
    migrations = folder / name / "migrations"
    migrations.mkdir(parents=True)
    (folder / name / "__init__.py").touch()
    for file in files:
        (migrations / file).write_text("SELECT 1;", encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    return name


@pytest.mark.parametrize("package", PACKAGES)
def test_the_newest_migration_is_the_last_one(package: str) -> None:
    """Its number is the schema that a store must have."""
    migrations = load_migrations(package)
    assert newest_migration(package) == migrations[-1].number == len(migrations)
    assert all(migration.name and migration.sql for migration in migrations)


def test_the_newest_migration_is_found_without_reading_any(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every command asks for it: texts that cannot be read do not matter to it."""
    package = _package(monkeypatch, tmp_path, "unreadable_migrations", "0001_first.sql", "0002_second.sql")
    (tmp_path / package / "migrations" / "0002_second.sql").write_bytes(b"\xff")
    assert newest_migration(package) == 2
    with pytest.raises(UnicodeDecodeError):
        load_migrations(package)


@pytest.mark.parametrize(
    ("package", "files"),
    [
        ("gap_in_migrations", ("0001_first.sql", "0003_third.sql")),
        ("two_of_one_number", ("0001_first.sql", "0002_second.sql", "0002_other.sql")),
    ],
)
def test_migrations_that_are_not_numbered_in_order_are_refused(
    package: str, files: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A gap or two of one number is a mistake of whoever merged them."""
    name = _package(monkeypatch, tmp_path, package, *files)
    for read in (load_migrations, newest_migration):
        with pytest.raises(ValueError, match="are not numbered 1, 2, 3"):
            read(name)
