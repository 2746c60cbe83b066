"""``audit`` lists a tenant's audit; ``export`` tells the story of its templates; ``verify`` checks its chain."""

from __future__ import annotations

import datetime
import json
from collections import deque
from collections.abc import Awaitable
from pathlib import Path
from typing import Final

import click

from holdfast.audit.check.claims import Verdict
from holdfast.cli import options, output, session
from holdfast.cli.governance import verdicts
from holdfast.cli.groups import ListingGroup
from holdfast.cli.pages import note_rest, read_pages
from holdfast.client.engine import Holdfast
from holdfast.client.views.audit import AuditInfo, audit_record
from holdfast.client.views.cursors import Page
from holdfast.client.views.times import clock

START: Final = "start"
"""As a cursor: the beginning of the chain."""

KINDS: Final = ("decision", "approval", "receipt", "ended", "operator", "story")


@click.group(cls=ListingGroup)
def audit() -> None:
    """List a tenant's audit (`audit`), check its chain (`verify`), write what its templates did (`export`).

    `audit` is short for `audit list`, whose help has its options.
    """


@audit.command("list")
@click.option("--run", metavar="RUN", help="Only entries of this run.")
@click.option("--kind", type=click.Choice(KINDS), help="Only entries of this kind.")
@click.option(
    "--since", type=options.Moment(), metavar="TIME", help="Only from then on: a time, or 2h for 2 hours ago."
)
@click.option("--until", type=options.Moment(), metavar="TIME", help="Only before then.")
@click.option(
    "--limit", type=click.IntRange(min=0), default=100, show_default=True, help="The last so many; 0 for all."
)
@click.option(
    "--after",
    metavar="CURSOR",
    help="Instead of the last entries, the first that follow: the cursor that an earlier list named, or `start`.",
)
@options.tenant
@options.store
def list_entries(
    run: str | None,
    kind: str | None,
    since: datetime.datetime | None,
    until: datetime.datetime | None,
    limit: int,
    after: str | None,
    tenant: str,
    store: str | None,
    as_json: bool,
) -> None:
    """List the audit in the order of its chain; entries that are not sealed yet come last and are marked."""

    async def work(app: Holdfast) -> Page[AuditInfo]:
        def read(size: int, place: str | None) -> Awaitable[Page[AuditInfo]]:
            return app.audit.page(tenant=tenant, run=run, kind=kind, since=since, until=until, limit=size, after=place)

        if after is not None:
            return await read_pages(read, limit, None if after == START else after)
        last: deque[AuditInfo] = deque(maxlen=limit or None)
        async for entry in app.audit.list(tenant=tenant, run=run, kind=kind, since=since, until=until):
            last.append(entry)
        return Page(list(last), None)

    page = session.on_store(session.url_of(store), work)
    if as_json:
        for entry in page.items:
            output.emit(audit_record(entry))
    elif not page.items:
        output.note("no entries match.")
    else:
        output.table(("entry", "time", "kind", "run", "what"), [_row(entry) for entry in page.items])
        note_rest(page, limit, "the first")


def _row(entry: AuditInfo) -> list[output.Part]:
    place = str(entry.position) if entry.sealed else output.TableCell("unsealed", "yellow")
    return [place, clock(entry.at), entry.kind, entry.run or "", output.one_line(entry.text)]


@audit.command()
@click.option("-o", "--output", "file", metavar="FILE", help="Where to write it; stdout by default.")
@options.tenant
@options.store
def export(file: str | None, tenant: str, store: str | None, as_json: bool) -> None:
    """Write the whole story of a tenant's templates, as JSON lines in one order: what people and the engine did."""
    from holdfast.client.governance.export import exported_record

    async def work(app: Holdfast) -> int:
        count = 0
        with click.open_file(file or "-", "w", encoding="utf-8") as lines:
            async for action in app.audit.export(tenant=tenant):
                lines.write(json.dumps(exported_record(action), ensure_ascii=False) + "\n")
                count += 1
        return count

    try:
        count = session.on_store(session.url_of(store), work)
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error}") from error
    if file is not None and as_json:
        output.emit({"action": "export", "file": file, "actions": count})
    elif file is not None:
        output.say(f"{count} actions are in {file}")


@audit.command()
@click.option("-o", "--output", "file", metavar="FILE", help="Where to write it; stdout by default.")
@click.option("--all", "everything", is_flag=True, help="Of every tenant, a line for each.")
@options.tenant
@options.store
def head(file: str | None, everything: bool, tenant: str, store: str | None, as_json: bool) -> None:
    """Write the head of a tenant's chain, to be kept elsewhere: `audit verify --head FILE` finds a chain cut short."""

    async def work(app: Holdfast) -> bytes:
        return await app.audit.head(tenant=tenant, every_tenant=everything)

    data = session.on_store(session.url_of(store), work)
    if file is None:
        click.echo(data.decode(), nl=False)
        return
    try:
        Path(file).write_bytes(data)
    except OSError as error:
        raise click.UsageError(f"{file} cannot be written: {error.strerror or error}") from error
    count = len(data.splitlines())
    if as_json:
        output.emit({"file": file, "heads": count})
    else:
        output.say(f"{file}: {count} {'head' if count == 1 else 'heads'}")


@audit.command()
@verdicts.trusted_keys
@click.option("--head", "head_file", metavar="FILE", help="A head that was kept elsewhere: `audit head` writes it.")
@options.tenant
@options.store
def verify(key_files: tuple[str, ...], head_file: str | None, tenant: str, store: str | None, as_json: bool) -> int:
    """Check every entry, block and signature of a tenant's audit, and the rows it covers; exit 1 if one is broken."""
    trusted = verdicts.public_keys(key_files)
    kept = None if head_file is None else verdicts.content(head_file)

    async def work(app: Holdfast) -> Verdict:
        with output.progress("entries checked", quiet=as_json) as advance:
            return await app.audit.verify(tenant=tenant, trusted=trusted, head=kept, advance=advance)

    verdict = session.on_store(session.url_of(store), work)
    return verdicts.write(verdict, f"the audit of tenant {tenant}", {"tenant": tenant}, as_json, keys=bool(key_files))
