"""What a transport is: it writes calls, and says what a recorded call does.

A package adds one by an entry point of the group ``holdfast.transports``: its name is the verb, its value an object of
this shape, or a class of such objects that takes no arguments. It is loaded when the verb is first met.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from holdfast.gate.effects import Effect
from holdfast.journal.payload import Payload


class Transport(Protocol):
    """One way to call the outside world."""

    @property
    def name(self) -> str:
        """The verb in a definition, in small letters: ``http``."""
        ...

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema of what stands under the verb, where a value may also be an ``=expression``."""
        ...

    def write(self, request: Mapping[str, Any], connectors: Mapping[str, Any]) -> tuple[str, Payload]:
        """The name and the recorded input of a call, an invocation of the kind ``action``.

        The name begins with the verb and a colon. It is pure: a replay compares what it gives with the journal. The
        request is plain data, its expressions are evaluated; the connectors are as they are declared. Raises
        InvalidRequest.
        """
        ...

    def effect(self, function_name: str, input: Payload | None) -> Effect:
        """What a recorded call does. No definition is at hand, so the call says everything itself.

        It never raises: an effect whose input cannot be read raises when it is to propose.
        """
        ...

    async def close(self) -> None:
        """No worker is left on this event loop: let go of what is kept for its calls."""
        ...
