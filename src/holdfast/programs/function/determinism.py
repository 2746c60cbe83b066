"""Makes the parts of asyncio that depend on chance the same in every replay.

Sets are iterated in the order of hashes, and by default an object's hash is its address. asyncio puts tasks, futures
and coroutines into sets and begins or yields them in that order. So objects that asyncio makes in a workflow hash by a
number of their run. Coroutines cannot: ``as_completed`` gets tasks instead, made in the order of its arguments.

The garbage collector may run at any moment. An object that it finds must not become a task of a workflow.

The changes to asyncio are made in the whole process, but have no effect outside workflows.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import types
from asyncio import events, tasks
from collections.abc import Callable
from typing import Any, Final, Protocol, runtime_checkable


@runtime_checkable
class Numbering(Protocol):
    """A loop that numbers the objects made in it."""

    def number(self) -> int: ...


def numbering() -> Numbering | None:
    """The running loop, if it is one that numbers."""
    loop: object = events._get_running_loop()
    return loop if isinstance(loop, Numbering) else None


class Numbered:
    """Hashes by a number of its run, assigned at the first use: the same in every replay."""

    _holdfast_number: int = 0

    def __hash__(self) -> int:
        number = self._holdfast_number
        if not number:
            loop = numbering()
            number = self._holdfast_number = object.__hash__(self) if loop is None else loop.number()
        return number


class DurableFuture(Numbered, asyncio.Future[Any]):
    """The future that a workflow's loop makes for asyncio."""


def install() -> None:
    """Make asyncio's own parts deterministic in workflows. Doing it twice changes nothing."""
    if not hasattr(tasks, "_holdfast_as_completed"):
        _order_gathering()
        _order_as_completed()
        gc.callbacks.append(_collector.note)


def _order_gathering() -> None:
    gathering = tasks._GatheringFuture  # type: ignore[attr-defined]  # the result of gather()
    gathering._holdfast_number = 0
    gathering.__hash__ = Numbered.__hash__


def _order_as_completed() -> None:
    """Change the function in place: other modules may have imported it already."""
    function: Any = tasks.as_completed
    original = types.FunctionType(function.__code__, function.__globals__, function.__name__)
    original.__kwdefaults__ = function.__kwdefaults__

    def in_order(fs: Any, timeout: float | None) -> Any:
        if numbering() is not None and not asyncio.iscoroutine(fs) and not asyncio.isfuture(fs):
            fs = [asyncio.ensure_future(awaitable) for awaitable in fs]
        return original(fs, timeout=timeout)

    tasks._holdfast_as_completed = in_order  # type: ignore[attr-defined]  # looked up there by the code below
    function.__code__ = _as_completed.__code__


def _as_completed(fs: Any, *, timeout: float | None = None) -> Any:
    return _holdfast_as_completed(fs, timeout)  # type: ignore[name-defined]  # noqa: F821  # asyncio's globals


class _Collector:
    """Knows whether the calling code was called by the garbage collector."""

    def __init__(self) -> None:
        self._thread: int | None = None

    def note(self, phase: str, _info: dict[str, int]) -> None:
        self._thread = threading.get_ident() if phase == "start" else None

    def is_calling(self) -> bool:
        return self._thread == threading.get_ident()


_collector: Final = _Collector()

is_collecting: Final[Callable[[], bool]] = _collector.is_calling
"""Whether this is called from within a collection of garbage."""
