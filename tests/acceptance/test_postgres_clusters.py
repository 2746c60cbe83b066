"""Which server a process takes for the primary, from its first connection: real servers, promoted or swapped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.cli.main import main
from holdfast.errors import StoreLost, StoreUnavailable, UnsupportedStore
from holdfast.store.postgres.store import PostgresStore
from holdfast.testing.postgres import OwnServer, binaries
from holdfast.testing.replication import Replicated, Standby, joint_url, pair
from holdfast.testing.stores.samples import key, start
from tests.acceptance.test_postgres_failover import caught_up, runs_on

Pair = tuple[Replicated, Standby]


@pytest.fixture(scope="module")
def promoted() -> Iterator[tuple[Replicated, Standby, str]]:
    """A standby that was promoted beside its primary, which runs on, as one that comes back by itself; and the URL of
    a database that both have. The new one has a run more."""
    with pair() as (old, new):
        url = old.url()
        asyncio.run(_prepared(url, "before"))
        asyncio.run(caught_up(old, new))
        new.promote()
        asyncio.run(_prepared(joint_url(url, new), "since"))
        yield old, new, url


@pytest.fixture(scope="module")
def stranger(promoted: tuple[Replicated, Standby, str]) -> Iterator[OwnServer]:
    """A server of another cluster, with a database of the same name."""
    server = OwnServer(binaries(), fast=True)
    try:
        server.url(promoted[2].partition("?")[0].rpartition("/")[2])
        yield server
    finally:
        server.remove()


@pytest.fixture(autouse=True)
def newcomer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user of whom no process has seen these servers."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "holdfast"


async def _prepared(url: str, run: str) -> None:
    async with _opened(url) as store:
        await store.commit([start(run)])


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def _stranger_beside(url: str, stranger: OwnServer, *servers: Replicated) -> str:
    return joint_url(url, *servers, host=stranger._folder)


@pytest.mark.parametrize("named_first", ["old", "new"])
def test_the_first_connection_goes_to_the_newest_primary(
    promoted: tuple[Replicated, Standby, str], named_first: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Both take writes, and nothing was known: nothing is acknowledged by the old one, whichever is named first."""
    old, new, url = promoted
    order = (old, new) if named_first == "old" else (new, old)
    asyncio.run(_prepared(joint_url(url, *order), f"by {named_first}"))
    assert f"by {named_first}" in runs_on(new, url)
    assert f"by {named_first}" not in runs_on(old, url)
    assert f"{old.folder} is on timeline 1, and a standby was promoted in its place" in caplog.text


def test_commands_speak_of_the_newest_primary(promoted: tuple[Replicated, Standby, str]) -> None:
    """``doctor`` names the hosts with their roles and timelines, and fails for a second primary."""
    old, new, url = promoted
    both = joint_url(url, old, new)
    listed = CliRunner().invoke(main, ["list", "--json", "--store", both])
    assert "since" in {json.loads(line)["id"] for line in listed.stdout.splitlines()}
    judged = CliRunner().invoke(main, ["doctor", "--store", both])
    assert judged.exit_code == 1
    assert f"{old.folder}: A SECOND PRIMARY, timeline 1" in judged.output
    assert f"{new.folder}: primary, timeline 2" in judged.output
    alone = CliRunner().invoke(main, ["doctor", "--json", "--store", joint_url(url, new)])
    (hosts,) = [check for check in json.loads(alone.stdout)["checks"] if check["name"] == "hosts"]
    assert [(host["role"], host["timeline"]) for host in hosts["facts"]["hosts"]] == [("primary", 2)]


def test_an_old_primary_alone_is_known_by_what_this_host_saw_before(
    promoted: tuple[Replicated, Standby, str], newcomer: Path
) -> None:
    """Another process has seen the promotion. The message names the file, for the day on which a backup is restored."""
    old, new, url = promoted
    both = joint_url(url, old, new)
    asyncio.run(_prepared(both, "seen"))
    (file,) = newcomer.glob("cluster-*.json")
    assert file.stat().st_mode & 0o077 == 0
    new.stop()
    try:
        with pytest.raises(StoreUnavailable, match="timeline 1, and a standby was promoted") as refused:
            asyncio.run(_prepared(both, "lost"))
        assert str(file) in str(refused.value)
        file.write_text("[1, 2")
        asyncio.run(_prepared(both, "unknowing"))
        assert "unknowing" in runs_on(old, url)
    finally:
        new.start()


def test_a_host_that_does_not_answer_is_named_and_not_waited_for(
    promoted: tuple[Replicated, Standby, str], caplog: pytest.LogCaptureFixture
) -> None:
    """The best of those that answer is used, and the log says which do not."""
    _, new, url = promoted

    async def judge() -> None:
        async with _opened(joint_url(url, new, host=Path("/nobody"))) as store:
            await store.commit([start("answered")])

    asyncio.run(judge())
    assert "answered" in runs_on(new, url)
    assert f"{new.folder} is used as the primary; /nobody does not answer" in caplog.text


def test_hosts_of_different_clusters_are_refused_with_both_ids(
    promoted: tuple[Replicated, Standby, str], stranger: OwnServer
) -> None:
    """While nothing is known there is no telling which one is meant."""
    _, new, url = promoted
    ids = {str(server.execute("SELECT system_identifier FROM pg_control_system()")[0][0]) for server in (new, stranger)}
    with pytest.raises(UnsupportedStore, match="different clusters") as refused:
        asyncio.run(_prepared(_stranger_beside(url, stranger, new), "refused"))
    assert all(id in str(refused.value) for id in ids)


def test_a_stranger_among_known_hosts_is_left_aside(
    promoted: tuple[Replicated, Standby, str], stranger: OwnServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A process that knows the cluster goes on with it, and is never led to the stranger."""
    _, new, url = promoted

    from holdfast.store.postgres.cluster import Cluster

    async def judge() -> None:
        cluster = Cluster(_stranger_beside(url, stranger, new))
        known = Cluster(joint_url(url, new))
        (await known.connect()).terminate()
        cluster._newest = known.newest
        session = await cluster.connect()
        assert session.host.name == str(new.folder)
        session.terminate()
        await asyncio.to_thread(new.stop)
        try:
            with pytest.raises(StoreUnavailable, match="belongs to the cluster"):
                await cluster.connect()
        finally:
            await asyncio.to_thread(new.start)

    asyncio.run(judge())
    assert "belongs to the cluster" in caplog.text


def test_a_name_that_is_led_to_another_cluster_is_refused(
    promoted: tuple[Replicated, Standby, str], stranger: OwnServer, tmp_path: Path
) -> None:
    """As by a pooler that is configured anew. The message has both ids; the next process takes it for meant."""
    _, new, url = promoted
    name = tmp_path / ".s.PGSQL.5432"
    name.symlink_to(new.folder / name.name)
    named = joint_url(url, host=tmp_path)

    async def judge() -> None:
        async with _opened(named) as store:
            await store.commit([start("here")])
            name.unlink()
            name.symlink_to(stranger._folder / name.name)
            store._drop()
            with pytest.raises(StoreLost, match=r"belongs to the cluster \d+, and not to \d+"):
                await store.commit([start("there")])
            name.unlink()
            name.symlink_to(new.folder / name.name)
            await store.commit([start("here again")])
            assert len(await store.get([key("here again")])) == 1

    asyncio.run(judge())
    assert stranger.execute("SELECT to_regclass('runs')::text", joint_url(url, host=stranger._folder)) == [(None,)]
