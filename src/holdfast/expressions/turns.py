"""How a server evaluates expressions between requests: its event loop does not wait for one that may be heavy.

Work that evaluates some is first done in the loop's own turn, as most is done in a moment. Where an expression may be
heavy the turn ends with ``NotAtOnce``, and all of the work is done again in a thread, which may wait for the process
that can be ended. So it must do nothing but compute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import cache
from typing import Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Given = TypeVarTuple("Given")

_in_turn: Final[ContextVar[bool]] = ContextVar("in_turn", default=False)


class NotAtOnce(Exception):
    """An expression may be heavy, and an event loop would wait for it."""


def may_wait() -> bool:
    """Whether nobody else waits where this is called."""
    return not _in_turn.get()


async def in_turn(work: Callable[[*Given], T], *given: *Given) -> T:
    """What the work gives; the event loop goes on if an expression in it may be heavy."""
    token = _in_turn.set(True)
    try:
        return work(*given)
    except NotAtOnce:
        pass
    finally:
        _in_turn.reset(token)
    return await asyncio.get_running_loop().run_in_executor(_thread(), work, *given)


@cache
def _thread() -> ThreadPoolExecutor:
    """One, as the process answers one question at a time. The threads for other work stay free."""
    return ThreadPoolExecutor(1, "holdfast-expressions")
