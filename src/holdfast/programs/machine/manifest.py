"""The manifest: which machines there are, of which schemas, with which effects, and who hears which event.

It is data, named by its content: equal manifests have equal bytes and one digest. The order of subscriptions is kept,
since events are delivered in it; machines and effects are in the order of their names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidManifest
from holdfast.journal import cbor

_FORMAT: Final = 1

MOST_EFFECTS: Final = 64
MOST_EVENTS: Final = 256
MOST_OUTPUT_BYTES: Final = 1024 * 1024


class MachineLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much a machine may ask for while it handles one event."""

    effects: int = MOST_EFFECTS
    events: int = MOST_EVENTS
    output_bytes: int = MOST_OUTPUT_BYTES


class MachineEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A machine. ``state``, ``events``, ``key``, ``emits``, ``context`` and ``annotations`` are names of schemas;
    ``events`` are the arms of what it hears. Without a ``key`` it has one instance. ``hash`` is that of its code."""

    name: str
    state: str
    events: tuple[str, ...]
    version: int = 1
    key: str | None = None
    effects: tuple[str, ...] = ()
    emits: tuple[str, ...] = ()
    context: str | None = None
    annotations: str | None = None
    implementation: str = ""
    limits: MachineLimits = MachineLimits()
    hash: str = ""


class EffectEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An effect that machines may ask for. ``params`` and ``result`` are names of schemas. Where it has an
    ``executor``, that one signs what came of it."""

    name: str
    params: str | None = None
    result: str | None = None
    executor: str | None = None


class ExecutorEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who carries out effects, and signs what came of them. ``keys`` are the public halves of its Ed25519 keys, in
    hexadecimal: what any of them signed is its own."""

    name: str
    keys: tuple[str, ...]


class MachineSubscription(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A machine hears an event. ``key_field`` says where in the event the key of the cell stands."""

    event: str
    machine: str
    key_field: str | None = None


class MachineManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All machines of an application. ``schemas`` are JSON Schemas by name."""

    machines: tuple[MachineEntry, ...] = ()
    schemas: Mapping[str, dict[str, Any]] = {}
    effects: tuple[EffectEntry, ...] = ()
    subscriptions: tuple[MachineSubscription, ...] = ()
    executors: tuple[ExecutorEntry, ...] = ()

    def keys_of(self, executor: str) -> frozenset[bytes]:
        """The public keys of an executor; none where the manifest does not know it."""
        found = (key for each in self.executors if each.name == executor for key in each.keys)
        return frozenset(map(bytes.fromhex, found))

    def machine(self, name: str) -> MachineEntry | None:
        """The machine of a name."""
        return next((machine for machine in self.machines if machine.name == name), None)


def ordered(manifest: MachineManifest) -> MachineManifest:
    """The manifest with its machines, effects and schemas in the order of their names."""
    return msgspec.structs.replace(
        manifest,
        machines=tuple(sorted(manifest.machines, key=lambda machine: machine.name)),
        effects=tuple(sorted(manifest.effects, key=lambda effect: effect.name)),
        executors=tuple(sorted(manifest.executors, key=lambda executor: executor.name)),
        schemas=dict(sorted(manifest.schemas.items())),
    )


def encode_manifest(manifest: MachineManifest) -> bytes:
    """The manifest's bytes: canonical CBOR."""
    form = msgspec.to_builtins(ordered(manifest))
    if not form["executors"]:  # without any, the bytes are those of manifests that know none
        del form["executors"]
    for effect in form["effects"]:
        if effect["executor"] is None:
            del effect["executor"]
    return cbor.canonical([_FORMAT, form])


def decode_manifest(data: bytes) -> MachineManifest:
    """The manifest of these bytes. Raises InvalidManifest for any that ``encode_manifest`` would not write."""
    try:
        form = cbor.read(data)
        if not isinstance(form, list) or len(form) != 2 or form[0] != _FORMAT:
            raise ValueError(f"it is not of format {_FORMAT}")
        manifest = msgspec.convert(form[1], MachineManifest)
        if encode_manifest(manifest) != data:
            raise ValueError("a member is missing or out of order")
    except ValueError as error:
        raise InvalidManifest(
            f"the bytes of a manifest cannot be read: {error}. They were damaged, or a newer Holdfast wrote them: "
            "apply the manifest again, or upgrade."
        ) from error
    return manifest


def manifest_digest(manifest: MachineManifest) -> str:
    """The name of a manifest: the SHA-256 of its bytes, in hexadecimal."""
    return hashlib.sha256(encode_manifest(manifest)).hexdigest()
