"""``compact``: give the free pages of a SQLite file back to the file system."""

from __future__ import annotations

import click

from holdfast.cli import options, output, session
from holdfast.cli.store.schemas import schema_numbers, sqlite_path


@click.command()
@options.store
def compact(store: str | None, as_json: bool) -> None:
    """Make a SQLite file as small as what it holds. Ctrl-C ends it early, and the file is whole.

    It runs beside workers. A file of an earlier version is written anew once, for which the workers must be stopped.
    """
    url = session.url_of(store)
    if not url.startswith("sqlite:"):
        raise click.UsageError("this compacts SQLite stores. PostgreSQL does so itself (autovacuum).")
    session.run(schema_numbers(url))
    from holdfast.store.sqlite.compaction import compact as run

    with output.progress("bytes", quiet=as_json) as advance:
        done = run(str(sqlite_path(url)), advance)
    if as_json:
        facts = {"before_bytes": done.before, "after_bytes": done.after, "rewritten": done.rewritten}
        output.emit({"action": "compact", "store": url, **facts})
    else:
        output.say(f"{url}: {done.before / 1e6:.1f} MB → {done.after / 1e6:.1f} MB")
