"""One attempt of a call, made without an engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import cbor2

from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.store.memory.store import MemoryStore
from holdfast.transports import table
from holdfast.transports.secret_keeper import SecretKeeper
from holdfast.transports.secrets import connector_secrets


def written(verb: str, request: Mapping[str, Any], connectors: Mapping[str, Any] | None = None) -> tuple[str, Any]:
    """A call's name, and its members as they are recorded."""
    transport = table.find(verb)
    assert transport is not None
    name, input = transport.write(request, connectors or {})
    positional, members = cbor2.loads(input.data)
    assert positional == []
    return name, members


async def attempt(request: Mapping[str, Any], connectors: Mapping[str, Any] | None = None, verb: str = "http") -> Any:
    """What an attempt gives; raises what it raises."""
    transport = table.find(verb)
    assert transport is not None
    name, input = transport.write(request, connectors or {})
    effect = transport.effect(name, input)
    positional, named = effect.propose(input, "f00d.1").attempt_arguments
    store = MemoryStore()
    await store.open()
    connector_secrets.set(SecretKeeper(store).of_connectors(DEFAULT_TENANT))
    answer = await effect.function(*positional, **named)
    return cbor2.loads(effect.write_result(answer).data)


def call(
    request: Mapping[str, Any],
    connectors: Mapping[str, Any] | None = None,
    verb: str = "http",
    loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> Any:
    """The same, on an event loop of its own."""

    async def main() -> Any:
        transport = table.find(verb)
        assert transport is not None
        try:
            return await attempt(request, connectors, verb)
        finally:
            await transport.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(main())
