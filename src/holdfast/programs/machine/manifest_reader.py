"""A manifest from a text in YAML or JSON: all that is wrong with it at once, each with its line.

What code declares can be named instead of written: a machine by its name alone, and schemas and effects not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from holdfast.errors import InvalidDefinition, InvalidManifest
from holdfast.programs.definition.compiler.faults import DefinitionFault, FaultList, Trail, and_more, shown
from holdfast.programs.definition.compiler.source_map import SourceMap
from holdfast.programs.machine.manifest import (
    EffectEntry,
    ExecutorEntry,
    MachineEntry,
    MachineManifest,
    MachineSubscription,
    ordered,
)
from holdfast.programs.machine.manifest_checks import check_manifest

_Part = TypeVar("_Part", bound=msgspec.Struct)

_SECTIONS = ("machines", "schemas", "effects", "subscriptions", "executors")


def read_manifest(text: str, declared: MachineManifest | None = None, *, file: str = "manifest") -> MachineManifest:
    """The manifest of a text. Raises InvalidManifest with all that is wrong.

    ``declared`` is what code declares: its machines, schemas and effects can be used, its subscriptions are not.
    """
    from holdfast.programs.definition.compiler.source import read_source  # YAML is loaded only where a text is read

    try:
        document, marks = read_source(text, file)
    except InvalidDefinition as error:
        raise InvalidManifest(str(error), error.faults) from None
    return read_document(document, declared, marks)


def read_document(
    document: object, declared: MachineManifest | None = None, marks: SourceMap | None = None
) -> MachineManifest:
    """The manifest of plain data. Raises InvalidManifest with all that is wrong."""
    faults = FaultList()
    manifest = _Reader(declared or MachineManifest(), faults).read(document)
    if not faults.found:  # names are looked for only in a manifest whose parts could all be read
        check_manifest(manifest, faults)
    refuse(faults, marks)
    return ordered(manifest)


def refuse(faults: FaultList, marks: SourceMap | None = None) -> None:
    """Raise InvalidManifest if anything is wrong."""
    if faults.found:
        located = sorted(map(marks.located, faults.found), key=_place) if marks is not None else faults.found
        told = and_more(located, faults.more)
        raise InvalidManifest("\n".join(map(str, told)), told)


def _place(fault: DefinitionFault) -> tuple[int, int]:
    return fault.line, fault.column


class _Reader:
    def __init__(self, declared: MachineManifest, faults: FaultList) -> None:
        self._declared = declared
        self._faults = faults

    def read(self, document: object) -> MachineManifest:
        if not isinstance(document, Mapping):
            self._faults.add((), f"a manifest is a map of {', '.join(_SECTIONS)}, and this is {shown(document)}")
            return self._declared
        for name in document:
            if name not in _SECTIONS:
                self._faults.unknown((name,), "section", name, _SECTIONS)
        return MachineManifest(
            machines=self._machines(document),
            schemas={**self._declared.schemas, **self._schemas(document.get("schemas"))},
            effects=self._effects(document),
            subscriptions=tuple(self._list(document.get("subscriptions", []), MachineSubscription, "subscriptions")),
            executors=self._executors(document),
        )

    def _machines(self, document: Mapping[str, Any]) -> tuple[MachineEntry, ...]:
        if "machines" not in document:
            return self._declared.machines
        known = {machine.name: machine for machine in self._declared.machines}
        return tuple(self._list(document["machines"], MachineEntry, "machines", known))

    def _effects(self, document: Mapping[str, Any]) -> tuple[EffectEntry, ...]:
        if "effects" not in document:
            return self._declared.effects
        known = {effect.name: effect for effect in self._declared.effects}
        written = document["effects"]
        if isinstance(written, list):
            for each in written:
                if isinstance(each, str):  # an effect is known by its name, whether code declares it here or not
                    known.setdefault(each, EffectEntry(name=each))
        return tuple(self._list(written, EffectEntry, "effects", known))

    def _executors(self, document: Mapping[str, Any]) -> tuple[ExecutorEntry, ...]:
        if "executors" not in document:
            return self._declared.executors
        known = {executor.name: executor for executor in self._declared.executors}
        return tuple(self._list(document["executors"], ExecutorEntry, "executors", known))

    def _schemas(self, written: object) -> dict[str, dict[str, Any]]:
        if written is None:
            return {}
        if not isinstance(written, Mapping):
            self._faults.add(("schemas",), f"schemas are a map of JSON Schemas by name, and this is {shown(written)}")
            return {}
        for name, schema in written.items():
            if not isinstance(schema, dict):
                self._faults.add(("schemas", name), f"a JSON Schema is a map, and this is {shown(schema)}")
        return {name: schema for name, schema in written.items() if isinstance(schema, dict)}

    def _list(
        self, written: object, kind: type[_Part], section: str, known: Mapping[str, _Part] | None = None
    ) -> list[_Part]:
        if not isinstance(written, list):
            self._faults.add((section,), f"{section} are a list, and this is {shown(written)}")
            return []
        found = []
        for at, data in enumerate(written):
            part = self._named(data, known, (section, at)) if isinstance(data, str) else None
            if not isinstance(data, str):
                part = self._part(data, kind, (section, at))
            if part is not None:
                found.append(part)
        return found

    def _named(self, name: str, known: Mapping[str, _Part] | None, trail: Trail) -> _Part | None:
        part = (known or {}).get(name)
        if part is None:
            self._faults.add(
                trail, f"{name!r} is declared by no code{self._faults.nearest(name, known or {})}: write it out"
            )
        return part

    def _part(self, data: object, kind: type[_Part], trail: Trail) -> _Part | None:
        """A struct of plain data; None where anything in it is wrong."""
        if not isinstance(data, Mapping):
            self._faults.add(trail, f"it is a map, and this is {shown(data)}")
            return None
        before, values = self._faults.count, dict[str, Any]()
        fields = {field.name: field for field in msgspec.structs.fields(kind)}
        for name in data:
            if name not in fields:
                self._faults.unknown((*trail, name), "member", name, fields)
        for name, field in fields.items():
            if name in data:
                values[name] = self._member(data[name], field.type, (*trail, name))
            elif field.required:
                self._faults.add(trail, f"{name!r} is missing")
        return kind(**values) if self._faults.count == before else None

    def _member(self, data: object, kind: Any, trail: Trail) -> Any:
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return self._part(data, kind, trail)
        try:
            return msgspec.convert(data, kind)
        except msgspec.ValidationError as error:
            self._faults.add(trail, f"{str(error).partition(' - at ')[0]}, and this is {shown(data)}")
            return None
