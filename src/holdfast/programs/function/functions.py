"""Workflow functions in the catalogue: found by their names, whatever the digest. Replay judges whether they fit."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from holdfast.errors import WorkflowUnknown
from holdfast.kernel.program import Program
from holdfast.programs.function.decorators import WORKFLOWS, Workflow
from holdfast.runs.birth import Pin
from holdfast.store.protocol import FUNCTION, Code


class Functions:
    """The kind of programs that Python functions are. Those that are imported later are known from then on."""

    kind = FUNCTION

    def __init__(self, workflows: Mapping[str, Workflow[..., Any]] = WORKFLOWS) -> None:
        self.workflows = workflows

    def names(self) -> Collection[str]:
        return self.workflows.keys()

    def pin(self, name: str) -> Pin | None:
        found = self.workflows.get(name)
        return None if found is None else Pin(digest=found.digest)

    def program(self, name: str, digest: str, code: Code | None) -> Program:
        found = self.workflows.get(name)
        if found is None:
            raise WorkflowUnknown(f"the app has no workflow {name!r}: runs of it would wait for ever.")
        return found.program()
