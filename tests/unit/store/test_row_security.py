"""Whoever may only read the tables of a PostgreSQL store sees the tenant that the transaction names, and no other."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.store.postgres.connection import driver
from holdfast.testing.postgres import PostgresServer
from tests.unit.client.operations import FREE, WORKFLOWS, furnish

PAGE = (Path(__file__).parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")
TABLES = """
SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant'
WHERE c.relkind = 'r' AND c.relnamespace = to_regnamespace(quote_ident(current_schema())) ORDER BY 1
"""


def _grants(schema: str) -> str:
    """What the page says, for the schema of this test."""
    (block,) = re.findall(r"```sql\n(CREATE ROLE.*?)```", PAGE, re.DOTALL)
    assert "SCHEMA public" in block
    return block.replace("SCHEMA public", f'SCHEMA "{schema}"')


async def _tables(connection: Any) -> list[str]:
    return [row[0] for row in await connection.fetch(TABLES)]


async def _fill(url: str) -> None:
    async with Holdfast(url, workflows=WORKFLOWS, policy=FREE) as app:
        for tenant in ("acme", "bolt"):
            await furnish(app, tenant)


def test_a_reader_sees_one_tenant_and_an_engine_all(postgres: PostgresServer) -> None:
    """In every table that has a tenant; without the setting none, and it ends with the transaction."""

    async def main() -> None:
        url = postgres.schema_url()
        await _fill(url)
        connection = await driver().connect(url)
        try:
            schema = await connection.fetchval("SELECT current_schema()")
            await connection.execute(_grants(schema))
            tables = await _tables(connection)
            assert len(tables) > 15
            everything = {name: await connection.fetchval(f"SELECT count(*) FROM {name}") for name in tables}
            for name in ("runs", "segments", "receipts", "tasks", "audit", "blobs", "definitions", "items", "code"):
                assert everything[name] > 0, name
            await connection.execute("SET ROLE holdfast_reader")
            for name in tables:
                assert await connection.fetchval(f"SELECT count(*) FROM {name}") == 0, name
                async with connection.transaction():
                    await connection.execute("SELECT set_config('holdfast.tenant', 'acme', true)")
                    seen = {row[0] for row in await connection.fetch(f"SELECT DISTINCT tenant FROM {name}")}
                    assert seen <= {"acme"}, name
                    if everything[name]:
                        assert seen or name in ("work", "progress", "chain_ends", "declined", "deliveries"), name
                assert await connection.fetchval(f"SELECT count(*) FROM {name}") == 0, name
            with pytest.raises(driver().InsufficientPrivilegeError):
                await connection.fetch("SELECT * FROM signing_keys")
            with pytest.raises(driver().InsufficientPrivilegeError):
                await connection.execute("DELETE FROM runs")
        finally:
            await connection.execute("RESET ROLE")
            await connection.execute("DROP OWNED BY holdfast_reader; DROP ROLE holdfast_reader")
            await connection.close()

    asyncio.run(main())


def test_an_engine_that_is_not_the_owner_sees_and_writes_all(postgres: PostgresServer) -> None:
    """Where somebody else made the tables, the engine's role has all rights on them, and no policy in its way."""

    async def main() -> None:
        url = postgres.schema_url()
        await _fill(url)
        connection = await driver().connect(url)
        try:
            schema = await connection.fetchval("SELECT current_schema()")
            await connection.execute(
                f"""CREATE ROLE other_engine NOLOGIN; GRANT USAGE ON SCHEMA "{schema}" TO other_engine;
                GRANT ALL ON ALL TABLES IN SCHEMA "{schema}" TO other_engine"""
            )
            await connection.execute("SET ROLE other_engine")
            tenants = await connection.fetch("SELECT DISTINCT tenant FROM runs ORDER BY 1")
            assert [row[0] for row in tenants] == ["acme", "bolt"]
            assert await connection.execute("UPDATE runs SET priority = 1") != "UPDATE 0"
            assert await connection.execute("DELETE FROM inbox") is not None
        finally:
            await connection.execute("RESET ROLE")
            await connection.execute("DROP OWNED BY other_engine; DROP ROLE other_engine")
            await connection.close()

    asyncio.run(main())
