"""Opening the store for one command, and running the command's coroutine on it.

Commands never create a database unless that is what they are for: a wrong path is told, not filled.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import click

from holdfast.cli.options import DEFAULT_STORE
from holdfast.client.engine import Holdfast
from holdfast.errors import StoreUnavailable, UnsupportedStore

T = TypeVar("T")

PATIENCE_SECONDS: Final = 20.0


def url_of(store: str | None, app: Holdfast | None = None) -> str:
    """The store's URL: from the command line, else the app's own, else from the environment, else the default."""
    context = click.get_current_context(silent=True)
    source = None if context is None else context.get_parameter_source("store")
    if app is not None and app.url and source is not click.core.ParameterSource.COMMANDLINE:
        return app.url
    return store or DEFAULT_STORE


@asynccontextmanager
async def opened(url: str, *, create: bool = False) -> AsyncIterator[Holdfast]:
    """An engine without a worker on the store. Unless ``create``, the database must be there. Raises OperatorError."""
    if url.startswith("memory:"):
        raise UnsupportedStore("a memory store lives inside one process: there is nothing to find in it from here.")
    app = Holdfast(url, worker=False)
    if not create:
        await _check_schema(url)
    await app.open(migrate=create)
    try:
        yield app
    finally:
        await app.close()


async def _check_schema(url: str) -> None:
    from holdfast.cli.store.schemas import schema_numbers

    if url.startswith("sqlite:"):
        present, newest = await schema_numbers(url)
        if present < newest:
            raise UnsupportedStore(f"{url} has schema {present} and needs {newest}: run `holdfast migrate` first.")


def on_store(url: str, work: Callable[[Holdfast], Awaitable[T]], *, create: bool = False) -> T:
    """Open the store, do the work, close the store."""

    async def whole() -> T:
        async with opened(url, create=create) as app:
            return await work(app)

    return run(whole())


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


async def patiently(app: Holdfast, change: Awaitable[T]) -> T:
    """Make a change; the engine would try for ever while the store refuses, a person is told after a while."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await change
    except TimeoutError:
        trouble = app.committer.trouble or "the store did not answer"
        raise StoreUnavailable(f"given up after {PATIENCE_SECONDS:.0f} seconds: {trouble}") from None
