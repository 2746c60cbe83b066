"""``keys``: the keys that sign the audit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from holdfast.cli import options, output, session
from holdfast.client.engine import Holdfast
from holdfast.errors import InvalidRequest
from holdfast.gate.keys import to_pem
from holdfast.store.protocol import SigningKey
from holdfast.worker.signing import Keychain


@click.group()
def keys() -> None:
    """List, export or rotate the keys that sign the audit."""


def _read(store: str | None) -> list[SigningKey]:
    async def work(app: Holdfast) -> list[SigningKey]:
        return await app.store.signing_keys()

    return session.on_store(session.url_of(store), work)


def _record(key: SigningKey, *, signs: bool) -> dict[str, Any]:
    locked = key.private is not None and b"ENCRYPTED" in key.private.partition(b"\n")[0]
    return {
        "number": key.number,
        "id": key.id,
        "created_at": output.iso(key.created_at),
        "signs": signs,
        "encrypted": locked,
        "public": to_pem(key.public).decode(),
    }


@keys.command("list")
@options.store
def list_keys(store: str | None, as_json: bool) -> None:
    """List the keys; the last one signs."""
    found = _read(store)
    told = [_record(key, signs=key is found[-1]) for key in found]
    if as_json:
        for record in told:
            output.emit(record)
    elif not told:
        output.note("there is no key yet: a worker makes the first.")
    else:
        rows = [
            [str(r["number"]), r["id"], output.clock(key.created_at), _state(r)]
            for r, key in zip(told, found, strict=True)
        ]
        output.table(("number", "id", "created", "note"), rows)


def _state(record: dict[str, Any]) -> str:
    words = ["signs now" if record["signs"] else "", "encrypted" if record["encrypted"] else "not encrypted"]
    return ", ".join(word for word in words if word)


@keys.command()
@click.option("-o", "--output", "file", metavar="FILE", help="Where to write them; stdout by default.")
@options.store
def export(file: str | None, store: str | None, as_json: bool) -> None:
    """Write the public keys as PEM, oldest first, for those who check evidence. Nothing in it is secret."""
    found = _read(store)
    if not found:
        raise InvalidRequest("there is no key yet: a worker makes the first.")
    pem = b"".join(f"key {key.number}: {key.id}\n".encode() + to_pem(key.public) for key in found)
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
    """Make a new key that signs from now on, endorsed by the present one; noted in the tenant's audit."""

    async def work(app: Holdfast) -> SigningKey:
        key = await Keychain(app.store, app.clock).rotate()
        details = {"action": "rotate", "number": str(key.number), "key": key.id}
        await session.patiently(app, app.note(tenant, "key", who, None, reason, details))
        return key

    key = session.on_store(session.url_of(store), work)
    if as_json:
        output.emit(_record(key, signs=True))
    else:
        output.say(f"key {key.number} ({key.id}) signs from now on: `holdfast keys export` writes its public half")
