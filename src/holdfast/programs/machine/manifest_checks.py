"""What a manifest must be: every name in it is known, and every subscription can be delivered. All faults at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from holdfast.journal.receipt_signatures import EXECUTOR
from holdfast.programs.definition.compiler.faults import FaultList, Trail
from holdfast.programs.machine.key_fields import NoKey, fits, path_of, schema_at
from holdfast.programs.machine.manifest import ExecutorEntry, MachineEntry, MachineManifest, MachineSubscription
from holdfast.programs.machine.schemas import SYSTEM, parse_name, scalar_schemas

_KEY: Final = re.compile(r"[0-9a-f]{64}")


def check_manifest(manifest: MachineManifest, faults: FaultList) -> None:
    """Note all that is wrong. The trails are of the manifest as it is given: it is put in order afterwards."""
    _Checks(manifest, faults).run()


class _Checks:
    def __init__(self, manifest: MachineManifest, faults: FaultList) -> None:
        self._manifest = manifest
        self._faults = faults
        self._scalars = {name: schema.json_schema for name, schema in scalar_schemas().items()}
        self._machines = {machine.name: machine for machine in manifest.machines}
        self._effects = {effect.name for effect in manifest.effects}
        self._executors = {executor.name for executor in manifest.executors}

    def run(self) -> None:
        manifest = self._manifest
        for name in manifest.schemas:
            self._check_schema_name(name, ("schemas", name))
        self._once("machine", "machines", [machine.name for machine in manifest.machines])
        self._once("effect", "effects", [effect.name for effect in manifest.effects])
        self._once("executor", "executors", [executor.name for executor in manifest.executors])
        for at, machine in enumerate(manifest.machines):
            self._check_machine(machine, ("machines", at))
        for at, effect in enumerate(manifest.effects):
            self._check_known(effect.params, ("effects", at, "params"))
            self._check_known(effect.result, ("effects", at, "result"))
            if effect.executor is not None and effect.executor not in self._executors:
                self._faults.unknown(("effects", at, "executor"), "executor", effect.executor, self._executors)
        for at, executor in enumerate(manifest.executors):
            self._check_executor(executor, ("executors", at))
        for at, subscription in enumerate(manifest.subscriptions):
            self._check_subscription(subscription, ("subscriptions", at))
        self._check_repetitions()

    def _check_schema_name(self, name: str, trail: Trail) -> None:
        try:
            space = parse_name(name).space
        except ValueError as error:
            self._faults.add(trail, str(error))
            return
        if space == SYSTEM:
            self._faults.add(trail, f"{name}: the namespace {SYSTEM!r} is the engine's: choose another")

    def _once(self, what: str, section: str, names: list[str]) -> None:
        before = set[str]()
        for at, name in enumerate(names):
            if not name:
                self._faults.add((section, at), f"a {what} has a name")
            elif name in before:
                self._faults.add((section, at), f"two {section} are called {name!r}: rename one")
            before.add(name)

    def _check_machine(self, machine: MachineEntry, trail: Trail) -> None:
        for member, name in _schemas_of(machine):
            self._check_known(name, (*trail, *member))
        if machine.key is not None and machine.key.startswith(f"{SYSTEM}/") and machine.key not in self._scalars:
            self._faults.unknown((*trail, "key"), "schema", machine.key, self._scalars)
        if not machine.events:
            self._faults.add((*trail, "events"), f"machine {machine.name!r} hears no event: give it one")
        for at, name in enumerate(machine.effects):
            if name not in self._effects:
                self._faults.unknown((*trail, "effects", at), "effect", name, self._effects)
        if machine.version < 1:
            self._faults.add((*trail, "version"), f"a version is 1 or more, and this is {machine.version}")
        for limit, value in msgspec.structs.asdict(machine.limits).items():
            if value < 1:
                self._faults.add((*trail, "limits", limit), f"a limit is 1 or more, and this is {value}")

    def _check_executor(self, executor: ExecutorEntry, trail: Trail) -> None:
        if not EXECUTOR.fullmatch(executor.name):
            self._faults.add((*trail, "name"), f"an executor's name has letters, digits, . _ and -: {executor.name!r}")
        if not executor.keys:
            self._faults.add((*trail, "keys"), f"executor {executor.name!r} has no key: give it one")
        for at, key in enumerate(executor.keys):
            if not _KEY.fullmatch(key):
                self._faults.add((*trail, "keys", at), "a public key is 32 bytes in lower-case hexadecimal")

    def _check_known(self, name: str | None, trail: Trail) -> None:
        """A schema that is used is declared, or the engine's own."""
        if name is not None and name not in self._manifest.schemas and not name.startswith(f"{SYSTEM}/"):
            self._faults.unknown(trail, "schema", name, self._manifest.schemas)

    def _check_subscription(self, subscription: MachineSubscription, trail: Trail) -> None:
        event, machine = subscription.event, self._machines.get(subscription.machine)
        if event not in self._manifest.schemas:
            self._faults.unknown((*trail, "event"), "schema", event, self._manifest.schemas)
        if machine is None:
            self._faults.unknown((*trail, "machine"), "machine", subscription.machine, self._machines)
            return
        if event in self._manifest.schemas and event not in machine.events:
            arms = ", ".join(machine.events) or "nothing"
            self._faults.add(
                (*trail, "event"),
                f"machine {machine.name!r} does not take {event}: add it to its events, which are {arms}",
            )
        self._check_key(subscription, machine, trail)

    def _check_key(self, subscription: MachineSubscription, machine: MachineEntry, trail: Trail) -> None:
        place, field = (*trail, "key_field"), subscription.key_field
        if field is None or machine.key is None:
            if field is not None:
                self._faults.add(place, f"machine {machine.name!r} has no key: leave key_field out, or give it a key")
            elif machine.key is not None:
                self._faults.add(trail, f"machine {machine.name!r} has a key: say with key_field where it is")
            return
        event = self._manifest.schemas.get(subscription.event)
        key = self._manifest.schemas.get(machine.key) or self._scalars.get(machine.key)
        try:
            path = path_of(field)
            if event is None or key is None:
                return
            if not fits(schema_at(event, path), key):
                self._faults.add(
                    place, f"{subscription.event}: {field!r} is not of the type of the key, which is {machine.key}"
                )
        except NoKey as error:
            self._faults.add(place, f"{subscription.event}: {error}: name a field that it has")
        except ValueError as error:
            self._faults.add(place, str(error))

    def _check_repetitions(self) -> None:
        before = set[MachineSubscription]()
        for at, subscription in enumerate(self._manifest.subscriptions):
            if subscription in before:
                self._faults.add(
                    ("subscriptions", at),
                    f"machine {subscription.machine!r} hears {subscription.event} twice by the same key: "
                    "leave one subscription out",
                )
            before.add(subscription)


def _schemas_of(machine: MachineEntry) -> Iterator[tuple[Trail, str | None]]:
    yield ("state",), machine.state
    yield ("key",), machine.key
    yield ("context",), machine.context
    yield ("annotations",), machine.annotations
    yield from _each("events", machine.events)
    yield from _each("emits", machine.emits)


def _each(member: str, names: Iterable[str]) -> Iterator[tuple[Trail, str]]:
    return (((member, at), name) for at, name in enumerate(names))
