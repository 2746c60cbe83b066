"""What the machines of this process declare together, kept up to date while modules are imported.

Two machines may not fit together: two types have one name of a schema, or two effects one name. Where that is so from
the beginning, nothing can be used. Where a module that is imported later brings it, what was declared before goes on as
it was, and only the machines that came with it, or were replaced, are refused: their lanes say why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.errors import AuthorError
from holdfast.programs.machine.declarations import declare
from holdfast.programs.machine.machine import MACHINES, Machine
from holdfast.programs.machine.manifest import MachineManifest
from holdfast.programs.machine.schemas import ValueSchema


class MachineCode:
    """The declarations of these machines. All that is asked of it may raise what ``check`` raises."""

    def __init__(self, machines: Mapping[str, Machine[Any]]) -> None:
        self.machines = machines
        self._seen: int | None = None
        self._trouble: AuthorError | None = None
        self._fitting: dict[str, Machine[Any]] | None = None  # the machines that are in the manifest
        self._manifest: MachineManifest
        self._schemas: Mapping[str, ValueSchema] = {}
        self._by_type: dict[Any, ValueSchema] = {}

    def check(self) -> None:
        """Raises DuplicateName, InvalidManifest or InvalidFunction where not all machines fit together."""
        self._refresh()
        if self._trouble is not None:
            raise self._trouble

    @property
    def manifest(self) -> MachineManifest:
        """The manifest of the machines that fit together."""
        self._refresh()
        return self._manifest

    @property
    def schemas(self) -> Mapping[str, ValueSchema]:
        """Their schemas by name."""
        self._refresh()
        return self._schemas

    @property
    def by_type(self) -> Mapping[Any, ValueSchema]:
        """The schemas of their events by type."""
        self._refresh()
        return self._by_type

    def refused(self) -> dict[str, str]:
        """The machines that cannot be used, each with the reason."""
        self._refresh()
        if self._trouble is None or self._fitting is None:
            return {}
        known = self._fitting
        return {name: str(self._trouble) for name, each in self.machines.items() if known.get(name) is not each}

    def _refresh(self) -> None:
        changes = getattr(self.machines, "changes", 0)
        if changes == self._seen:
            return
        machines = dict(self.machines)
        try:
            manifest, schemas = declare([machine.declaration for machine in machines.values()])
        except AuthorError as error:
            if self._fitting is None:
                raise
            self._trouble = error
        else:
            self._manifest, self._schemas, self._trouble, self._fitting = manifest, schemas, None, machines
            self._by_type = {kind: schema for each in machines.values() for kind, schema in each.by_type.items()}
        self._seen = changes


IMPORTED: Final = MachineCode(MACHINES)
"""All that is imported: it is the same for all engines of a process, so it is made once for all of them."""
