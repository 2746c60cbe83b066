"""The switchboard: which lanes an event goes to, by the machines of this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.errors import InvalidRequest
from holdfast.programs.machine.machine import Machine
from holdfast.runs.lanes import LaneMessage, lane_of


class Switchboard:
    """Routes of the machines that are in force. ``manifest`` is the digest of what is."""

    def __init__(self, machines: Mapping[str, Machine[Any]], manifest: str = "") -> None:
        self.manifest = manifest
        self._machines = machines
        self._born: set[tuple[str, int]] = set()

    def targets(self, schema: str, event: Any) -> list[tuple[str, int, bytes]]:
        """Where a domain event goes: machine, lane and key, in the manifest's order."""
        found = []
        for machine in self._machines.values():
            if schema in machine.events:
                key = b"" if machine.key_schema is None else machine.key_schema.encode(machine.key_of(event))
                found.append((machine.name, lane_of(key, machine.lanes), key))
        return found

    def schema_of(self, event: Any) -> str | None:
        """The name under which some machine hears events of this type; None where none does."""
        for machine in self._machines.values():
            if (schema := machine.by_type.get(type(event))) is not None:
                return schema.name
        return None

    def heard(self) -> set[str]:
        """The names of all events that some machine hears."""
        return {schema for machine in self._machines.values() for schema in machine.events}

    def encode(self, schema: str, event: Any) -> bytes:
        """The event as bytes. Raises SchemaMismatch."""
        for machine in self._machines.values():
            if (known := machine.by_type.get(type(event))) is not None and known.name == schema:
                return known.encode(event)
        raise InvalidRequest(f"no machine here knows the schema {schema}")

    def unborn(self, messages: Sequence[LaneMessage]) -> tuple[tuple[str, int], ...]:
        """The lanes of these messages of which nobody here has seen that they have begun. From now on they count as
        begun: whoever asks starts them."""
        found = tuple(dict.fromkeys((each.machine, each.lane) for each in messages))
        return tuple(each for each in found if each not in self._born)

    def born(self, lane: tuple[str, int]) -> None:
        """This lane has begun."""
        self._born.add(lane)
