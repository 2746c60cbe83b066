"""A real Redis server that is away, comes back, refuses, and is asked for nothing but PUBLISH and SUBSCRIBE."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import Holdfast, workflow
from holdfast.client import waiters
from holdfast.testing.redis import RedisServer
from holdfast.wakeups import exchange
from holdfast.worker.roles import claimer
from tests.unit.wakeups.test_engines import SilentSqlite

SECONDS = 60.0


@workflow
async def redis_add(number: int) -> int:
    return number + 1


@pytest.fixture(autouse=True)
def _quick_to_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "LONGEST_PAUSE_SECONDS", 0.2)


def _messages(server: RedisServer) -> int:
    """How many messages the server was given."""
    found = re.search(r"cmdstat_publish:calls=(\d+)", server.ask("INFO", "commandstats"))
    return 0 if found is None else int(found[1])


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110  # another process brings it about
            await asyncio.sleep(0.01)


def _nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (claimer, waiters):
        monkeypatch.setattr(module, "LOOK_SECONDS", 3600.0)


def test_a_server_that_is_away_at_the_start_and_goes_away_again_fails_no_run(
    own_redis: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Away: the store's own way still works. Back: hints go again, without a restart. A line for each, and no more."""
    monkeypatch.setattr("holdfast.wakeups.trouble.QUIET_SECONDS", 0.0)
    for module in (claimer, waiters):
        monkeypatch.setattr(module, "LOOK_SECONDS", 0.2)
    own_redis.stop()
    path = str(tmp_path / "holdfast.db")

    async def main() -> None:
        async with (
            Holdfast(SilentSqlite(path), wakeups=own_redis.url) as _,
            Holdfast(SilentSqlite(path), wakeups=own_redis.url, worker=False) as client,
        ):
            for count in (2, 4):
                await go_and_come_back(client, count)
        assert _lines("cannot hear") <= 6
        assert _lines("cannot send") <= 6

    async def go_and_come_back(client: Holdfast, count: int) -> None:
        """``count`` is how often each of the two engines has lost the server by now, together."""
        assert await (await client.start(redis_add, 1)).result() == 2
        await _until(lambda: _lines("cannot hear") == count and _lines("cannot send") > 0)
        own_redis.start()
        await _until(lambda: _lines("can hear") == count)
        before = _messages(own_redis)
        assert await (await client.start(redis_add, 10)).result() == 11
        await _until(lambda: _messages(own_redis) > before)
        own_redis.stop()

    def _lines(words: str) -> int:
        return sum(words in record.getMessage() for record in caplog.records)

    asyncio.run(main())


def test_after_an_outage_hints_alone_wake_an_idle_worker(
    own_redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sides connect again, and what was missed meanwhile is looked for."""
    _nobody_looks(monkeypatch)
    path = str(tmp_path / "holdfast.db")

    async def main() -> None:
        async with (
            Holdfast(SilentSqlite(path), wakeups=own_redis.url) as _,
            Holdfast(SilentSqlite(path), wakeups=own_redis.url, worker=False) as client,
        ):
            assert await (await client.start(redis_add, 1)).result() == 2
            own_redis.stop()
            missed = await client.start(redis_add, 2)
            own_redis.start()
            assert await missed.result(SECONDS) == 3
            assert await (await client.start(redis_add, 3)).result(SECONDS) == 4

    asyncio.run(main())


def test_a_wrong_password_is_one_line_for_each_direction_and_no_failure(
    own_redis: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The line says what the server said, names the server, and shows no password. The right one works."""
    own_redis.stop()
    own_redis.password = "right"
    own_redis.start()
    store = f"sqlite:///{tmp_path}/holdfast.db"

    async def main(url: str) -> list[str]:
        caplog.clear()
        async with Holdfast(store, wakeups=url) as _, Holdfast(store, wakeups=url, worker=False) as client:
            for number in range(20):
                await client.start(redis_add, number, id=f"{len(url)}-{number}")
            assert await client.run(f"{len(url)}-19").result(SECONDS) == 20
            await asyncio.gather(*(_settled(engine) for engine in (_, client)))
        return [record.getMessage() for record in caplog.records if record.name == "holdfast.wakeups"]

    async def _settled(engine: Holdfast) -> None:
        found = engine.neighbours.exchange
        assert found is not None
        hearing, sending = found._hearing, found._sending
        await _until(lambda: hearing.present or sending.present or (found.sent > 0 and bool(found._tasks)))

    place = own_redis.url.removeprefix("unix://")
    lines = asyncio.run(main(f"unix://:wrong-password@{place}"))
    assert 1 <= len(lines) <= 4
    assert all(own_redis.url in line and "wrong-password" not in line for line in lines)
    assert all("WRONGPASS" in line or "invalid" in line for line in lines), lines
    assert asyncio.run(main(own_redis.url_with_password)) == []
    assert _messages(own_redis) > 0


def test_messages_are_few_and_nothing_is_kept_on_the_server(own_redis: RedisServer, tmp_path: Path) -> None:
    """Three hundred commits one after the other are far fewer messages; the server has no key, and loses its client."""

    async def main() -> int:
        store = f"sqlite:///{tmp_path}/holdfast.db"
        async with Holdfast(store, wakeups=own_redis.url, worker=False) as client:
            for number in range(300):
                await client.start(redis_add, number)
            return client.committer.commits

    commits = asyncio.run(main())
    assert commits >= 300
    assert 1 <= _messages(own_redis) <= commits / 2
    assert own_redis.ask("DBSIZE") == ":0"
    assert len(own_redis.ask("CLIENT", "LIST").splitlines()) == 1, "only who asks is connected"
