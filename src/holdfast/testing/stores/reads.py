"""Reading runs, journals and parts of them."""

from __future__ import annotations

from holdfast.store import protocol as p
from holdfast.testing.stores.samples import advanced, begun, deliver, key, leased, message, row, segment, start, turn
from holdfast.testing.stores.topic import Topic, on_fresh_store


class Reads(Topic):
    @on_fresh_store
    async def test_those_runs_are_given_that_exist(self, store: p.Store) -> None:
        """The others are left out."""
        await store.commit([start("one"), start("two"), start("three")])
        found = await store.get([key("one"), key("nobody"), key("three")])
        assert {run.key for run in found} == {key("one"), key("three")}
        assert await store.get([]) == []

    @on_fresh_store
    async def test_a_whole_journal_is_loaded_with_its_inbox(self, store: p.Store) -> None:
        """All data that a worker needs to continue a run."""
        run = await begun(store, start(owner="ann", blobs={b"d1": b"one"}))
        await advanced(store, turn(run, blobs={b"d2": b"two"}))
        await store.commit([deliver(body="a")])
        await begun(store, start("two"))
        loaded = await store.load([key("one"), key("two"), key("nobody")])
        assert loaded == {
            key("one"): p.Loaded(
                [segment(blobs=[b"d1"]), segment(2, 1, blobs=[b"d2"])],
                {},
                [p.Received(1, message("a"))],
            ),
            key("two"): p.Loaded([segment()], {}, []),
        }
        assert await store.load([]) == {}

    @on_fresh_store
    async def test_a_journal_is_read_from_any_sequence_on(self, store: p.Store) -> None:
        """Segments that hold the sequence or later ones, in order, up to the limit."""
        await leased(store)
        for count in (3, 1, 2):
            await advanced(store, turn(await row(store), count=count))
        journal = [segment(0, 2), segment(2, 3), segment(5, 1), segment(6, 2)]
        for first, expected in (
            (0, journal),
            (1, journal),
            (2, journal[1:]),
            (4, journal[1:]),
            (7, journal[3:]),
            (8, []),
        ):
            assert await store.segments(key(), 0, first, 10) == expected
        assert await store.segments(key(), 0, 2, 2) == journal[1:3]
        assert await store.segments(key(), 1, 0, 10) == []
        assert await store.segments(key("nobody"), 0, 0, 10) == []

    @on_fresh_store
    async def test_a_row_that_was_read_stays_as_it_was(self, store: p.Store) -> None:
        """A later change does not alter a result that was given before."""
        before = await leased(store)
        copy = p.Run(**{name: getattr(before, name) for name in before.__struct_fields__})
        await advanced(store, turn(before, p.Projection("waiting"), release=True))
        assert before == copy
        assert await row(store) != before

    @on_fresh_store
    async def test_names_of_any_letters_are_kept(self, store: p.Store) -> None:
        """Ids, tenants, workflows, reasons and attributes are texts with any characters."""
        odd = "a'b\"c;--%_\\ ü 漢 🜁 \n/"
        change = start(odd, tenant=odd, workflow=odd, attributes={odd: odd}, owner=odd)
        run = await begun(store, change)
        assert (run.key, run.workflow, run.attributes, run.owner) == (p.Key(odd, odd), odd, {odd: odd}, odd)
        assert await store.find(p.Query(tenant=odd, workflow=odd), 10) == [run]

    @on_fresh_store
    async def test_journals_are_read_together(self, store: p.Store) -> None:
        """Those of the present generation, of the runs that exist, without blobs and inboxes."""
        run = await begun(store, start(owner="ann", blobs={b"d1": b"one"}))
        await advanced(store, turn(run))
        await begun(store, start("two"))
        found = await store.journals([key("two"), key("one"), key("nobody")])
        assert found == {key("one"): [segment(blobs=[b"d1"]), segment(2, 1)], key("two"): [segment()]}
        assert await store.journals([]) == {}
