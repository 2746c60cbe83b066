"""Workflow functions in the catalogue. They are found by name, at any digest: replay judges whether they fit."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from holdfast.errors import WorkflowUnknown
from holdfast.kernel.program import Program
from holdfast.programs.function.decorators import WORKFLOWS, Workflow
from holdfast.programs.function.named_workflows import Directory
from holdfast.runs.birth import Pin
from holdfast.store.protocol import FUNCTION, Code


class Functions:
    """The kind of programs that Python functions are. Functions that are imported later are found, too."""

    kind = FUNCTION

    def __init__(
        self, workflows: Mapping[str, Workflow[..., Any]] = WORKFLOWS, directory: Directory | None = None
    ) -> None:
        self.workflows = workflows
        self._directory = directory  # the definitions that functions can call by name

    def names(self) -> Collection[str]:
        return self.workflows

    def pin(self, name: str) -> Pin | None:
        found = self.workflows.get(name)
        return None if found is None else Pin(digest=found.digest)

    def program(self, name: str, digest: str, code: Code | None) -> Program:
        found = self.workflows.get(name)
        if found is None:
            raise WorkflowUnknown(f"the app has no workflow {name!r}: runs of it would wait for ever.")
        return found.program(None if self._directory is None else self)

    def called(self, reference: str) -> str | None:
        """What can be called by name here: a definition, or one of these functions."""
        found = None if self._directory is None else self._directory.called(reference)
        return reference if found is None and reference in self.workflows else found
