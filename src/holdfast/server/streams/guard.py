"""The answer of a stream: refused as every other request before it begins; later an error is its last event."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from holdfast.errors import EngineError, HoldfastError
from holdfast.server.problems import problem_of
from holdfast.server.route import EVENTS
from holdfast.server.streams.wire import event

log = logging.getLogger("holdfast.server")


class EventStream(StreamingResponse):
    """A stream that has begun: it is subscribed, and counts until it has ended or its reader is gone."""

    def __init__(self, stream: AsyncGenerator[bytes, None], first: bytes, path: str) -> None:
        self._parts = stream, _guarded(stream, first, path)
        super().__init__(self._parts[1], media_type=EVENTS, headers={"X-Accel-Buffering": "no"})

    @classmethod
    async def begin(cls, stream: AsyncGenerator[bytes, None], path: str) -> EventStream:
        """Read a stream as far as its first bytes. Raises what refuses it, such as TooManyRequests."""
        return cls(stream, await anext(stream), path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self.end()

    async def end(self) -> None:
        """Stop reading the stream, so that it does not count any more."""
        for part in self._parts:
            await part.aclose()


async def _guarded(stream: AsyncGenerator[bytes, None], first: bytes, path: str) -> AsyncGenerator[bytes, None]:
    yield first
    try:
        async for each in stream:
            yield each
    except HoldfastError as error:
        yield event("problem", msgspec.json.encode(problem_of(error, path)))
    except Exception:
        log.exception("the stream %s failed", path)
        yield event("problem", msgspec.json.encode(problem_of(EngineError("the stream failed"), path)))
