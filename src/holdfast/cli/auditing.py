"""``audit`` lists a tenant's audit; ``audit verify`` checks its chain from the first entry to the last."""

from __future__ import annotations

import datetime
import json
from collections import deque
from typing import Any, Final, assert_never

import click

from holdfast.cli import options, output, session, verdicts
from holdfast.cli.groups import ListingGroup
from holdfast.client.engine import Holdfast
from holdfast.gate import keys, records
from holdfast.gate.auditing import AuditCheck
from holdfast.store.protocol import AuditQuery, Entry, Store
from holdfast.worker.gathering import entries_of

KINDS: Final = ("decision", "approval", "receipt", "ended", "operator")

_PAGE: Final = 50
_LARGEST_BLOCK: Final = 100_000
"""No block is as large; a damaged one may say that it is."""


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
    query = AuditQuery(tenant, run, kind, _microseconds(since), _microseconds(until))

    async def work(app: Holdfast) -> deque[Entry]:
        return deque([entry async for entry in entries_of(app.store, query)], limit or None)

    found = session.on_store(session.url_of(store), work)
    if as_json:
        for entry in found:
            output.emit(entry_record(entry))
    elif not found:
        output.note("no entries match.")
    else:
        output.table(("entry", "time", "kind", "run", "what"), [_row(entry) for entry in found])


def _microseconds(moment: datetime.datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1e6)


def entry_record(entry: Entry) -> dict[str, Any]:
    """An entry as ``--json`` writes it; ``record`` is its body."""
    return {
        "position": entry.position,
        "sealed": entry.position is not None,
        "tenant": entry.tenant,
        "run": entry.run,
        "kind": entry.kind,
        "at": output.iso(entry.at),
        "record": json.loads(entry.body),
    }


def _row(entry: Entry) -> list[output.Part]:
    place = output.Cell("unsealed", "yellow") if entry.position is None else str(entry.position)
    return [place, output.clock(entry.at), entry.kind, entry.run or "", output.one_line(_sentence(entry))]


def _sentence(entry: Entry) -> str:
    match records.decode(entry.body):
        case records.Decided() as decided:
            return f"{decided.effect} {decided.action} on {decided.target}: {decided.reason} ({decided.stage})"
        case records.Asked() as asked:
            who = f" by {asked.who}" if asked.who else ""
            return f"{asked.subject} {asked.task} {asked.verdict}{who}" + (f": {asked.reason}" if asked.reason else "")
        case records.Receipted() as receipted:
            error = f": {receipted.error}" if receipted.error else ""
            return f"{receipted.action} on {receipted.target} {receipted.state}{error}"
        case records.Ended() as ended:
            return f"{ended.workflow} {ended.standing} after {ended.version} events"
        case records.Operated() as operated:
            return f"{operated.act} by {operated.who}" + (f": {operated.reason}" if operated.reason else "")
        case _ as never:
            assert_never(never)


@audit.command()
@verdicts.trusted_keys
@options.tenant
@options.store
def verify(key_files: tuple[str, ...], tenant: str, store: str | None, as_json: bool) -> int:
    """Check every entry, block and signature of a tenant's audit; exit 1 where something is broken."""
    given = verdicts.public_keys(key_files)

    async def work(app: Holdfast) -> AuditCheck:
        line = [keys.published(key) for key in await app.store.signing_keys()]
        with output.progress("entries checked", quiet=as_json) as advance:
            check = AuditCheck(tenant, line)
            await _follow(app.store, tenant, check, advance)
        return check

    verdict = session.on_store(session.url_of(store), work).verdict(given)
    return verdicts.write(verdict, f"the audit of tenant {tenant}", {"tenant": tenant}, as_json)


async def _follow(store: Store, tenant: str, check: AuditCheck, advance: Any) -> None:
    """Take the chain block by block, and then what is behind it."""
    query = AuditQuery(tenant)
    last: Entry | None = None
    number = 0
    looked_again = False
    while True:
        page = await store.blocks(tenant, number, _PAGE)
        for block in page:
            entries = await store.entries(query, max(1, min(block.count, _LARGEST_BLOCK)), last)
            if not check.step(block, [entry for entry in entries if entry.position is not None]):
                return
            advance(len(entries))
            last, number, looked_again = entries[-1], block.number + 1, False
        if page:
            continue
        tail = await store.entries(query, _LARGEST_BLOCK, last)
        if not looked_again and any(entry.position is not None for entry in tail):
            looked_again = True  # they may have been sealed since we looked for blocks
            continue
        for entry in tail:
            check.tail(entry)
        return
