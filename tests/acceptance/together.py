"""Tests that wait on the real clock wait together: the cases of one store run at once, in one event loop.

``@together`` makes a test out of a coroutine that gets a ``Place``. The first test of a store runs all the chosen ones
of its module on that store, each on a place of its own; each test then tells how its case ended. They must share a
process: give their module ``pytest.mark.xdist_group``.

``LoopDelays`` measures meanwhile how late a plain ``asyncio.sleep`` is: what delays it is not the engine's fault.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from holdfast import Holdfast
from holdfast.store.memory import MemoryStore
from holdfast.store.protocol import Store
from holdfast.testing.postgres import PostgresServer
from tests.scope import one_stays

APART_SECONDS: Final = 0.06
"""Cases begin one after the other: they would wake up in the same moment otherwise, and delay each other."""

Case = Callable[..., Awaitable[None]]
Outcomes = dict[str, BaseException | None]
"""How each case ended, by the node id of its test."""


class Place(msgspec.Struct):
    """The store of one case, and a folder for its files."""

    folder: Path
    open: Callable[[], str | Store]
    """Returns the URL or store for an engine; all engines of a case share one store."""


class LoopDelays:
    """How late the event loop was, at any moment since it was watched."""

    _STEP: Final = 0.005

    def __init__(self) -> None:
        self._delays: list[tuple[float, float]] = []

    async def watch(self) -> None:
        while True:
            due = time.time() + self._STEP
            await asyncio.sleep(self._STEP)
            if (now := time.time()) > due:
                self._delays.append((due, now))

    def within(self, begin: float, end: float) -> float:
        """By how many seconds a plain sleep was late, between two moments of the machine's clock."""
        return sum(max(0.0, min(end, late) - max(begin, due)) for due, late in self._delays)

    def since(self, begin: float) -> float:
        """The seconds since a moment of the machine's clock, without those by which a plain sleep was late."""
        now = time.time()
        return now - begin - self.within(begin, now)


@asynccontextmanager
async def watched_loop() -> AsyncIterator[LoopDelays]:
    """Measure the delays of the event loop within the block."""
    delays = LoopDelays()
    watching = asyncio.create_task(delays.watch())
    try:
        yield delays
    finally:
        watching.cancel()


def together(case: Case) -> Callable[..., None]:
    """A test for each store, with the name, the docstring and the further parameters of the case."""

    def test(request: pytest.FixtureRequest, outcomes: Callable[[str], Outcomes], store: str, **_: Any) -> None:
        failure = outcomes(store)[request.node.nodeid]
        if failure is not None:
            raise failure

    named = list(inspect.signature(test).parameters.values())[:3]
    own = [each for each in inspect.signature(case).parameters.values() if each.name != "place"]
    test.__signature__ = inspect.Signature([*named, *own])  # type: ignore[attr-defined]
    test.__name__ = test.__qualname__ = case.__name__
    test.__doc__, test.__module__ = case.__doc__, case.__module__
    test.case = case  # type: ignore[attr-defined]
    marked: Callable[..., None] = pytest.mark.parametrize("store", one_stays(["sqlite", "memory", "postgres"]))(test)
    return marked


def runner(request: pytest.FixtureRequest, folder: Path, delays: LoopDelays) -> Callable[[str], Outcomes]:
    """What a fixture ``outcomes`` returns: it runs the cases of a store when it is first asked for them."""
    known: dict[str, Outcomes] = {}

    def outcomes(store: str) -> Outcomes:
        if store not in known:
            known[store] = asyncio.run(_run(request, store, folder / store, delays))
        return known[store]

    return outcomes


async def _run(request: pytest.FixtureRequest, store: str, folder: Path, delays: LoopDelays) -> Outcomes:
    tests = [item for item in request.session.items if _is_case(item, request.node.nodeid, store)]
    places = [_place(request, store, folder / str(number)) for number in range(len(tests))]
    for place in places:
        async with Holdfast(place.open(), worker=False):
            pass  # its tables are there: whoever waits is not delayed by those who make theirs
    watching = asyncio.create_task(delays.watch())
    ended = await asyncio.gather(
        *(_begin(number, test, place) for number, (test, place) in enumerate(zip(tests, places, strict=True))),
        return_exceptions=True,
    )
    watching.cancel()
    return {test.nodeid: failure for test, failure in zip(tests, ended, strict=True)}


def _is_case(item: pytest.Item, module: str, store: str) -> bool:
    return (
        isinstance(item, pytest.Function)
        and item.nodeid.startswith(f"{module}::")
        and hasattr(item.function, "case")
        and item.callspec.params["store"] == store
    )


async def _begin(number: int, test: Any, place: Place) -> None:
    await asyncio.sleep(number * APART_SECONDS)
    params = {name: value for name, value in test.callspec.params.items() if name != "store"}
    await test.function.case(place, **params)


def _place(request: pytest.FixtureRequest, store: str, folder: Path) -> Place:
    folder.mkdir(parents=True)
    if store == "sqlite":
        return Place(folder, lambda: f"sqlite:///{folder / 'store.db'}")
    if store == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.schema_url()
        return Place(folder, lambda: url)
    return Place(folder, MemoryStore().twin)
