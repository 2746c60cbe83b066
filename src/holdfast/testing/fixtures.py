"""The pytest plugin: an ``async def`` test that asks for ``holdfast_app`` gets an engine in virtual time, on its loop.

Such a test needs no mark and no other plugin. Where pytest-asyncio or anyio is installed, they see a plain function and
leave it alone: their loops run in real time.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pytest

from holdfast.testing.engine import virtual_engine
from holdfast.testing.virtual import Stuck, VirtualLoop

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

APP: Final = "holdfast_app"
LOOP: Final = "holdfast_loop"
MARK: Final = "holdfast"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARK}(**options): options of virtual_engine() for the fixture {APP}")


@pytest.fixture
def holdfast_loop() -> Iterator[VirtualLoop]:
    """An event loop in virtual time. A plain test gives it coroutines: ``holdfast_loop.run_until_complete(…)``."""
    loop = VirtualLoop()
    yield loop
    try:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        if left := asyncio.all_tasks(loop):
            loop.run_until_complete(asyncio.wait(left))
    finally:
        loop.close()


@pytest.fixture
def holdfast_app(request: pytest.FixtureRequest, holdfast_loop: VirtualLoop) -> Iterator[Holdfast]:
    """The real engine with a worker, in memory and in virtual time: days of sleeping pass in milliseconds.

    ``@pytest.mark.holdfast(policy=…, seed=…, workflows=[…], options=…, declared_schedules=True)`` gives it what
    ``virtual_engine`` takes.
    """
    mark = request.node.get_closest_marker(MARK)
    engine = virtual_engine(**({} if mark is None else mark.kwargs))
    app = holdfast_loop.run_until_complete(engine.__aenter__())
    yield app
    with suppress(Stuck):  # the test was stuck, and has reported it
        holdfast_loop.run_until_complete(engine.__aexit__(None, None, None))


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_pycollect_makeitem() -> Generator[None, Any, Any]:
    """Make our tests plain functions, before another plugin claims them."""
    made = yield
    for item in made if isinstance(made, list) else [made]:
        if isinstance(item, pytest.Function) and LOOP in item.fixturenames and inspect.iscoroutinefunction(item.obj):
            item.obj = _virtually(item, item.obj)
    return made


def _virtually(item: pytest.Function, test: Callable[..., Any]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(**arguments: object) -> None:
        loop = item.funcargs[LOOP]
        assert isinstance(loop, VirtualLoop)
        loop.run_until_complete(test(**arguments))

    return run
