"""What becomes of an error in a stream: its answer has begun, so it is the last event."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import msgspec

from holdfast.errors import EngineError, HoldfastError
from holdfast.server.problems import problem_of
from holdfast.server.streams.wire import event

log = logging.getLogger("holdfast.server")


async def guarded(stream: AsyncGenerator[bytes, None], path: str) -> AsyncIterator[bytes]:
    """The stream; an error that ends it is its last event."""
    async with aclosing(stream) as events:
        try:
            async for each in events:
                yield each
        except HoldfastError as error:
            yield event("problem", msgspec.json.encode(problem_of(error, path)))
        except Exception:
            log.exception("the stream %s failed", path)
            yield event("problem", msgspec.json.encode(problem_of(EngineError("the stream failed"), path)))
