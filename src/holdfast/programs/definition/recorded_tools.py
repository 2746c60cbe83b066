"""Tools for who only reads a run: a step that is not here is called as the journal has it.

So a command can show where a run stands, and its state, in a process that has none of the run's code.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from holdfast.errors import InvalidDefinition
from holdfast.journal import events as e
from holdfast.journal.payload import ONCE, Payload, RetryPolicy
from holdfast.programs.definition.interpreter.routine import Toolbox

if TYPE_CHECKING:
    from holdfast.transports.protocol import Transport


class RecordedTools:
    """The tools of this process, and for steps that it lacks those that the entries record."""

    def __init__(self, tools: Toolbox, entries: Iterable[e.Entry]) -> None:
        self._tools = tools
        self._steps: dict[str, RecordedStep] = {}
        for entry in entries:
            if isinstance(entry.event, e.InvokeScheduled):
                name = entry.event.function_name
                self._steps.setdefault(name, RecordedStep(name)).calls.append(entry.event)

    def step(self, name: str) -> Any:
        return self._tools.step(name) or self._steps.setdefault(name, RecordedStep(name))

    def names(self) -> Collection[str]:
        return self._tools.names()

    def transport(self, verb: str) -> Transport | None:
        return self._tools.transport(verb)


class RecordedStep:
    """A step that is not here, whose calls are taken from the journal, in their order. Nothing can undo it here."""

    undo = None
    repeatable = False
    queue: str | None = None

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls: deque[e.InvokeScheduled] = deque()
        self.kind: str = "step"
        self.retry: RetryPolicy = ONCE

    def write_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], program: object) -> Payload:
        """The next call of it that is recorded."""
        if not self.calls:
            raise InvalidDefinition(f"the journal has no further call of {self.name!r}, which is not known here")
        call = self.calls.popleft()
        self.kind, self.retry = call.kind, call.retry_policy
        return call.input
