"""The guard of handlers: a blocking call inside one is refused as it is made, like one in a workflow's body.

A handler that swallows the refusal fails all the same, once it has returned.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, NoReturn

from holdfast.errors import BlockedLoop


class _Handling(threading.local):
    """Whether this thread runs a handler, and what it was refused."""

    running = False
    refused: BlockedLoop | None = None


_handling: Final = _Handling()


def guarded(handler: Callable[..., Any], *args: Any) -> Any:
    """What the handler gives. Raises BlockedLoop where it made a blocking call, whatever it did about it."""
    handling = _handling
    handling.running, handling.refused = True, None
    try:
        given = handler(*args)
    finally:
        handling.running = False
    if handling.refused is not None:
        raise handling.refused
    return given


def is_handling() -> bool:
    """Whether the calling thread is inside a handler."""
    return _handling.running


def refuse(what: str) -> NoReturn:
    """Refuse a call that only an effect may make."""
    error = BlockedLoop(
        f"the handler of a machine did real I/O or a blocking call ({what}). A handler must be able to replay, so move "
        "this into a @step or an @action, and ask for it with cell.do()."
    )
    _handling.refused = error
    raise error
