"""A run that is rebuilt reads the large values that its program is given, and compares the others by their digests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import cbor2
import pytest

from holdfast import Holdfast, receive, step, workflow
from holdfast.journal.blobs import digest_of
from holdfast.journal.cbor import canonical
from holdfast.journal.payload import Ok
from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import CallSettled
from holdfast.runs import children, messages
from holdfast.runs.birth import Birth
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore

SIZE = 40_000
LETTERS = {"argument": "a"}


class CountingStore(MemoryStore):
    """The memory store, which lists the blobs that are read from it."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[bytes] = []

    async def load(self, keys: Sequence[p.Key], *, whole: bool = False) -> dict[p.Key, p.Loaded]:
        loaded = await super().load(keys, whole=whole)
        self.read += [digest for each in loaded.values() for digest in each.blobs]
        return loaded

    async def blobs(self, tenant: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        self.read += digests
        return await super().blobs(tenant, digests)


@step
async def measure(words: str) -> int:
    return len(words)


@step
async def repeat(letter: str) -> str:
    return letter * SIZE


@workflow
async def with_large_values() -> int:
    counted = await measure(LETTERS["argument"] * SIZE)
    result = await repeat("r")
    return counted + len(result) + await receive("go", int)


async def row(app: Holdfast) -> p.Run:
    (found,) = await app.store.get([p.Key("default", "large")])
    return found


async def begin(store: MemoryStore) -> None:
    async with Holdfast(store) as app:
        await app.start(with_large_values, id="large")
        while (await row(app)).standing != "waiting":
            await app.changed(0.05)


def test_an_argument_that_replay_only_compares_is_not_read() -> None:
    """The program brings the argument itself; the journal has its digest. A result is read: the program is given it."""

    async def scenario() -> None:
        store = CountingStore()
        await begin(store)
        async with Holdfast(store) as app:
            run = app.run("large")
            await run.signal("go", 2)
            assert await run.result() == 2 * SIZE + 2
        assert store.read == [digest_of(canonical("r" * SIZE))]

    asyncio.run(scenario())


def test_an_argument_that_differs_from_the_digest_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another argument than the recorded one is nondeterminism, although its bytes were never read."""

    async def scenario() -> None:
        store = CountingStore()
        await begin(store)
        monkeypatch.setitem(LETTERS, "argument", "b")
        async with Holdfast(store) as app:
            run = app.run("large")
            await run.signal("go", 2)
            while (await row(app)).pause is None:
                await app.changed(0.05)
            assert "measure" in str((await row(app)).pause)

    asyncio.run(scenario())


@workflow
async def large_child() -> str:
    return await repeat("c")


def test_a_retried_parent_gets_the_large_result_of_a_child_that_it_meets_again() -> None:
    """The message about the child's end carries the value, not a reference to it."""

    async def main() -> None:
        async with Holdfast(MemoryStore()) as app:
            run = await app.start(large_child, id="child")
            await run.result(30)
            found = (await app.store.get([run.key]))[0]
            start = Birth(key=run.key, workflow="large_child", input=large_child.signature.write((), {})).start(0)
            exists = p.Exists(found.workflow, start.fingerprint, found.key.run)
            parent = PromiseId.of_run("digest", None, "parent")
            message = await children.met_again(app.store, start, exists, parent, 1, 0)
            assert message is not None
            arrival = messages.read(message, parent)
            assert isinstance(arrival, CallSettled)
            assert isinstance(arrival.outcome, Ok)
            assert cbor2.loads(arrival.outcome.value.data) == "c" * SIZE

    asyncio.run(main())
