"""Verifying machines: every lane's journal is replayed with its handlers, and compared with rows and roots.

What must agree: the journal's hash chain; what the handlers make of the recorded events, with the journal's notes; the
cells that come of it, with the rows; and the cells by the notes, with every root that is kept. What is held for a cell
must be what the cell's record proves.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from holdfast.cells.cell import CellRecord, decode_cell, encode_cell, shown_key
from holdfast.cells.nodes import name_of
from holdfast.errors import AuthorError, HoldfastError, StoreCorrupt
from holdfast.journal import events as e
from holdfast.journal.promise import PromiseId
from holdfast.lanes.counts import lanes_of
from holdfast.lanes.roots import read_cells
from holdfast.programs.machine.lanes.checked_lane import check_lane, codes_of
from holdfast.programs.machine.lanes.held_rows import check_rows
from holdfast.programs.machine.lanes.notes import code_hash, read_note
from holdfast.runs.journals import check_chain
from holdfast.runs.kinds.cells import CELLS
from holdfast.runs.lanes import parse_lane
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

HeldRows: TypeAlias = Mapping[bytes, Mapping[int, bytes]]
"""Held events by cell and number."""

_NAMED: Final = 10
"""So many differences of a kind are named; the others are counted."""
_ROOTS: Final = 1000


class LaneCheck(msgspec.Struct, frozen=True):
    """What was found of a lane: how much was checked, and every difference in plain words.

    ``by_other_code`` is set where turns of it ran by other code or another manifest, and what the handlers of now do is
    something else: then the cells are compared with the journal's hashes of them.
    """

    tenant: str
    machine: str
    lane: int
    run: str
    events: int = 0
    cells: int = 0
    roots: int = 0
    problems: tuple[str, ...] = ()
    by_other_code: bool = False

    @property
    def good(self) -> bool:
        return not self.problems


async def verify_lanes(app: Holdfast, machine: str | None, tenant: str | None) -> AsyncIterator[LaneCheck]:
    """Verify all lanes, or those of one machine."""
    async for keys in lanes_of(app.store, tenant, machine):
        for run in await app.store.get(keys):
            yield await verify_lane(app, run)


async def verify_lane(app: Holdfast, run: p.Run) -> LaneCheck:
    """Verify one lane, as it stands at one moment. Nothing is written."""
    machine, index = parse_lane(run.key.run) or (run.workflow, 0)
    found = LaneCheck(run.key.tenant, machine, index, run.key.run)
    code = app.machine_kind.machines.get(machine)
    if code is None:
        problem = f"there is no machine {machine!r} here, so its handlers cannot be run: import the module that has it"
        return msgspec.structs.replace(found, problems=(problem,))
    roots = await app.store.roots(run.key, _ROOTS)
    written = await app.store.unrooted(run.key, 0)
    if written is None:
        return found
    board, by_other_code = app.machine_kind.board, False
    problems: list[str] = []
    entries: list[e.Entry] = []
    try:
        moment = msgspec.structs.replace(run, version=written.version, head=written.head)
        entries = [entry async for entry in check_chain(app.store, moment) if entry.sequence < moment.version]
        checked = check_lane(PromiseId(run.root), entries, code, board, app.clock.now(), app.entropy)
        problems += _row_differences(dict(written.cells), checked.cells)
        problems += _held_differences(_held_rows(written), checked.held)
    except HoldfastError as error:
        others = codes_of(entries) - {code_hash(code.hash, board.manifest)}
        by_other_code = isinstance(error, AuthorError) and bool(others)
        if by_other_code:
            problems += _noted_differences(dict(written.cells), entries)
            problems += _unproved(dict(written.cells), _held_rows(written))
        else:
            problems.append(f"its journal is not what its handlers do: {error}")
    kept = {row.version: row for row in roots}
    for version, noted in _noted_at(entries, kept):
        problems += await _root_differences(app.store, kept[version], noted)
    return msgspec.structs.replace(
        found,
        events=len(entries),
        cells=len(written.cells),
        roots=len(roots),
        problems=tuple(problems),
        by_other_code=by_other_code,
    )


def _row_differences(rows: Mapping[bytes, bytes], cells: Mapping[bytes, CellRecord]) -> list[str]:
    """Where rows are not the cells that the handlers make."""
    made = {key: encode_cell(record) for key, record in cells.items()}
    lost = [key for key in made if key not in rows]
    strange = [key for key in rows if key not in made]
    other = [key for key in made if key in rows and rows[key] != made[key]]
    return [
        *_named(lost, "its handlers make a cell that has no row"),
        *_named(strange, "there is a row of a cell that its handlers do not make"),
        *_named(other, "the row is not the cell that its handlers make"),
    ]


def _held_rows(written: p.Unrooted) -> HeldRows:
    """What is held for the cells of a lane."""
    rows: dict[bytes, dict[int, bytes]] = {}
    for key, number, event in written.held:
        if event is not None:
            rows.setdefault(key, {})[number] = event
    return rows


def _held_differences(rows: HeldRows, made: HeldRows) -> list[str]:
    """Where what is held is not what the handlers leave."""
    wrong = [key for key in {*rows, *made} if rows.get(key) != made.get(key)]
    return _named(wrong, "what is held for it is not what its handlers leave")


def _unproved(cells: Mapping[bytes, bytes], rows: HeldRows) -> list[str]:
    """The cells whose records do not prove what is held for them."""
    wrong = []
    for key, data in cells.items():
        chain, held = decode_cell(data).chain, rows.get(key, {})
        try:
            if chain is not None:
                check_rows(key, chain, [(at, held[at]) for at in range(chain.first, chain.end) if at in held])
            if len(held) != (0 if chain is None else chain.end - chain.first):
                wrong.append(key)
        except StoreCorrupt:
            wrong.append(key)
    return _named(wrong, "what is held for it is not what its record proves")


def _noted_differences(rows: Mapping[bytes, bytes], entries: Sequence[e.Entry]) -> list[str]:
    """Where rows are not the cells that the journal notes, by their hashes."""
    ((_, noted),) = _noted_at(entries, {len(entries): None}) or [(0, dict[bytes, bytes]())]
    found = {key: name_of(record) for key, record in rows.items()}
    wrong = [key for key in {*noted, *found} if noted.get(key) != found.get(key)]
    return _named(wrong, "the row is not what the journal notes")


def _named(keys: Sequence[bytes], what: str) -> list[str]:
    found = [f"{what}: key {shown_key(key)}" for key in sorted(keys)[:_NAMED]]
    return [*found, f"{what}: {len(keys) - _NAMED} more"] if len(keys) > _NAMED else found


def _noted_at(entries: Sequence[e.Entry], versions: Mapping[int, Any]) -> list[tuple[int, dict[bytes, bytes]]]:
    """The hashes of the cells' records by the journal's notes, at these versions that it reaches."""
    noted: dict[bytes, bytes] = {}
    found = []
    for version, entry in enumerate(entries, 1):
        event = entry.event
        if isinstance(event, e.InvokeScheduled) and event.kind == CELLS:
            for cell in read_note(event.input).cells:
                noted.pop(cell.key, None)
                if cell.record_hash is not None:
                    noted[cell.key] = cell.record_hash
        if version in versions:
            found.append((version, dict(noted)))
    return found


async def _root_differences(store: p.Store, row: p.RootRow, noted: Mapping[bytes, bytes]) -> list[str]:
    """Where a root is not that of the cells by the journal's notes."""
    name = f"the root at version {row.version}"
    try:
        content = await read_cells(store, row.key, row.root)
    except StoreCorrupt as error:
        return [f"{name} cannot be read: {error}"]
    found = {key: name_of(record) for key, record in content.cells.items()}
    wrong = [key for key in {*noted, *found} if noted.get(key) != found.get(key)]
    problems = _named(wrong, f"{name} has another record than the journal")
    problems += [f"{name}: {problem}" for problem in _unproved(content.cells, content.held)]
    if row.cells != len(found):
        problems.append(f"{name} says that it has {row.cells} cells, and has {len(found)}")
    head = await _head_at(store, row)
    if head != row.head:
        problems.append(f"{name} is not bound to the journal's hash there")
    return problems


async def _head_at(store: p.Store, row: p.RootRow) -> bytes | None:
    for segment in await store.segments(row.key, 0, row.version - 1, 1):
        if segment.first + segment.count == row.version:
            return segment.head
    return None
