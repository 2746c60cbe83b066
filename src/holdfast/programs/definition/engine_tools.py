"""What the definitions of a process can call."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from holdfast.programs.function.decorators import Step
from holdfast.transports.protocol import Transport
from holdfast.transports.table import find


class EngineTools:
    """What definitions call: the steps of this process, and the transports that are installed."""

    def __init__(self, steps: Mapping[str, Step[..., Any]]) -> None:
        self._steps = steps

    def step(self, name: str) -> Step[..., Any] | None:
        return self._steps.get(name)

    def names(self) -> Collection[str]:
        return self._steps.keys()

    def transport(self, verb: str) -> Transport | None:
        return find(verb)
