"""``audit`` lists a tenant's audit; ``audit verify`` checks its chain, and its receipts against it."""

from __future__ import annotations

import datetime
from collections import deque
from pathlib import Path
from typing import Any, Final, assert_never

import click

from holdfast.audit import records
from holdfast.audit.check.claims import Verdict
from holdfast.cli import options, output, session
from holdfast.cli.governance import verdicts
from holdfast.cli.groups import ListingGroup
from holdfast.client.engine import Holdfast
from holdfast.client.views.times import clock, iso
from holdfast.store.protocol import AuditEntry

KINDS: Final = ("decision", "approval", "receipt", "ended", "operator")


@click.group(cls=ListingGroup)
def audit() -> None:
    """List a tenant's audit (`audit`), or check its chain (`audit verify`).

    `audit` is short for `audit list`, which says more about its options.
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
@options.tenant
@options.store
def list_entries(
    run: str | None,
    kind: str | None,
    since: datetime.datetime | None,
    until: datetime.datetime | None,
    limit: int,
    tenant: str,
    store: str | None,
    as_json: bool,
) -> None:
    """List the audit in the order of its chain; entries that are not sealed yet come last and are marked."""

    async def work(app: Holdfast) -> deque[AuditEntry]:
        entries = app.audit.list(tenant=tenant, run=run, kind=kind, since=since, until=until)
        return deque([entry async for entry in entries], limit or None)

    found = session.on_store(session.url_of(store), work)
    if as_json:
        for entry in found:
            output.emit(entry_record(entry))
    elif not found:
        output.note("no entries match.")
    else:
        output.table(("entry", "time", "kind", "run", "what"), [_row(entry) for entry in found])


def entry_record(entry: AuditEntry) -> dict[str, Any]:
    """An entry as ``--json`` writes it; ``record`` is its body, null where that was altered and cannot be read."""
    try:
        record = entry.record
    except records.UNREADABLE:
        record = None
    return {
        "position": entry.position,
        "sealed": entry.position is not None,
        "tenant": entry.tenant,
        "run": entry.run,
        "kind": entry.kind,
        "at": iso(entry.at),
        "record": record,
    }


def _row(entry: AuditEntry) -> list[output.Part]:
    place = output.Cell("unsealed", "yellow") if entry.position is None else str(entry.position)
    return [place, clock(entry.at), entry.kind, entry.run or "", output.one_line(_sentence(entry))]


def _sentence(entry: AuditEntry) -> str:
    try:
        record = records.decode(entry.body)
    except records.UNREADABLE:
        return "it was altered, and cannot be read: `holdfast audit verify` tells more"
    match record:
        case records.Decided() as decided:
            return f"{decided.effect} {decided.action} on {decided.target}: {decided.reason} ({decided.stage})"
        case records.Asked() as asked:
            to = f" to {asked.delegated_to}" if asked.verdict == "delegated" and asked.delegated_to else ""
            who = f" by {asked.who}" if asked.who else ""
            why = f": {asked.reason}" if asked.reason else ""
            return f"{asked.subject} {asked.task} {asked.verdict}{to}{who}{why}"
        case records.Receipted() as receipted:
            error = f": {receipted.error}" if receipted.error else ""
            return f"{receipted.action} on {receipted.target} {receipted.state}{error}"
        case records.Ended() as ended:
            return f"{ended.workflow} {ended.standing} after {ended.version} events"
        case records.Operated() as operated:
            why = f": {operated.reason}" if operated.reason else ""
            return f"{operated.act}{_which(operated)} by {operated.who}{why}"
        case _ as never:
            assert_never(never)


def _which(operated: records.Operated) -> str:
    """Which policy, by its source and the first digits of its hash."""
    if operated.act != "policy":
        return ""
    kind, mark, digest = operated.details.get("policy", "").partition(":")
    return f" {operated.details.get('source', '')} ({kind}{mark}{digest[:12]})"


@audit.command()
@click.option("-o", "--output", "file", metavar="FILE", help="Where to write it; stdout by default.")
@click.option("--all", "everything", is_flag=True, help="Of every tenant, a line for each.")
@options.tenant
@options.store
def head(file: str | None, everything: bool, tenant: str, store: str | None, as_json: bool) -> None:
    """Write the head of a tenant's chain, to be kept elsewhere: `audit verify --head FILE` finds what was cut off."""

    async def work(app: Holdfast) -> bytes:
        return await app.audit.head(tenant=None if everything else tenant)

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
    """Check every entry, block and signature of a tenant's audit, and what it tells of; exit 1 where one is broken."""
    trusted = verdicts.public_keys(key_files)
    kept = None if head_file is None else verdicts.content(head_file)

    async def work(app: Holdfast) -> Verdict:
        with output.progress("entries checked", quiet=as_json) as advance:
            return await app.audit.verify(tenant=tenant, trusted=trusted, head=kept, advance=advance)

    verdict = session.on_store(session.url_of(store), work)
    return verdicts.write(verdict, f"the audit of tenant {tenant}", {"tenant": tenant}, as_json, keys=bool(key_files))
