"""Names: what a call by name means, where only the store knows it.

A turn cannot wait for the store. So a turn that needs such a name fails, the store is asked, and the turn is taken once
more with the answer. The call is recorded by what the name meant, and a replay reads that.
"""

from __future__ import annotations

from functools import partial

from holdfast.programs.definition.versions import latest, parse_reference
from holdfast.runs.program_names import definition_name
from holdfast.runs.published import published
from holdfast.store import protocol as p
from holdfast.store.patience import patiently


async def look_up(store: p.Store, tenant: str, reference: str) -> str | None:
    """The name by which a call starts what a reference means among the published definitions of a tenant; None where
    it means none of them."""
    name, wanted = parse_reference(reference)
    rows = await patiently(partial(_rows, store, tenant, name))
    version = latest(rows, wanted)
    return None if version is None else definition_name(name, version, rows[version].digest.hex())


async def _rows(store: p.Store, tenant: str, name: str) -> dict[int, p.DefinitionRow]:
    return {row.version: row async for row in published(store, tenant, name)}
