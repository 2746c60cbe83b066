"""What authors' code raises ends in the attempt that raised it, and never in the worker.

``sys.exit()`` and whatever else is no ``Exception`` would pass every handler of the engine and end the event loop, and
with it the worker; the next worker would meet the same. Only a real Ctrl-C may do that.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from holdfast.programs.function.interrupts import is_interrupt


class Escaped(Exception):
    """Carries what would end the event loop out of a task, in which it must not be raised."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class Contained(Coroutine[Any, Any, Any]):
    """A coroutine that a step made a task of: what would end the event loop fails this task alone.

    It passes everything on itself instead of awaiting: a task that is cancelled before it begins must still close the
    coroutine.
    """

    __slots__ = ("_coroutine",)

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutine = coroutine

    def send(self, value: Any, /) -> Any:
        try:
            return self._coroutine.send(value)
        except (SystemExit, KeyboardInterrupt) as error:
            raise _escaped(error) from error

    def throw(self, *error: Any) -> Any:
        try:
            return self._coroutine.throw(*error)
        except (SystemExit, KeyboardInterrupt) as raised:
            raise _escaped(raised) from raised

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coroutine, name)  # its name and its code, for those that look at the task


def _escaped(error: BaseException) -> BaseException:
    return error if is_interrupt(error) else Escaped(error)


def contain_tasks(loop: asyncio.AbstractEventLoop, is_authored: Callable[[], bool]) -> None:
    """Have the loop contain the tasks that steps make; ``is_authored`` says whether one is being made just now."""
    before: Any = loop.get_task_factory()
    if getattr(before, "contains", False):
        return

    def make(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Future[Any]:
        if is_authored():
            coroutine = Contained(coroutine)
        if before is None:
            return asyncio.Task(coroutine, loop=loop, **options)
        made: asyncio.Future[Any] = before(loop, coroutine, **options)
        return made

    make.contains = True  # type: ignore[attr-defined]  # several engines may share the loop
    loop.set_task_factory(make)


def contained(call: Callable[[], Any]) -> Any:
    """Call a plain function in its thread. What is no Exception, and StopIteration, no future could carry."""
    try:
        return call()
    except (asyncio.CancelledError, concurrent.futures.CancelledError):
        raise
    except StopIteration as error:
        raise Escaped(error) from error
    except Exception:
        raise
    except BaseException as error:
        raise Escaped(error) from error
