"""The identity of a store names the channel of its wake-ups: one database has one, however it is reached."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from holdfast.errors import StoreUnavailable
from holdfast.store.protocol import Store
from holdfast.store.urls import store_at
from holdfast.testing.postgres import PostgresServer


async def _identity(store: Store) -> str:
    await store.open()
    try:
        return await store.identity()
    finally:
        await store.close()


def test_a_file_is_the_same_by_every_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative, absolute, or through a link; another file, even a copy, is another store."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    one = asyncio.run(_identity(store_at("sqlite:///shop.db")))
    for url in (f"sqlite:///{tmp_path}/shop.db", "sqlite:///link/shop.db"):
        assert asyncio.run(_identity(store_at(url))) == one
    os.link(tmp_path / "shop.db", tmp_path / "kept.db")
    (tmp_path / "copy.db").write_bytes((tmp_path / "shop.db").read_bytes())
    assert asyncio.run(_identity(store_at("sqlite:///copy.db"))) != one
    assert asyncio.run(_identity(store_at("sqlite:///other.db"))) != one


def test_a_database_is_the_same_by_every_url(postgres: PostgresServer) -> None:
    """Whatever the options of the URL; another schema, and another database, is another store."""
    url = postgres.schema_url()
    one = asyncio.run(_identity(store_at(url)))
    assert asyncio.run(_identity(store_at(f"{url}&application_name=another"))) == one
    assert asyncio.run(_identity(store_at(postgres.schema_url()))) != one
    assert asyncio.run(_identity(store_at(postgres.url()))) != one
    assert urlsplit(url).path.strip("/") not in one


def test_each_memory_store_is_its_own() -> None:
    """Its twins share it."""
    assert asyncio.run(_identity(store_at("memory://"))) != asyncio.run(_identity(store_at("memory://")))


def test_a_store_that_is_not_open_says_so(tmp_path: Path, postgres: PostgresServer) -> None:
    """The exchange tries again then."""
    for url in (f"sqlite:///{tmp_path}/shop.db", postgres.schema_url()):
        with pytest.raises(StoreUnavailable, match="not open"):
            asyncio.run(store_at(url).identity())
