"""A dry run of ``migrate=``: what every kept state becomes when the code here reads it, or why not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import cbor2
import msgspec

from holdfast.client.machines.blockers import cells_of, key_shown
from holdfast.programs.machine.machine import Machine
from holdfast.store import protocol as p

_SHOWN: Final = 100


class MigratedState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A cell's state before and after, as plain data; ``problem`` is why it cannot be read."""

    key: Any
    version: int
    before: Any = None
    after: Any = None
    problem: str = ""


class MigrationReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a dry run saw: ``versions`` counts cells by the version of their state, ``unchanged`` those that are read as
    they are. ``migrated`` and ``failed`` count the others; ``cells`` are the first of these, the failed ones first."""

    machine: str
    version: int
    versions: Mapping[int, int]
    unchanged: int
    migrated: int
    failed: int
    cells: tuple[MigratedState, ...] = ()


async def migration_of(store: p.Store, tenant: str, machine: Machine[Any]) -> MigrationReport:
    """Read every kept state with the code here. Nothing is written."""
    versions: dict[int, int] = {}
    unchanged = migrated = failed = 0
    good: list[MigratedState] = []
    bad: list[MigratedState] = []
    async for row, record in cells_of(store, tenant, machine.name):
        if record.state is None:
            continue
        version = record.machine_version
        versions[version] = versions.get(version, 0) + 1
        seen = migrated_state(machine, key_shown(row.key), record.state, version)
        if seen.problem:
            failed += 1
            bad += [seen] if len(bad) < _SHOWN else []
        elif seen.before == seen.after and version == machine.version:
            unchanged += 1
        else:
            migrated += 1
            good += [seen] if len(good) < _SHOWN else []
    return MigrationReport(
        machine=machine.name,
        version=machine.version,
        versions=versions,
        unchanged=unchanged,
        migrated=migrated,
        failed=failed,
        cells=tuple([*bad, *good][:_SHOWN]),
    )


def migrated_state(machine: Machine[Any], key: Any, state: bytes, version: int) -> MigratedState:
    """One kept state as the code here reads it."""
    before = cbor2.loads(state)
    try:
        after = cbor2.loads(machine.state.encode(machine.read_state(state, version)))
    except Exception as error:  # an author's migrate= may raise anything
        return MigratedState(key, version, before, None, f"{type(error).__name__}: {error}")
    return MigratedState(key, version, before, after)
