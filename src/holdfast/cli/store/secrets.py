"""``doctor``'s check of secrets: who asks for which by name, as lines that the operator may put into the table."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final

import cbor2
import msgspec

from holdfast.cli.checks import Check
from holdfast.client.engine import Holdfast
from holdfast.client.filters import run_rows
from holdfast.client.items import all_items
from holdfast.errors import InvalidRequest, InvalidSettings
from holdfast.runs.program_names import DEFINITION
from holdfast.store.protocol import Code, DefinitionRow
from holdfast.transports.connectors import called
from holdfast.transports.secret_keeper import LOGIN_SECRET, TABLE
from holdfast.transports.secret_table import SecretLine, SecretTable, line_for, read_table
from holdfast.transports.secrets import SecretUse, one_spelling
from holdfast.webhooks.named_secrets import HookUse, name_of, named_items

SHOWN: Final = 20
PAGE: Final = 500
MOST_TENANTS: Final = 1_000_000

Asked = tuple[str, SecretUse]
"""The name of a secret, and for what it is asked."""


async def examine_secrets(app: Holdfast, file: str | None) -> Check:
    """List the names that are asked for and have no line. None of them is a fault of the installation."""
    reserved = {row.id async for row in all_items(app, LOGIN_SECRET)}
    try:
        table = None if file is None else read_table(file, lambda name: one_spelling(name) in reserved)
    except InvalidSettings as error:
        return Check("secrets", good=False, detail=str(error), facts={"file": file})
    tenants = await app.store.owners(MOST_TENANTS)
    asked = {each async for each in _asked(app, tenants)}
    refused = {each for each in asked if table is None or not table.allows(*each)}
    there = () if table is None else table.lines
    lines = _lines({each for each in refused if one_spelling(each[0]) not in reserved}, there)
    detail, warning = _detail(len(asked), len(refused), len({*tenants, *(use.tenant for _, use in asked)}), table)
    notes = sorted({*_login_notes(refused, reserved), *_conflicts((*there, *lines))})
    shown = [*map(str, lines), *(f"# {note}" for note in notes)]
    for each in shown[:SHOWN]:
        detail += f"\n{each}"
    if len(shown) > SHOWN:
        detail += f"\nand {len(shown) - SHOWN} more: --json lists all"
    facts = {"asked": len(asked), "lines": [*map(str, lines)], "notes": notes, "tenants": len(tenants)}
    return Check("secrets", good=True, detail=detail, facts=facts, warning=warning or bool(notes))


def _detail(asked: int, refused: int, tenants: int, table: SecretTable | None) -> tuple[str, bool]:
    """The first line, and whether something does not resolve."""
    if not asked:
        return "no secret is asked for by name", False
    uses = f"{asked} uses of secrets by name"
    if table is None and tenants < 2:
        return f"{uses}; they need these lines in the file of {TABLE} before there is a second tenant", False
    if not refused:
        return f"{uses}, all with a line in {table.source if table is not None else TABLE}", False
    return f"{uses}, {refused} refused: read each line, and put those that are right into the file of {TABLE}", True


def _lines(asked: set[Asked], there: Sequence[SecretLine]) -> list[SecretLine]:
    """A line for each tenant, name and use, with all its hosts: those that it has in the table come first."""
    hosts_there = {(line.tenant, line.name, line.use): line.hosts for line in there}
    found: dict[tuple[str, str, str], SecretLine] = {}
    for name, use in sorted(asked, key=lambda each: (each[1].tenant, each[0], each[1].use, each[1].url)):
        line = line_for(name, use)
        key = line.tenant, line.name, line.use
        hosts = found[key].hosts if key in found else hosts_there.get(key, ())
        found[key] = msgspec.structs.replace(line, hosts=tuple(dict.fromkeys(hosts + line.hosts)))
    return list(found.values())


def _login_notes(refused: set[Asked], reserved: set[str]) -> Iterator[str]:
    for name, use in refused:
        if one_spelling(name) in reserved:
            yield f"tenant {use.tenant} asks for {name}, for a {use.use}: it logs people in, and is no tenant's"


def _conflicts(lines: Sequence[SecretLine]) -> Iterator[str]:
    uses: dict[str, SecretLine] = {}
    for line in lines:
        first = uses.setdefault(one_spelling(line.name), line)
        if first.use != line.use:
            yield (
                f"{line.name} is for a {first.use} of tenant {first.tenant} and for a {line.use} of tenant "
                f"{line.tenant}: a secret has one use, so one of them needs another"
            )


# -- what is asked for -------------------------------------------------------------------------------------------------


async def _asked(app: Holdfast, tenants: list[str]) -> AsyncIterator[Asked]:
    uses: tuple[HookUse, ...] = ("webhook", "subscription")
    for use in uses:
        async for row in named_items(app.store, use):
            yield name_of(row), SecretUse(row.tenant, use)
    for tenant in tenants:
        async for code in _definitions(app, tenant):
            for each in _of_connectors(tenant, code):
                yield each


async def _definitions(app: Holdfast, tenant: str) -> AsyncIterator[Code]:
    """The definitions that a tenant has published, and those of its runs that have not ended."""
    digests: set[bytes] = set()
    after: DefinitionRow | None = None
    while page := await app.store.definitions(tenant, PAGE, after):
        digests |= {row.digest for row in page}
        after = page[-1]
    for status in ("queued", "running", "waiting", "paused", "cancelling"):
        async for run in run_rows(app.store, tenant=tenant, kind=DEFINITION, status=status):
            if run.code_digest is not None:
                digests.add(run.code_digest)
    for digest in sorted(digests):
        for code in (await app.store.code(tenant, [digest])).values():
            yield code


def _of_connectors(tenant: str, code: Code) -> Iterator[Asked]:
    connectors = cbor2.loads(code.data).get("connectors", {})
    for name, connector in connectors.items():
        for operation in connector.get("operations", {}):
            try:
                call = called(f"{name}.{operation}", connectors)
                for secret in call.secrets:
                    use = SecretUse(tenant, "connector", call.connector.base)
                    line_for(secret, use)
                    yield secret, use
            except InvalidRequest:
                continue  # no call of it is ever made
