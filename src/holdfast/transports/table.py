"""The table of transports: by verb, the two that come with Holdfast and those of installed packages."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary

from holdfast.errors import OperatorError
from holdfast.gate.effects import Effect
from holdfast.journal.payload import Payload
from holdfast.transports.protocol import Transport

log = logging.getLogger("holdfast.transports")

GROUP: Final = "holdfast.transports"
"""The group of entry points by which a package adds a transport."""

_VERB: Final = re.compile(r"[a-z][a-z0-9_]*")

_loaded: dict[str, Transport | None] = {}
_workers: WeakKeyDictionary[asyncio.AbstractEventLoop, int] = WeakKeyDictionary()


def find(verb: str) -> Transport | None:
    """The transport of this verb; None where there is none. Raises OperatorError where its package cannot be loaded."""
    if verb not in _loaded:
        build = _OWN.get(verb)
        _loaded[verb] = build() if build is not None else _installed(verb)
    return _loaded[verb]


def knows(function_name: str) -> bool:
    """Whether a recorded call of this name is one of a transport that is known here."""
    return _transport_of(function_name) is not None


def effect_of(function_name: str, input: Payload) -> Effect | None:
    """What a recorded call does, where it is a transport's."""
    transport = _transport_of(function_name)
    return None if transport is None else transport.effect(function_name, input)


def _transport_of(function_name: str) -> Transport | None:
    verb, colon, _ = function_name.partition(":")
    if not colon or _VERB.fullmatch(verb) is None:
        return None
    try:
        return find(verb)
    except OperatorError:
        log.exception("a call of the transport %s cannot be made here", verb)
        return None


def _http() -> Transport:
    from holdfast.transports.http.transport import HttpTransport

    return HttpTransport()


def _graphql() -> Transport:
    from holdfast.transports.graphql.transport import GraphqlTransport

    return GraphqlTransport()


_OWN: Final[dict[str, Callable[[], Transport]]] = {"http": _http, "graphql": _graphql}


def _installed(verb: str) -> Transport | None:
    """The transport that a package adds under this verb."""
    from importlib.metadata import entry_points

    found = list(entry_points(group=GROUP, name=verb))
    if not found:
        return None
    if len(found) > 1:
        values = ", ".join(sorted(entry.value for entry in found))
        raise OperatorError(f"several packages add a transport {verb!r} ({values}): remove all but one")
    try:
        given = found[0].load()
        transport: Transport = given() if isinstance(given, type) else given
        if transport.name != verb:
            raise ValueError(f"it calls itself {transport.name!r}")
    except Exception as error:
        raise OperatorError(
            f"the transport {verb!r} ({found[0].value}) cannot be loaded ({type(error).__name__}: {error}): mend or "
            "remove the package that adds it"
        ) from error
    return transport


def hold() -> None:
    """A worker begins on this event loop: connections are kept for its calls until the last one stops."""
    loop = asyncio.get_running_loop()
    _workers[loop] = _workers.get(loop, 0) + 1


async def release() -> None:
    """A worker of this event loop has stopped: the last one lets go of the connections."""
    loop = asyncio.get_running_loop()
    _workers[loop] = _workers.get(loop, 1) - 1
    if _workers[loop] > 0:
        return
    del _workers[loop]
    for transport in [each for each in _loaded.values() if each is not None]:
        await transport.close()
