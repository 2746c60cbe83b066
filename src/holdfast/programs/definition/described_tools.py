"""The tools of a process as data, so that another process can check what definitions call."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.programs.definition.interpreter.routine import Toolbox
from holdfast.transports.table import find

if TYPE_CHECKING:
    from holdfast.transports.protocol import Transport


class DescribedStep(msgspec.Struct, frozen=True):
    """What is checked of a step or action. ``parameters`` says of each argument whether it must be given."""

    kind: str
    parameters: dict[str, bool]


class DescribedTools:
    """Tools of another process. Only what is checked of steps is known; transports are those of the installation."""

    def __init__(self, steps: Mapping[str, DescribedStep]) -> None:
        self._steps = steps

    def step(self, name: str) -> Any:
        return self._steps.get(name)

    def names(self) -> Collection[str]:
        return self._steps.keys()

    def transport(self, verb: str) -> Transport | None:
        return find(verb)


def describe(tools: Toolbox) -> dict[str, DescribedStep]:
    """The steps and actions of these tools."""
    found = {name: tools.step(name) for name in tools.names()}
    return {name: DescribedStep(step.kind, parameters_of(step)) for name, step in found.items() if step is not None}


def parameters_of(step: Any) -> dict[str, bool]:
    """The arguments of a step, and whether each must be given. What takes any number begins with ``*``."""
    if isinstance(step, DescribedStep):
        return step.parameters
    found = {}
    for parameter in inspect.signature(step.function).parameters.values():
        many = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        found[f"*{parameter.name}" if many else parameter.name] = not many and parameter.default is parameter.empty
    return found
