"""How the primary is found among hosts, and a pooler that gives no sessions is refused."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from holdfast.errors import StoreReadOnly, StoreUnavailable, UnsupportedStore
from holdfast.store import protocol as p
from holdfast.store.postgres import cluster as finding
from holdfast.store.postgres.cluster import Cluster
from holdfast.store.postgres.connection import shown
from holdfast.store.postgres.hosts import Host, hosts_of
from holdfast.store.postgres.lineage import Lineage
from holdfast.store.postgres.store import PostgresStore
from holdfast.testing.postgres import PostgresServer, server
from holdfast.testing.stores.samples import key, start
from tests.unit.store.pooler import Mode, pooled


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with server(own=True, fast=True) as running:
        yield running


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: the path of a socket has little room."""
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


# -- hosts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://db/shop", [Host()]),
        ("postgresql:///shop", [Host()]),
        ("postgresql:///shop?host=/run/a", [Host()]),
        ("postgresql://u:p@a,b/shop", [Host("a"), Host("b")]),
        ("postgresql://u:p%40ss@a:1,b:2/shop?target_session_attrs=any", [Host("a", 1), Host("b", 2)]),
        ("postgresql://a,b:2/shop?port=5", [Host("a", 5), Host("b", 2)]),
        ("postgresql://[::1]:7,[::2]/shop", [Host("::1", 7), Host("::2")]),
        ("postgresql:///shop?host=/run/a,/run/b", [Host("/run/a"), Host("/run/b")]),
        ("postgresql:///shop?host=a,b&port=1,2", [Host("a", 1), Host("b", 2)]),
    ],
)
def test_the_hosts_of_a_url_are_found(url: str, hosts: list[Host]) -> None:
    """One host is left to the driver, which also reads the environment."""
    assert hosts_of(url) == hosts


def test_a_url_is_shown_with_all_its_hosts_and_without_its_password() -> None:
    """For one host and for several."""
    assert shown("postgresql://ann:secret@a:1,b:2/shop?password=secret") == "postgresql://a:1,b:2/shop"


@pytest.mark.parametrize(
    ("one", "other", "replaces"),
    [
        (Lineage(1, 2), Lineage(1, 1), True),
        (Lineage(1, 1), Lineage(1, 1), False),
        (Lineage(1, 1), Lineage(1, 2), False),
        (Lineage(2, 9), Lineage(1, 1), False),
        (Lineage(1, 2), None, False),
    ],
)
def test_a_later_timeline_of_the_same_cluster_replaces_an_earlier_one(
    one: Lineage, other: Lineage | None, replaces: bool
) -> None:
    """A new cluster, for example after an upgrade, is not compared with the old one."""
    assert one.replaces(other) is replaces


def _beside(postgres: PostgresServer, url: str, *hosts: str) -> str:
    """The same database, with other hosts before it in the URL."""
    parts = urlsplit(url)
    (real,) = parse_qs(parts.query)["host"]
    return f"postgresql://postgres@{parts.path}?host={','.join([*hosts, real])}"


def test_a_host_that_does_not_answer_costs_a_second_once(postgres: PostgresServer, folder: Path) -> None:
    """It is tried last from then on. A host that refuses costs no time."""
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(f"{folder}/.s.PGSQL.5432")
        silent.listen()

        async def judge() -> None:
            cluster = Cluster(_beside(postgres, postgres.url(), str(folder), f"{folder}/nobody"))
            loop = asyncio.get_running_loop()
            begun = loop.time()
            await (await cluster.connect()).close()
            first = loop.time() - begun
            await (await cluster.connect()).close()
            assert finding.HOST_SECONDS <= first < finding.HOST_SECONDS * 3
            assert loop.time() - begun - first < finding.HOST_SECONDS

        asyncio.run(judge())


def test_where_no_host_answers_each_is_named_and_given_more_time(folder: Path) -> None:
    """A network may be slower than expected."""
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(f"{folder}/.s.PGSQL.5432")
        silent.listen()

        async def judge() -> None:
            cluster = Cluster(f"postgresql:///shop?host={folder},{folder}")
            with pytest.raises(StoreUnavailable, match=f"{folder}: does not answer in time; {folder}: does not"):
                await cluster.connect()
            assert cluster._seconds == finding.HOST_SECONDS * 2

        asyncio.run(judge())


def test_a_primary_that_refuses_writes_is_left_for_another(postgres: PostgresServer) -> None:
    """With one host a person must act. With several, the session is dropped and the primary is searched for again."""
    url = postgres.url()
    database = urlsplit(url).path[1:]

    async def judge() -> None:
        several, one = PostgresStore(_beside(postgres, url, "/nobody")), PostgresStore(url)
        await several.open()
        await one.open()
        try:
            for store in (several, one):
                await store.commit([start("a")])
                async with store._connection() as session:
                    await session.execute("SET default_transaction_read_only = on")
            with pytest.raises(StoreUnavailable, match="cannot be written to"):
                await several.commit([start("b")])
            with pytest.raises(StoreReadOnly):
                await one.commit([start("b")])
            for store in (several, one):
                await store.commit([start("b")])
        finally:
            await several.close()
            await one.close()

    asyncio.run(judge())
    assert postgres.execute("SELECT id FROM runs ORDER BY id", url) == [("a",), ("b",)], database


# -- poolers -------------------------------------------------------------------------------------------------------


async def _through(postgres: PostgresServer, folder: Path, mode: Mode) -> list[p.Run]:
    parts = urlsplit(postgres.url())
    (host,) = parse_qs(parts.query)["host"]
    async with pooled(host, parts.path[1:], folder, mode) as url:
        store = PostgresStore(url)
        await store.open()
        try:
            await store.commit([start("a")])
            return await store.get([key("a")])
        finally:
            await store.close()


def test_a_pooler_by_transaction_is_refused_with_what_to_set(postgres: PostgresServer, folder: Path) -> None:
    """Locks and notifications would belong to other clients. Nothing is written before it is noticed."""
    with pytest.raises(UnsupportedStore, match="pool_mode = session"):
        asyncio.run(_through(postgres, folder, "transaction"))


def test_a_pooler_by_session_is_as_good_as_the_server(postgres: PostgresServer, folder: Path) -> None:
    """The login asks for no settings: poolers refuse settings that they do not know."""
    assert len(asyncio.run(_through(postgres, folder, "session"))) == 1
