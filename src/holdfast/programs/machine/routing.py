"""Routing: which cells hear an event. The manifest's order is the order of deliveries.

An event is delivered for each subscription of its schema, to the cell whose key stands in the event. Receipts are not
routed: they return to whoever asked for the effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from holdfast.errors import SchemaMismatch
from holdfast.journal import cbor
from holdfast.programs.machine.key_fields import KeyPath, NoKey, key_in, path_of
from holdfast.programs.machine.manifest import MachineManifest
from holdfast.programs.machine.schemas import ValueSchema, parse_name, scalar_schemas

UNKEYED: Final = b""
"""The key of the one instance of a machine without keys. No canonical CBOR is empty, so it is nobody else's."""

LONGEST_KEY_BYTES: Final = 1024


class CellDelivery(NamedTuple):
    """An event for a cell: the machine, the cell's key as canonical CBOR, and the arm of the machine's events."""

    machine: str
    key: bytes
    arm: str


class _Way(NamedTuple):
    machine: str
    path: KeyPath
    key: ValueSchema | None


class EventRouter:
    """The subscriptions of a manifest that was checked."""

    def __init__(self, manifest: MachineManifest, schemas: Mapping[str, ValueSchema]) -> None:
        self._known = frozenset(manifest.schemas)
        self._ways: dict[str, list[_Way]] = {}
        keys = {**scalar_schemas(), **schemas}
        machines = {machine.name: machine for machine in manifest.machines}
        for each in manifest.subscriptions:
            key = machines[each.machine].key
            way = _Way(each.machine, (), None)
            if key is not None and each.key_field is not None:
                way = _Way(each.machine, path_of(each.key_field), keys[key])
            self._ways.setdefault(each.event, []).append(way)

    def route(self, event: str, value: bytes, *, is_own: bool = False) -> list[CellDelivery]:
        """The deliveries of an event whose value is canonical CBOR of its schema; none where nobody subscribes to it.

        A cell hears an event once, even where two subscriptions lead to it. Raises SchemaMismatch for an event of no
        schema, without its key, or with a key of another type, and for bytes that are not canonical. Those that this
        process wrote itself, by the schema, ``is_own``: they are not looked at for that.
        """
        ways = self._ways.get(event)
        if ways is None:
            if event not in self._known:
                raise self._unknown(event)
            return []
        plain = _plain(event, value, is_own) if any(way.path for way in ways) else None
        return list(dict.fromkeys(CellDelivery(way.machine, _key(event, plain, way), event) for way in ways))

    def _unknown(self, event: str) -> SchemaMismatch:
        others = sorted(name for name in self._known if _unversioned(name) == _unversioned(event))
        hint = f"There is {' and '.join(others)}: emit that, or declare both" if others else "Declare it in a machine"
        return SchemaMismatch(f"{event}: there is no schema of that name in the manifest. {hint}.")


def _unversioned(name: str) -> tuple[str, ...]:
    try:
        return parse_name(name)[:2]
    except ValueError:
        return (name,)


def _plain(event: str, value: bytes, is_own: bool) -> object:
    try:
        return cbor.parse(value) if is_own else cbor.read(value)
    except cbor.NotCanonical as error:
        raise SchemaMismatch(f"{event}: the value cannot be read: {error}: send canonical CBOR.") from error


def _key(event: str, plain: object, way: _Way) -> bytes:
    if way.key is None:
        return UNKEYED
    field = ".".join(way.path)
    try:
        found = key_in(plain, way.path)
        key = cbor.canonical(found)
    except NoKey as error:
        raise SchemaMismatch(
            f"{event}: it has no key for machine {way.machine!r}: {error}: give it a value.", error.field
        ) from error
    try:
        way.key.check(found, key)
    except SchemaMismatch as error:
        raise SchemaMismatch(f"{event}: {field!r} is no key of machine {way.machine!r}: {error}", field) from error
    if len(key) > LONGEST_KEY_BYTES:
        raise SchemaMismatch(
            f"{event}: the key {field!r} of machine {way.machine!r} has {len(key):,} bytes, and the limit is "
            f"{LONGEST_KEY_BYTES:,}: use a shorter one, such as a digest.",
            field,
        )
    return key
