"""Cells and roots of lanes: rows are the head of their lane's journal, and a root is made from one moment of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.testing.stores.governance.samples import note
from holdfast.testing.stores.samples import COMPLETED, NOW, advanced, commit, key, leased, row, turn
from holdfast.testing.stores.topic import Topic, on_fresh_store

MACHINE = "orders"


def put(run: p.Run, cells: Mapping[bytes, bytes | None], projection: p.Projection | None = None) -> p.Advance:
    """A turn of a lane that writes these cells, and deletes those without a record."""
    changes = tuple(p.CellChange(each, record, "waiting", None, NOW) for each, record in cells.items())
    made = turn(run) if projection is None else turn(run, projection)
    return replace(made, attached=(p.PutCells(run.key, MACHINE, run.version, changes),))


async def written(store: p.Store, cells: Mapping[bytes, bytes | None]) -> p.Run:
    """The lane after a turn that wrote these cells."""
    present = await store.get([key()])
    run = present[0] if present else await leased(store)
    await advanced(store, put(run, cells))
    return await row(store)


def root(run: p.Run, after: int = 0, nodes: Mapping[bytes, bytes] | None = None, name: bytes = b"root") -> p.Operate:
    """The change that keeps a root of the lane as it stands."""
    made = p.RootRow(*run.key, run.version, run.head, name, 1, NOW)
    return p.Operate(replace(note(), id=f"root:{run.version}"), (p.PutRoot(made, after, nodes or {}),))


class UnrootedTopic(Topic):
    @on_fresh_store
    async def test_cells_are_written_with_their_turn(self, store: p.Store) -> None:
        """A turn that is refused writes none."""
        run = await written(store, {b"a": b"1", b"b": b"2"})
        stale = put(replace(run, epoch=run.epoch - 1), {b"a": b"9"})
        assert await commit(store, stale) == p.Fenced()
        assert {each.key: each.record for each in await store.cells(key(), [b"a", b"b", b"c"])} == {
            b"a": b"1",
            b"b": b"2",
        }

    @on_fresh_store
    async def test_what_was_written_since_a_version_is_read_with_the_version(self, store: p.Store) -> None:
        """Changed cells, and deleted ones by their keys; all at one moment, whose version is told."""
        assert await store.unrooted(key(), 0) is None
        first = await written(store, {b"a": b"1", b"b": b"2", b"c": b"3"})
        second = await written(store, {b"b": None, b"c": b"4"})
        found = await store.unrooted(key(), 0)
        assert found is not None
        assert (found.version, found.head) == (second.version, second.head)
        assert (sorted(found.cells), found.deleted) == ([(b"a", b"1"), (b"c", b"4")], [b"b"])
        since = await store.unrooted(key(), first.version)
        assert since is not None
        assert (since.cells, since.deleted) == ([(b"c", b"4")], [b"b"])

    @on_fresh_store
    async def test_a_deleted_cell_that_was_made_again_is_not_deleted(self, store: p.Store) -> None:
        """It is among the written ones alone."""
        await written(store, {b"a": b"1"})
        await written(store, {b"a": None})
        await written(store, {b"a": b"2"})
        found = await store.unrooted(key(), 0)
        assert found is not None
        assert (found.cells, found.deleted) == ([(b"a", b"2")], [])

    @on_fresh_store
    async def test_a_lane_without_changes_has_nothing_unrooted(self, store: p.Store) -> None:
        """Only its version and head are given."""
        run = await leased(store)
        assert await store.unrooted(key(), 0) == p.Unrooted(run.version, run.head, [], [], [])


class RootTopic(Topic):
    @on_fresh_store
    async def test_a_root_is_kept_with_its_nodes_and_its_note(self, store: p.Store) -> None:
        """And is found as the last one, or by its version."""
        run = await written(store, {b"a": b"1"})
        nodes = {hashlib.sha256(data).digest(): data for data in (b"x", b"y")}
        assert await commit(store, root(run, nodes=nodes)) == p.OperatedOn()
        kept = p.RootRow(*run.key, run.version, run.head, b"root", 1, NOW)
        assert await store.roots(key(), 5) == await store.roots(key(), 1, run.version) == [kept]
        assert await store.roots(key(), 5, run.version + 1) == []
        assert await store.cell_nodes(key(), [*nodes, b"other"]) == nodes
        assert await store.cell_node_names(key(), 10) == sorted(nodes)
        assert await store.cell_node_names(key(), 10, min(nodes)) == [max(nodes)]
        assert len(await store.entries(p.AuditQuery("acme"), 10)) == 1

    @on_fresh_store
    async def test_a_root_that_was_not_made_from_the_last_one_is_refused(self, store: p.Store) -> None:
        """Nothing of it is kept, not even its note; committed again, a kept one is recognised."""
        run = await written(store, {b"a": b"1"})
        assert await commit(store, root(run, after=7, nodes={b"n": b"x"})) == p.Fenced()
        assert await store.roots(key(), 5) == []
        assert await store.cell_nodes(key(), [b"n"]) == {}
        assert await store.entries(p.AuditQuery("acme"), 10) == []
        for answer in (p.OperatedOn(), p.Repeated()):
            assert await commit(store, root(run)) == answer
        later = await written(store, {b"a": b"2"})
        assert await commit(store, root(later)) == p.Fenced()
        assert await commit(store, root(later, after=run.version)) == p.OperatedOn()
        assert [each.version for each in await store.roots(key(), 5)] == [later.version, run.version]

    @on_fresh_store
    async def test_many_nodes_are_kept_whatever_comes_with_their_root(self, store: p.Store) -> None:
        """Stores write many nodes at once, and many turns. Nodes that are there already are left as they are."""
        first = await written(store, {b"a": b"1"})
        nodes = {b"%04d" % number: b"%d" % number for number in range(1200)}
        turns = [turn(await leased(store, f"run-{number}")) for number in range(9)]
        answers = await store.commit([*turns, root(first, nodes=nodes)])
        assert [type(answer) for answer in answers] == [p.Advanced] * 9 + [p.OperatedOn]
        later = await written(store, {b"a": b"2"})
        again = {b"0007": b"7", b"new": b"n"}
        assert await commit(store, root(later, after=first.version, nodes=again)) == p.OperatedOn()
        assert await store.cell_nodes(key(), [*nodes, b"new", b"none"]) == nodes | again

    @on_fresh_store
    async def test_marks_of_deleted_cells_end_with_the_root_that_has_seen_them(self, store: p.Store) -> None:
        """Those of later turns stay."""
        await written(store, {b"a": b"1", b"b": b"2"})
        seen = await written(store, {b"a": None})
        await written(store, {b"b": None})
        assert await commit(store, root(seen)) == p.OperatedOn()
        found = await store.unrooted(key(), 0)
        assert found is not None
        assert found.deleted == [b"b"]

    @on_fresh_store
    async def test_garbage_is_swept_only_while_the_last_root_is_the_last(self, store: p.Store) -> None:
        """Else a new root may use what was garbage when it was looked for."""
        first = await written(store, {b"a": b"1"})
        await commit(store, root(first, nodes={b"n": b"x", b"m": b"y"}))
        later = await written(store, {b"a": b"2"})
        await commit(store, root(later, after=first.version, nodes={b"k": b"z"}))
        assert not await store.sweep(key(), first.version, [first.version], [b"n"])
        assert await store.sweep(key(), later.version, [first.version], [b"n"])
        assert [each.version for each in await store.roots(key(), 5)] == [later.version]
        assert await store.cell_node_names(key(), 10) == [b"k", b"m"]

    @on_fresh_store
    async def test_cells_are_deleted_with_their_lane_only(self, store: p.Store) -> None:
        """With its roots and their nodes."""
        run = await written(store, {b"a": b"1", b"b": b"2"})
        run = await written(store, {b"b": None})
        await commit(store, root(run, nodes={b"n": b"x"}))
        await store.prune(NOW + 1, 10)
        assert len(await store.cells(key(), [b"a"])) == 1
        await advanced(store, turn(run, COMPLETED))
        assert await store.prune(NOW + 1, 10) == 1
        assert await store.cells(key(), [b"a"]) == []
        assert await store.roots(key(), 5) == []
        assert await store.cell_node_names(key(), 10) == []
