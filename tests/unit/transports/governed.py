"""A workflow that makes transport calls, as the interpreter of definitions will."""

from __future__ import annotations

from typing import Any

import cbor2

from holdfast import RetryPolicy, workflow
from holdfast.journal.secrecy import ACTION
from holdfast.programs.function.failures import unwrap
from holdfast.programs.function.loop import durable_loop
from holdfast.transports import table

CONNECTORS: dict[str, Any] = {}
"""What the workflow has for ``connectors:``; a test fills it."""


@workflow(name="transports.calling")
async def calling(request: dict[str, Any], verb: str = "http", attempts: int = 1, on: list[str] | None = None) -> Any:
    loop, transport = durable_loop(), table.find(verb)
    assert loop is not None
    assert transport is not None
    name, input = transport.write(request, CONNECTORS)
    policy = RetryPolicy(max_attempts=attempts, initial=0.01, jitter=0.0, on=tuple(on or ()))
    promise = loop.scribe.invoke(ACTION, name, input, policy)
    return cbor2.loads(unwrap(await loop.promise(promise), name).data)
