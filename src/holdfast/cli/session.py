"""Opening the store for one command, and running the command's coroutine on it.

Only commands that exist for it create a database: for all others a wrong path is an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import click

from holdfast.cli import output
from holdfast.cli.callers import acting
from holdfast.cli.options import DEFAULT_STORE, WAKEUPS
from holdfast.client.engine import Holdfast
from holdfast.errors import StoreUnavailable, UnsupportedStore
from holdfast.wakeups.driver import Wakeups

T = TypeVar("T")

PATIENCE_SECONDS: Final = 30.0
"""How long a command that changes something waits for a store that does not answer: as long as an engine's callers."""

AGAIN_SECONDS: Final = 0.5


def url_of(store: str | None, app: Holdfast | None = None) -> str:
    """The store's URL: from the command line, else that of the app, else from the environment, else the default."""
    context = click.get_current_context(silent=True)
    source = None if context is None else context.get_parameter_source("store")
    if app is not None and app.url and source is not click.core.ParameterSource.COMMANDLINE:
        return app.url
    return store or DEFAULT_STORE


def wakeups_of(app: Holdfast | None = None) -> str | Wakeups | None:
    """The wake-ups: from the command line, else those of the app, else from the environment, else none."""
    context = click.get_current_context(silent=True)
    if context is None:
        return None if app is None else app.neighbours.wakeups
    is_typed = context.get_parameter_source("wakeups") is click.core.ParameterSource.COMMANDLINE
    if app is not None and app.neighbours.wakeups is not None and not is_typed:
        return app.neighbours.wakeups
    given: str | None = context.meta.get(WAKEUPS)
    return given


@asynccontextmanager
async def opened(
    url: str,
    *,
    create: bool = False,
    wakeups: str | Wakeups | None = None,
    is_bound: bool = True,
    waits: bool = False,
) -> AsyncIterator[Holdfast]:
    """An engine without a worker on the store, for whom the command acts. Raises OperatorError.

    Unless ``create``, the database must be there. One that ``waits`` waits for a store that does not answer.
    """
    if url.startswith("memory:"):
        raise UnsupportedStore("a memory store lives inside one process: there is nothing to find in it from here.")
    if not create:
        await _check_schema(url)
    until = asyncio.get_running_loop().time() + PATIENCE_SECONDS * waits
    engine = await _open(url, wakeups, create=create, until=until)
    try:
        yield acting(engine) if is_bound else engine
    finally:
        await engine.close()


async def _open(url: str, wakeups: str | Wakeups | None, *, create: bool, until: float) -> Holdfast:
    loop, told = asyncio.get_running_loop(), False
    while True:
        engine = Holdfast(url, worker=False, wakeups=wakeups)
        try:
            await engine.open(migrate=create)
        except StoreUnavailable as error:
            if loop.time() >= until:
                raise
            if not told:
                output.note(f"{error} Waiting for up to {until - loop.time():.0f} seconds.")
            told = True
            await asyncio.sleep(AGAIN_SECONDS)
        else:
            return engine


async def _check_schema(url: str) -> None:
    from holdfast.cli.store.schemas import schema_numbers

    if url.startswith("sqlite:"):
        present, newest = await schema_numbers(url)
        if present < newest:
            raise UnsupportedStore(f"{url} has schema {present} and needs {newest}: run `holdfast migrate` first.")


def on_store(
    url: str,
    work: Callable[[Holdfast], Awaitable[T]],
    *,
    create: bool = False,
    app: Holdfast | None = None,
    waits: bool = False,
) -> T:
    """Open the store, do the work, close the store. ``app`` is an app's engine, if it has one: it may have wake-ups."""

    async def whole() -> T:
        async with opened(url, create=create, wakeups=wakeups_of(app), waits=waits) as engine:
            return await work(engine)

    return run(whole())


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


async def patiently(app: Holdfast, change: Awaitable[T]) -> T:
    """Make a change. The engine would try for ever while the store refuses; a command gives up after a while."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await change
    except TimeoutError:
        trouble = app.committer.trouble or "the store did not answer"
        raise StoreUnavailable(f"given up after {PATIENCE_SECONDS:.0f} seconds: {trouble}") from None
