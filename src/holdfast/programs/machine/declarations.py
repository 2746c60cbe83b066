"""A manifest from what code declares: types become named schemas, and events that a machine takes subscriptions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, get_type_hints

import msgspec

from holdfast.errors import DuplicateName, InvalidFunction
from holdfast.programs.definition.compiler.faults import FaultList
from holdfast.programs.machine.key_fields import KeyPath, path_of
from holdfast.programs.machine.manifest import (
    EffectEntry,
    ExecutorEntry,
    MachineEntry,
    MachineLimits,
    MachineManifest,
    MachineSubscription,
    ordered,
)
from holdfast.programs.machine.manifest_checks import check_manifest
from holdfast.programs.machine.manifest_reader import refuse
from holdfast.programs.machine.occurrences import ENGINE_SCHEMAS
from holdfast.programs.machine.schemas import SYSTEM, SchemaName, ValueSchema, arms_of, name_of, parse_name


class MachineDeclaration(msgspec.Struct, frozen=True, kw_only=True):
    """A machine as code declares it, by types.

    ``key`` is the field that has the key in every event; or a map from types of events to fields, and then other
    events are not routed to the machine: it can only send them to itself. What is in the namespace ``sys`` comes from
    the engine and is never routed.
    """

    name: str
    state: Any
    events: tuple[Any, ...]
    version: int = 1
    key: str | Mapping[Any, str] | None = None
    effects: tuple[EffectEntry, ...] = ()
    executors: tuple[ExecutorEntry, ...] = ()
    emits: tuple[Any, ...] = ()
    context: Any = None
    annotations: Any = None
    implementation: str = ""
    limits: MachineLimits = MachineLimits()
    hash: str = ""


class DeclaredMachines(NamedTuple):
    """What code declares: the manifest, and the types behind its schemas."""

    manifest: MachineManifest
    schemas: dict[str, ValueSchema]


def declare(declarations: Iterable[MachineDeclaration]) -> DeclaredMachines:
    """The manifest of these machines, in their order. Raises InvalidManifest, InvalidFunction or DuplicateName."""
    table = _SchemaTable()
    machines, subscriptions, effects = list[MachineEntry](), list[MachineSubscription](), dict[str, EffectEntry]()
    executors = dict[str, ExecutorEntry]()
    for each in declarations:
        machines.append(_entry(each, table))
        subscriptions += _subscriptions(each)
        for effect in each.effects:
            if effects.setdefault(effect.name, effect) != effect:
                raise DuplicateName(f"two effects are called {effect.name!r}: rename one with name=.")
        for executor in each.executors:
            if executors.setdefault(executor.name, executor) != executor:
                raise DuplicateName(f"executor {executor.name!r} has other keys in two machines: give it the same.")
    manifest = MachineManifest(
        machines=tuple(machines),
        schemas={name: found.json_schema for name, found in table.schemas.items() if not _is_system(name)},
        effects=tuple(effects.values()),
        subscriptions=tuple(subscriptions),
        executors=tuple(executors.values()),
    )
    faults = FaultList()
    check_manifest(manifest, faults)
    refuse(faults)
    return DeclaredMachines(ordered(manifest), table.schemas)


def schemas_of(manifest: MachineManifest, declared: Mapping[str, ValueSchema]) -> dict[str, ValueSchema]:
    """The schemas of a manifest: by the types of code where they are the same, else as they are written.

    Raises InvalidManifest for one that is no JSON Schema.
    """
    found, faults = dict(declared), FaultList()
    for name, written in manifest.schemas.items():
        if name not in declared or declared[name].json_schema != written:
            try:
                found[name] = ValueSchema(Any, name, written)
            except ValueError as error:
                faults.add(("schemas", name), f"{name} is no JSON Schema: {error}")
    refuse(faults)
    return found


class _SchemaTable:
    """The schemas of all types that are used."""

    def __init__(self) -> None:
        self.schemas: dict[str, ValueSchema] = {}

    def add(self, kind: Any) -> str:
        name = name_of(kind)
        if name in ENGINE_SCHEMAS:  # the engine makes these, and nobody sends them
            return name
        found = self.schemas.get(name)
        if found is None:
            self.schemas[name] = ValueSchema(kind)
        elif found.kind is not kind:
            raise _same_name(name, found.kind, kind)
        return name

    def add_optional(self, kind: Any) -> str | None:
        return None if kind is None else self.add(kind)


def _same_name(name: str, one: Any, other: Any) -> DuplicateName:
    first, second = (f"{each.__module__}.{each.__qualname__}" for each in (one, other))
    if first == second:
        return DuplicateName(
            f"{first} was defined twice, and machines use both as the schema {name}: define it once, in a module that "
            "all its machines import; in a notebook, run the cells of all its machines again."
        )
    free = SchemaName("ns", *parse_name(name)[1:])
    return DuplicateName(
        f"{first} and {second} are both the schema {name}: give one of them a name of its own, such as "
        f'@schema("{free}"), with your own namespace for ns.'
    )


def _is_system(name: str) -> bool:
    return name.startswith(f"{SYSTEM}/")


def _entry(declared: MachineDeclaration, table: _SchemaTable) -> MachineEntry:
    return MachineEntry(
        name=declared.name,
        version=declared.version,
        state=table.add(declared.state),
        events=tuple(map(table.add, declared.events)),
        key=None if declared.key is None else table.add(_key_kind(declared)),
        effects=tuple(effect.name for effect in declared.effects),
        emits=tuple(map(table.add, declared.emits)),
        context=table.add_optional(declared.context),
        annotations=table.add_optional(declared.annotations),
        implementation=declared.implementation,
        limits=declared.limits,
        hash=declared.hash,
    )


def _routed(declared: MachineDeclaration) -> Iterator[tuple[Any, str | None]]:
    """The events that are routed to a machine, each with its key field."""
    for event in declared.events:
        if _is_system(name_of(event)):
            continue
        if not isinstance(declared.key, Mapping):
            yield event, declared.key
        elif event in declared.key:
            yield event, declared.key[event]


def _subscriptions(declared: MachineDeclaration) -> list[MachineSubscription]:
    if isinstance(declared.key, Mapping):
        for event in declared.key:
            if event not in declared.events:
                raise InvalidFunction(
                    f"machine {declared.name!r} has a key for {event!r}, which it does not take: add it to the "
                    "annotation of its event, or leave its key out."
                )
    return [
        MachineSubscription(event=name_of(event), machine=declared.name, key_field=field)
        for event, field in _routed(declared)
    ]


def _key_kind(declared: MachineDeclaration) -> Any:
    """The one type that the key has in all events."""
    found: dict[Any, str] = {}
    for event, field in _routed(declared):
        try:
            path = path_of(field or "")
        except ValueError as error:
            raise InvalidFunction(f"machine {declared.name!r}: {error}.") from error
        for kind in _kinds_at(event, path):
            found.setdefault(kind, f"{kind!r} in {name_of(event)}")
    if len(found) > 1:
        raise InvalidFunction(
            f"the key of machine {declared.name!r} is {' and '.join(found.values())}: give it one type in all events."
        )
    return next(iter(found), str)  # a field that no event has is found by the check of the manifest


def _kinds_at(kind: Any, path: KeyPath) -> tuple[Any, ...]:
    """The types at a path, without None; nothing where there is no such field, or its type is not known."""
    kinds: tuple[Any, ...] = (kind,)
    for name in path:
        hints = (_hints(each).get(name) for each in kinds)
        kinds = tuple(arm for hint in hints if hint is not None for arm in arms_of(hint))
    return kinds


def _hints(kind: Any) -> dict[str, Any]:
    try:
        return get_type_hints(kind)
    except Exception as error:
        raise InvalidFunction(
            f"the annotations of {kind!r} cannot be resolved ({error}): define or import every name they use at module "
            "level, outside TYPE_CHECKING."
        ) from error
