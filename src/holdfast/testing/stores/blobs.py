"""Blobs: bytes beside the journal, kept once per tenant under their digest."""

from __future__ import annotations

from holdfast.store import protocol as p
from holdfast.testing.stores.samples import (
    COMPLETED,
    NOW,
    advanced,
    begun,
    commit,
    ended,
    key,
    leased,
    renewal,
    start,
    turn,
)
from holdfast.testing.stores.topic import Topic, on_fresh_store


class Blobs(Topic):
    @on_fresh_store
    async def test_blobs_come_with_starts_turns_and_renewals(self, store: p.Store) -> None:
        """Each change that writes a segment may carry blobs."""
        run = await begun(store, start(owner="ann", blobs={b"d1": b"one"}))
        change = turn(run, COMPLETED, blobs={b"d2": b"two"}, renewal=renewal(blobs={b"d3": b"three"}))
        await advanced(store, change)
        await ended(store, "two")
        await commit(store, p.Renew(key("two"), 0, renewal(blobs={b"d4": b"four"}), p.Projection("queued"), NOW))
        found = [await store.blob("acme", digest) for digest in (b"d1", b"d2", b"d3", b"d4")]
        assert found == [b"one", b"two", b"three", b"four"]

    @on_fresh_store
    async def test_a_blob_that_is_not_there_is_none(self, store: p.Store) -> None:
        """Nothing, rather than an error."""
        assert await store.blob("acme", b"digest") is None

    @on_fresh_store
    async def test_blobs_belong_to_a_tenant(self, store: p.Store) -> None:
        """A digest does not give access to another tenant's bytes."""
        await begun(store, start(blobs={b"digest": b"secret"}))
        assert await store.blob("bolt", b"digest") is None

    @on_fresh_store
    async def test_the_same_bytes_are_kept_once(self, store: p.Store) -> None:
        """Two runs, and two turns of one run, may carry the same blob."""
        first = await begun(store, start("one", owner="ann", blobs={b"digest": b"data"}))
        await advanced(store, turn(first, blobs={b"digest": b"data"}))
        await begun(store, start("two", blobs={b"digest": b"data"}))
        assert (await store.facts()).blobs == 1
        assert await store.blob("acme", b"digest") == b"data"

    @on_fresh_store
    async def test_a_large_blob_comes_out_as_it_went_in(self, store: p.Store) -> None:
        """Bytes of any value, and many of them."""
        data = bytes(range(256)) * 8192
        await advanced(store, turn(await leased(store), blobs={b"\x00\xff": data, b"empty": b""}))
        assert await store.blob("acme", b"\x00\xff") == data
        assert await store.blob("acme", b"empty") == b""

    @on_fresh_store
    async def test_blobs_are_read_together(self, store: p.Store) -> None:
        """Those of the tenant that exist."""
        await begun(store, start(blobs={b"d1": b"one", b"d2": b"two", b"d3": b"three"}))
        assert await store.blobs("acme", [b"d3", b"nothing", b"d1"]) == {b"d1": b"one", b"d3": b"three"}
        assert await store.blobs("bolt", [b"d1"]) == {}
        assert await store.blobs("acme", []) == {}

    @on_fresh_store
    async def test_a_run_is_loaded_without_blobs(self, store: p.Store) -> None:
        """The reader of the events knows which are needed. Those of earlier generations stay, too."""
        run = await begun(store, start(owner="ann", blobs={b"d1": b"one", b"d2": b"two"}))
        await advanced(store, turn(run, COMPLETED, renewal=renewal(blobs={b"d2": b"two", b"d3": b"three"})))
        assert (await store.load([key()]))[key()].blobs == {}
        found = await store.blobs("acme", [b"d1", b"d2", b"d3"])
        assert found == {b"d1": b"one", b"d2": b"two", b"d3": b"three"}
