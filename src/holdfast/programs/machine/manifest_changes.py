"""Two manifests beside each other: what differs, for which machines, and whether code is that of a manifest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from holdfast.programs.machine.manifest import MachineEntry, MachineManifest

MachineChangeKind = Literal["added", "removed", "changed"]

_PINNED: Final = ("version", "state", "events", "key", "emits", "context", "annotations")
_OTHERS: Final = ("effects", "limits", "hash")


class MachineChange(msgspec.Struct, frozen=True):
    """A machine that another manifest adds, removes or changes. ``parts`` are the members that differ: ``hash`` is its
    code, ``subscriptions`` what it hears by which key, ``schemas`` the types behind the names. The allowlist is what it
    may ask for: ``allowed`` are the effects that are new in it, ``forbidden`` those that are gone. ``executors`` is who
    signs what came of its effects, with which keys."""

    machine: str
    kind: MachineChangeKind
    parts: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()


def changes(before: MachineManifest | None, after: MachineManifest) -> list[MachineChange]:
    """What another manifest changes, machine by machine, in the order of their names."""
    base = before or MachineManifest()
    names = sorted({machine.name for machine in (*base.machines, *after.machines)})
    found = (_change(base, after, name) for name in names)
    return [each for each in found if each is not None]


def misfit(in_force: MachineManifest, declared: MachineManifest, machine: str) -> str | None:
    """Why code that declares this is not the code of the manifest in force; None where it is.

    The manifest may allow a machine fewer effects than its code declares, may limit it otherwise, and may route other
    events to it. A machine without a hash in the manifest is not bound to one version of its code.
    """
    wanted, given = in_force.machine(machine), declared.machine(machine)
    if wanted is None:
        return f"machine {machine} is not in the manifest in force"
    if given is None:
        return f"machine {machine} is not in this code"
    parts = [part for part in _PINNED if getattr(wanted, part) != getattr(given, part)]
    if wanted.hash and wanted.hash != given.hash:
        parts.append("code")
    if _schemas(in_force, wanted) != _schemas(declared, given):
        parts.append("schemas")
    return f"machine {machine} has another {_listed(parts)} in the manifest in force" if parts else None


def merged(in_force: MachineManifest, declared: MachineManifest) -> MachineManifest:
    """The manifest in force, with the machines of this code as they are declared. Others stay as they are."""
    own = {machine.name for machine in declared.machines}
    effects = {effect.name: effect for effect in (*in_force.effects, *declared.effects)}
    others = tuple(machine for machine in in_force.machines if machine.name not in own)
    used = {name for machine in others for name in _names(machine)}
    kept = {name: schema for name, schema in in_force.schemas.items() if name in used}
    machines = (*others, *declared.machines)
    asked = {name for machine in machines for name in machine.effects}
    executors = {executor.name: executor for executor in (*in_force.executors, *declared.executors)}
    signing = {effects[name].executor for name in asked if name in effects}
    return MachineManifest(
        machines=machines,
        schemas={**kept, **declared.schemas},
        effects=tuple(effect for name, effect in effects.items() if name in asked),
        subscriptions=(*(each for each in in_force.subscriptions if each.machine not in own), *declared.subscriptions),
        executors=tuple(executor for name, executor in executors.items() if name in signing),
    )


def _change(before: MachineManifest, after: MachineManifest, name: str) -> MachineChange | None:
    old, new = before.machine(name), after.machine(name)
    if old is None:
        return MachineChange(name, "added", (), () if new is None else new.effects)
    if new is None:
        return MachineChange(name, "removed", (), (), old.effects)
    parts = [part for part in (*_PINNED, *_OTHERS) if getattr(old, part) != getattr(new, part)]
    if _schemas(before, old) != _schemas(after, new):
        parts.append("schemas")
    if _heard(before, name) != _heard(after, name):
        parts.append("subscriptions")
    if _signers(before, old) != _signers(after, new):
        parts.append("executors")
    if not parts:
        return None
    allowed = tuple(each for each in new.effects if each not in old.effects)
    forbidden = tuple(each for each in old.effects if each not in new.effects)
    return MachineChange(name, "changed", tuple(parts), allowed, forbidden)


def _names(machine: MachineEntry) -> Iterator[str]:
    for name in (machine.state, machine.key, machine.context, machine.annotations, *machine.events, *machine.emits):
        if name is not None:
            yield name


def _schemas(manifest: MachineManifest, machine: MachineEntry) -> Mapping[str, Any]:
    return {name: manifest.schemas[name] for name in _names(machine) if name in manifest.schemas}


def _heard(manifest: MachineManifest, machine: str) -> list[tuple[str, str | None]]:
    return [(each.event, each.key_field) for each in manifest.subscriptions if each.machine == machine]


def _signers(manifest: MachineManifest, machine: MachineEntry) -> Mapping[str, tuple[str, frozenset[bytes]]]:
    """Who signs what came of the effects of a machine, with which keys."""
    named = {each.name: each.executor for each in manifest.effects if each.executor is not None}
    return {name: (named[name], manifest.keys_of(named[name])) for name in machine.effects if name in named}


def _listed(parts: Iterable[str]) -> str:
    return ", ".join(parts)
