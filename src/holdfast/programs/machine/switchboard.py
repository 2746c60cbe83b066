"""The switchboard: which lanes an event goes to, by the manifest of this process's machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.errors import InvalidRequest
from holdfast.programs.machine.declarations import declare
from holdfast.programs.machine.machine import Machine
from holdfast.programs.machine.manifest import MachineManifest, manifest_digest
from holdfast.programs.machine.routing import EventRouter
from holdfast.programs.machine.schemas import ValueSchema
from holdfast.runs.lanes import LaneMessage, lane_of


class Switchboard:
    """Routes of machines. Machines that are imported later are found, too: the manifest is made anew then."""

    def __init__(self, machines: Mapping[str, Machine[Any]]) -> None:
        self._machines = machines
        self._changes = -1
        self._declared: MachineManifest
        self._router: EventRouter
        self._by_type: dict[Any, ValueSchema] = {}
        self._schemas: Mapping[str, ValueSchema] = {}
        self._digest = ""
        self._born: set[tuple[str, int]] = set()

    @property
    def manifest(self) -> str:
        """The digest of the manifest."""
        self._refresh()
        return self._digest

    @property
    def declared(self) -> MachineManifest:
        """The manifest."""
        self._refresh()
        return self._declared

    def targets(self, schema: str, value: bytes) -> list[tuple[str, int, bytes]]:
        """Where a domain event goes: machine, lane and key, in the manifest's order. Raises SchemaMismatch."""
        self._refresh()
        found = self._router.route(schema, value)
        return [(each.machine, lane_of(each.key, self._machines[each.machine].lanes), each.key) for each in found]

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

    def unborn(self, messages: Sequence[LaneMessage]) -> tuple[tuple[str, int], ...]:
        """The lanes of these messages of which nobody here has seen that they have begun."""
        found = dict.fromkeys((each.machine, each.lane) for each in messages)
        return tuple(each for each in found if each not in self._born)

    def born(self, lane: tuple[str, int]) -> None:
        """This lane has begun."""
        self._born.add(lane)

    def _refresh(self) -> None:
        changes = getattr(self._machines, "changes", 0)
        if changes == self._changes:
            return
        machines = tuple(self._machines.values())
        self._declared, self._schemas = declare([machine.declaration for machine in machines])
        self._router = EventRouter(self._declared, self._schemas)
        self._by_type = {kind: schema for machine in machines for kind, schema in machine.by_type.items()}
        self._digest = manifest_digest(self._declared)
        self._changes = changes
