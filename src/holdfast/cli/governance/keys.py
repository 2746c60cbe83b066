"""``keys``: the keys that sign the audit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from holdfast.cli import options, output, session
from holdfast.client.engine import Holdfast
from holdfast.client.views.audit import AuditKey, key_record
from holdfast.client.views.times import clock
from holdfast.errors import InvalidRequest


@click.group()
def keys() -> None:
    """List, export or rotate the keys that sign the audit."""


@keys.command("list")
@options.store
def list_keys(store: str | None, as_json: bool) -> None:
    """List the keys; the last one signs."""

    async def work(app: Holdfast) -> Sequence[AuditKey]:
        return await app.audit.keys()

    listed = session.on_store(session.url_of(store), work)
    records = [key_record(key, signs=key is listed[-1]) for key in listed]
    if as_json:
        for record in records:
            output.emit(record)
    elif not records:
        output.note("there is no key yet: a worker makes the first.")
    else:
        rows = [
            [str(r["number"]), r["id"], clock(key.created_at), _state(r)]
            for r, key in zip(records, listed, strict=True)
        ]
        output.table(("number", "id", "created", "note"), rows)


def _state(record: dict[str, Any]) -> str:
    words = [
        "signs now" if record["signs"] else "retired" if record["retired"] else "",
        "encrypted" if record["encrypted"] else "not encrypted",
    ]
    return ", ".join(word for word in words if word)


@keys.command()
@click.option("-o", "--output", "file", metavar="FILE", help="Where to write them; stdout by default.")
@options.store
def export(file: str | None, store: str | None, as_json: bool) -> None:
    """Write the public keys as PEM, oldest first, for those who check evidence. Nothing in it is secret."""

    async def work(app: Holdfast) -> tuple[bytes, Sequence[AuditKey]]:
        return await app.audit.public_keys(), await app.audit.keys()

    pem, found = session.on_store(session.url_of(store), work)
    if not found:
        raise InvalidRequest("there is no key yet: a worker makes the first.")
    if file is not None:
        try:
            Path(file).write_bytes(pem)
        except OSError as error:
            raise click.UsageError(f"{file} cannot be written: {error.strerror or error}") from error
    if as_json:
        output.emit({"file": file, "keys": [key.id for key in found], "pem": pem.decode()})
    elif file is None:
        click.echo(pem.decode(), nl=False)
    else:
        output.say(f"{file}: {len(found)} public keys")


@keys.command()
@click.option("--as", "who", required=True, metavar="NAME", help="Who does it: kept in the audit.")
@click.option("--reason", default="", help="Why: kept in the audit.")
@options.tenant
@options.store
def rotate(who: str, reason: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Make a new key that signs from now on, endorsed by the present one; noted in the tenant's audit.

    The present key is retired: what it signs from now on is not trusted.
    """

    async def work(app: Holdfast) -> AuditKey:
        return await app.audit.rotate_key(by=who, reason=reason, tenant=tenant)

    key = session.on_store(session.url_of(store), work)
    if as_json:
        output.emit(key_record(key, signs=True))
    else:
        output.say(f"key {key.number} ({key.id}) signs from now on: `holdfast keys export` writes its public half")
