"""The switchboard: which lanes an event goes to, and what a machine may ask for: by what this process's machines
declare, or by the manifest that is in force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.errors import InvalidRequest
from holdfast.programs.machine.declarations import schemas_of
from holdfast.programs.machine.machine import Machine
from holdfast.programs.machine.machine_code import MachineCode
from holdfast.programs.machine.manifest import MachineManifest, manifest_digest
from holdfast.programs.machine.routing import EventRouter
from holdfast.programs.machine.schemas import ValueSchema
from holdfast.runs.lanes import lane_of


class Switchboard:
    """Routes of machines. Machines that are imported later are found, too: the routes are made anew then.

    With a manifest ``in_force`` that one routes, and allows effects. ``code`` is what the machines declare, where
    somebody has it already.
    """

    def __init__(
        self,
        machines: Mapping[str, Machine[Any]],
        in_force: MachineManifest | None = None,
        code: MachineCode | None = None,
    ) -> None:
        self._machines = machines
        self._in_force = in_force
        self.code = code or MachineCode(machines)
        self._made_from: MachineManifest | None = None
        self._router: EventRouter
        self._executors: dict[str, str] = {}
        self._digest = ""

    @property
    def manifest(self) -> str:
        """The digest of the manifest by which this routes."""
        self._refresh()
        return self._digest

    @property
    def declared(self) -> MachineManifest:
        """The manifest of all machines of this process. Raises as ``MachineCode.check``."""
        self.code.check()
        return self.code.manifest

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
        return (self._in_force or self.code.manifest).keys_of(executor)

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
        declared = self.code.manifest
        entry = declared.machine(machine)
        emits = () if entry is None else entry.emits
        hearers = [each.machine for each in declared.subscriptions if each.event in emits]
        return {name: self._machines[name].lanes for name in (machine, *hearers) if name in self._machines}

    def schema_of(self, event: Any) -> ValueSchema:
        """The schema of an event. Raises InvalidRequest where no machine here knows its type, and as
        ``MachineCode.check`` where its machine may be one that does not fit the others."""
        by_type = self.code.by_type
        found = by_type.get(type(event))
        if found is None:
            self.code.check()
            known = ", ".join(sorted(each.name for each in by_type.values())) or "none"
            raise InvalidRequest(f"no machine here knows events of type {type(event).__name__} (they know {known})")
        return found

    def named(self, schema: str) -> ValueSchema:
        """The schema of this name. Raises InvalidRequest where there is none, and as ``MachineCode.check`` where it may
        be that of a machine that does not fit the others."""
        found = self.code.schemas.get(schema)
        if found is None:
            self.code.check()
            raise InvalidRequest(f"there is no schema {schema!r} in the manifest")
        return found

    def _refresh(self) -> None:
        declared = self.code.manifest
        if declared is self._made_from:
            return
        manifest = self._in_force or declared
        self._router = EventRouter(manifest, schemas_of(manifest, self.code.schemas))
        self._executors = {each.name: each.executor for each in manifest.effects if each.executor is not None}
        self._digest = manifest_digest(manifest)
        self._made_from = declared
