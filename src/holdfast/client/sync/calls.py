"""Methods of the asynchronous classes, for code without an event loop. Their signatures and types come from there."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def waited(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Any, P], R]:
    """The method, run to its end on the loop's thread."""

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self._loop.call(method(self._part, *args, **kwargs))
        return result

    return call


def each_of(method: Callable[Concatenate[Any, P], AsyncIterator[R]]) -> Callable[Concatenate[Any, P], Iterator[R]]:
    """The method, whose items are fetched one by one from the loop's thread."""

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        items: Iterator[R] = self._loop.each(method(self._part, *args, **kwargs))
        return items

    return call
