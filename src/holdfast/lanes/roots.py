"""Roots of lanes: made from the cells that were written since the last one, beside the lane's turns.

A root is exact: what was written is read in one moment, together with the version of the lane's journal at that
moment, and a row is always the cell as it stands at its journal's head. So nothing is frozen and no turn waits. Where
two make a root of one lane, one of them succeeds. What a crash leaves undone is made again by the next one who looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from holdfast.audit.cell_proofs import PARTIAL, ROOT
from holdfast.audit.notes import note
from holdfast.audit.records import Operated
from holdfast.cells import tree
from holdfast.cells.cell import decode_cell, decode_entry, held_entry, held_key, held_place, index_entry, shown_key
from holdfast.cells.growth import growth
from holdfast.cells.nodes import parse, read_node
from holdfast.errors import StoreCorrupt
from holdfast.lanes.counts import ENGINE, LaneCounts
from holdfast.runs.clock import Clock
from holdfast.runs.lanes import parse_lane
from holdfast.store import protocol as p

KEPT_ROOTS: Final = 8
"""Of so many roots of a lane the nodes are kept. The audit has all of them, by their hashes."""

AT_ONCE: Final = 500
"""So many nodes are read, or swept away, in one go."""

_ALL: Final = 1 << 31


async def make_root(store: p.Store, clock: Clock, lane: p.Key) -> p.RootRow | None:
    """The root of a lane as it stands now: the last one, where nothing was written since; else a new one.

    None where the lane has no cell and never had, or where somebody else has just made one. Raises StoreCorrupt.
    """
    last = next(iter(await store.roots(lane, 1)), None)
    found = await store.unrooted(lane, 0 if last is None else last.version)
    if found is None or not (found.cells or found.deleted or found.held):
        return last
    grown = await asyncio.to_thread(growth, found.cells, found.deleted, found.held)
    base = tree.EMPTY if last is None else last.root
    read = await touched(store, lane, base, grown.changes)
    applied = await asyncio.to_thread(read.apply)
    held = 0 if last is None else read.size - last.cells  # the entries that are no cells'
    held += sum((event is not None) - read.has(_held_path(key, number)) for key, number, event in found.held)
    row = p.RootRow(*lane, found.version, found.head, applied.root, applied.size - held, clock.now())
    change = p.PutRoot(row, 0 if last is None else last.version, {**applied.nodes, **grown.records})
    (answer,) = await store.commit([p.Operate(_noted(row, await _stretch(store, clock, lane)), (change,))])
    return row if isinstance(answer, p.OperatedOn | p.Repeated) else None


async def _stretch(store: p.Store, clock: Clock, lane: p.Key) -> dict[str, str]:
    """Which keys belong to the lane: among how many lanes they are divided, and the number of the first of those.

    A lane that hands its cells over, or does not have all of its own yet, is ``partial``: that a key is not there says
    nothing. It is looked at after the cells were read, so a root without the word is that of a whole lane.
    """
    found = parse_lane(lane.run)
    table = None if found is None else await LaneCounts(store, clock).table(lane.tenant, found[0])
    if found is None or table is None:
        return {"lanes": "0"}
    first, lanes = table.stretch(found[1])
    details = {"lanes": str(lanes)}
    if first:
        details["first"] = str(first)
    if any(run.split is not None for run in await store.get([lane])):
        details[PARTIAL] = "yes"
    return details


async def touched(store: p.Store, lane: p.Key, root: bytes, changes: Mapping[bytes, bytes | None]) -> tree.Touched:
    """The nodes that the changes touch, read level by level."""
    found = tree.Touched(root, changes)
    while found.wanted:
        await asyncio.to_thread(found.add, await read_nodes(store, lane, found.wanted))
    return found


async def read_nodes(store: p.Store, lane: p.Key, names: Iterable[bytes]) -> dict[bytes, bytes]:
    """These nodes or records. Raises StoreCorrupt where one is not there."""
    nodes: dict[bytes, bytes] = {}
    wanted = sorted(names)
    for at in range(0, len(wanted), AT_ONCE):
        nodes.update(await store.cell_nodes(lane, wanted[at : at + AT_ONCE]))
    if len(nodes) < len(set(wanted)):
        lost = next(name for name in wanted if name not in nodes)
        raise StoreCorrupt(
            f"node {lost.hex()} of the cell index of {lane.run}, tenant {lane.tenant}, is missing: restore the "
            "database from a backup."
        )
    return nodes


class RootContent(NamedTuple):
    """What a root has: the records of the cells by their keys, and what is held for them by key and number."""

    cells: dict[bytes, bytes]
    held: dict[bytes, dict[int, bytes]]


async def read_cells(store: p.Store, lane: p.Key, root: bytes) -> RootContent:
    """All that a root has, each record compared with its entry. Raises StoreCorrupt."""
    found = RootContent({}, {})
    waiting = [root]
    while waiting:
        names = [name for name in waiting[:AT_ONCE] if name != tree.EMPTY]
        del waiting[:AT_ONCE]
        nodes = await read_nodes(store, lane, names)
        for name in names:
            node = read_node(name, nodes.__getitem__)
            if isinstance(node, dict):
                await _add_records(store, lane, node, found)
            else:
                waiting += [child.name for child in node if child is not None]
    return found


async def _add_records(store: p.Store, lane: p.Key, leaf: Mapping[bytes, bytes], found: RootContent) -> None:
    """Add what the entries of a leaf name."""
    entries = {path: decode_entry(data) for path, data in leaf.items()}
    records = await read_nodes(store, lane, {entry.record_hash for entry in entries.values()})
    for path, entry in entries.items():
        record, place = records[entry.record_hash], held_place(entry.key)
        made = index_entry(decode_cell(record), record) if place is None else held_entry(*place, record)
        if tree.key_hash(entry.key) != path or made != entry:
            key = entry.key if place is None else place[0]
            raise StoreCorrupt(f"the record of cell {shown_key(key)} in {lane.run} was changed: restore it.")
        if place is None:
            found.cells[entry.key] = record
        else:
            found.held.setdefault(place[0], {})[place[1]] = record


def _held_path(key: bytes, number: int) -> bytes:
    return tree.key_hash(held_key(key, number))


def _noted(row: p.RootRow, stretch: Mapping[str, str]) -> p.Note:
    details = {
        "version": str(row.version),
        "head": row.head.hex(),
        "root": row.root.hex(),
        "cells": str(row.cells),
        **stretch,
    }
    record = Operated(row.at, ROOT, ENGINE, row.lane, details=details)
    return msgspec.structs.replace(note(row.tenant, row.lane, record), id=f"{ROOT}:{row.lane}:{row.version}")


async def collect_garbage(store: p.Store, lane: p.Key, keep: int = KEPT_ROOTS) -> int:
    """Forget all roots of a lane but the last ones, and whatever none of these reaches; gives how many nodes and
    records went. Where a root is made meanwhile, it may need what was garbage: the rest is left to the next time."""
    roots = await store.roots(lane, _ALL)
    kept, dropped = roots[:keep], roots[keep:]
    if not dropped:
        return 0
    reached = await _reached(store, lane, [row.root for row in kept])
    garbage = [name for name in await _names(store, lane) if name not in reached]
    last, gone = kept[0].version, 0
    if not await store.sweep(lane, last, [row.version for row in dropped], ()):
        return 0
    for at in range(0, len(garbage), AT_ONCE):  # a little at a time: turns wait for none of it
        some = garbage[at : at + AT_ONCE]
        if not await store.sweep(lane, last, (), some):
            break
        gone += len(some)
    return gone


async def _reached(store: p.Store, lane: p.Key, roots: Sequence[bytes]) -> set[bytes]:
    """The names of all nodes and records that these roots need."""
    reached = {tree.EMPTY}
    waiting = list(dict.fromkeys(roots))
    while waiting:
        names = [name for name in waiting[-AT_ONCE:] if name not in reached]
        del waiting[-AT_ONCE:]
        reached.update(names)
        nodes = await read_nodes(store, lane, names)
        children, records = await asyncio.to_thread(_named, list(nodes.values()))
        waiting += children
        reached.update(records)
    return reached


def _named(nodes: Iterable[bytes]) -> tuple[list[bytes], list[bytes]]:
    """The nodes below these, and the records that their entries name."""
    children, records = list[bytes](), list[bytes]()
    for data in nodes:
        node = parse(data)
        if isinstance(node, dict):
            records += [decode_entry(entry).record_hash for entry in node.values()]
        else:
            children += [child.name for child in node if child is not None]
    return children, records


async def _names(store: p.Store, lane: p.Key) -> list[bytes]:
    names: list[bytes] = []
    while page := await store.cell_node_names(lane, 10 * AT_ONCE, names[-1] if names else b""):
        names += page
    return names
