"""``backup``: the store as one file, while workers run."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli import options, output, session
from holdfast.cli.store.schemas import schema_numbers, sqlite_path


@click.command()
@click.argument("file")
@options.store
def backup(file: str, store: str | None, as_json: bool) -> None:
    """Write a SQLite store into FILE, complete and of one moment, while workers run."""
    url = session.url_of(store)
    if not url.startswith("sqlite:"):
        raise click.UsageError("this backs up SQLite stores. For PostgreSQL use pg_dump or pg_basebackup.")
    session.run(schema_numbers(url))
    from holdfast.store.sqlite.backup import backup as write

    runs = write(str(sqlite_path(url)), Path(file))
    size = Path(file).stat().st_size
    if as_json:
        output.emit({"action": "backup", "file": file, "store": url, "runs": runs, "size_bytes": size})
    else:
        output.say(f"{file}: {runs} {'run' if runs == 1 else 'runs'} of {url}, {size / 1e6:.1f} MB")
