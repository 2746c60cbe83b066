"""The switchboard: which lanes an event goes to, and what a machine may ask for: by what this process's machines
declare, or by the manifest that is in force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.errors import InvalidRequest
from holdfast.programs.machine.declarations import declare, schemas_of
from holdfast.programs.machine.machine import Machine
from holdfast.programs.machine.manifest import MachineManifest, manifest_digest
from holdfast.programs.machine.routing import EventRouter
from holdfast.programs.machine.schemas import ValueSchema
from holdfast.runs.lanes import lane_of


class Switchboard:
    """Routes of machines. Machines that are imported later are found, too: the manifest is made anew then.

    With a manifest ``in_force`` that one routes, and allows effects.
    """

    def __init__(self, machines: Mapping[str, Machine[Any]], in_force: MachineManifest | None = None) -> None:
        self._machines = machines
        self._in_force = in_force
        self._changes = -1
        self._declared: MachineManifest
        self._router: EventRouter
        self._by_type: dict[Any, ValueSchema] = {}
        self._schemas: Mapping[str, ValueSchema] = {}
        self._executors: dict[str, str] = {}
        self._digest = ""

    @property
    def manifest(self) -> str:
        """The digest of the manifest by which this routes."""
        self._refresh()
        return self._digest

    @property
    def declared(self) -> MachineManifest:
        """The manifest of this process's machines."""
        self._refresh()
        return self._declared

    def allows(self, machine: str, effect: str) -> bool:
        """Whether the manifest in force lets a machine ask for an effect; what code declares lets it."""
        entry = None if self._in_force is None else self._in_force.machine(machine)
        return entry is None or effect in entry.effects

    def executor_of(self, effect: str) -> str | None:
        """Who must sign what came of an effect, by what is in force; None where nobody must."""
        self._refresh()
        return self._executors.get(effect)

    def keys_of(self, executor: str) -> frozenset[bytes]:
        """The public keys by which an executor's receipts are accepted now."""
        self._refresh()
        return (self._declared if self._in_force is None else self._in_force).keys_of(executor)

    def targets(self, schema: str, value: bytes) -> list[tuple[str, int, bytes]]:
        """Where a domain event goes, by what its schema wrote: machine, lane and key, in the manifest's order.

        Raises SchemaMismatch, and InvalidRequest where the manifest in force names a machine that is not here: how many
        lanes it has is known only to its code.
        """
        self._refresh()
        found = []
        for machine, key, _ in self._router.route(schema, value, is_own=True):
            known = self._machines.get(machine)
            if known is None:
                raise InvalidRequest(
                    f"{schema} goes to machine {machine!r}, which is not here: import the module that has it"
                )
            found.append((machine, lane_of(key, known.lanes), key))
        return found

    def lane_counts(self, machine: str) -> dict[str, int]:
        """The lanes that are declared for a machine, and for those that hear what it emits."""
        self._refresh()
        entry = self._declared.machine(machine)
        emits = () if entry is None else entry.emits
        hearers = [each.machine for each in self._declared.subscriptions if each.event in emits]
        return {name: self._machines[name].lanes for name in (machine, *hearers) if name in self._machines}

    def schema_of(self, event: Any) -> ValueSchema:
        """The schema of an event. Raises InvalidRequest where no machine here knows its type."""
        self._refresh()
        found = self._by_type.get(type(event))
        if found is None:
            known = ", ".join(sorted(each.name for each in self._by_type.values())) or "none"
            raise InvalidRequest(f"no machine here knows events of type {type(event).__name__} (they know {known})")
        return found

    def named(self, schema: str) -> ValueSchema:
        """The schema of this name. Raises InvalidRequest where there is none."""
        self._refresh()
        found = self._schemas.get(schema)
        if found is None:
            raise InvalidRequest(f"there is no schema {schema!r} in the manifest")
        return found

    def _refresh(self) -> None:
        changes = getattr(self._machines, "changes", 0)
        if changes == self._changes:
            return
        machines = tuple(self._machines.values())
        self._declared, self._schemas = declare([machine.declaration for machine in machines])
        manifest = self._declared if self._in_force is None else self._in_force
        self._router = EventRouter(manifest, schemas_of(manifest, self._schemas))
        self._by_type = {kind: schema for machine in machines for kind, schema in machine.by_type.items()}
        self._executors = {each.name: each.executor for each in manifest.effects if each.executor is not None}
        self._digest = manifest_digest(manifest)
        self._changes = changes
