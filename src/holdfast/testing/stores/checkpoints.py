"""Checkpoints: kept with the turn that gives them, loaded with the segments after them, deleted with their journal."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.testing.stores.samples import (
    COMPLETED,
    NOW,
    advanced,
    commit,
    deliver,
    key,
    leased,
    message,
    renewal,
    row,
    segment,
    start,
    turn,
)
from holdfast.testing.stores.topic import Topic, on_fresh_store


def checkpointed(run: p.Run, data: bytes = b"state") -> p.Advance:
    """A turn with a checkpoint."""
    return replace(turn(run), checkpoint=data)


def at(given: p.Advance) -> p.CheckpointRow:
    """The row of a turn's checkpoint."""
    assert given.segment is not None
    return p.CheckpointRow(given.segment.first + given.segment.count, given.segment.head, given.checkpoint or b"")


class CheckpointTopic(Topic):
    @on_fresh_store
    async def test_a_checkpoint_is_loaded_with_the_segments_behind_it(self, store: p.Store) -> None:
        """Not with those before it, unless the whole journal is wanted; the inbox is always loaded."""
        given = checkpointed(await leased(store))
        await advanced(store, given)
        after = turn(await row(store))
        assert given.segment is not None
        assert after.segment is not None
        await store.commit([deliver(body="a")])
        await advanced(store, after)
        inbox = [p.Received(1, message("a"))]
        assert await store.load([key()]) == {key(): p.Loaded([after.segment], {}, inbox, at(given))}
        whole = (await store.load([key()], whole=True))[key()]
        assert whole == p.Loaded([segment(), given.segment, after.segment], {}, inbox)
        assert (await store.journals([key()]))[key()] == whole.segments

    @on_fresh_store
    async def test_runs_with_and_without_one_are_loaded_together(self, store: p.Store) -> None:
        """Each in its own way; blobs are read by their digests."""
        blobs = {b"digest": b"data"}
        given = replace(checkpointed(await leased(store, "one")), blobs=blobs)
        plain = turn(await leased(store, "two"), blobs=blobs)
        assert plain.segment is not None
        assert [type(answer) for answer in await store.commit([given, plain])] == [p.Advanced, p.Advanced]
        assert await store.load([key("one"), key("two")]) == {
            key("one"): p.Loaded([], {}, [], at(given)),
            key("two"): p.Loaded([segment(), plain.segment], {}, []),
        }

    @on_fresh_store
    async def test_the_last_checkpoint_takes_the_place_of_the_one_before(self, store: p.Store) -> None:
        """A run has one."""
        await advanced(store, checkpointed(await leased(store), b"one"))
        given = checkpointed(await row(store), b"two")
        await advanced(store, given)
        assert (await store.load([key()]))[key()].checkpoint == at(given)

    @on_fresh_store
    async def test_a_refused_turn_keeps_no_checkpoint(self, store: p.Store) -> None:
        """A turn that is committed again after its answer was lost keeps its checkpoint."""
        run = await leased(store)
        given = checkpointed(run)
        assert await commit(store, replace(given, epoch=run.epoch + 1)) == p.Fenced()
        assert (await store.load([key()]))[key()].checkpoint is None
        await advanced(store, given)
        await advanced(store, given)
        assert (await store.load([key()]))[key()].checkpoint == at(given)

    @on_fresh_store
    async def test_an_empty_checkpoint_deletes_the_last_one(self, store: p.Store) -> None:
        """So does the turn that ends a run."""
        await advanced(store, checkpointed(await leased(store)))
        await advanced(store, replace(turn(await row(store), COMPLETED), checkpoint=b""))
        assert (await store.load([key()]))[key()].checkpoint is None

    @on_fresh_store
    async def test_a_new_generation_has_no_checkpoint(self, store: p.Store) -> None:
        """Neither a generation that a turn begins nor one after an end: a checkpoint never outlives its journal."""
        await advanced(store, checkpointed(await leased(store)))
        await advanced(store, turn(await row(store), COMPLETED, renewal=renewal()))
        loaded = (await store.load([key()]))[key()]
        assert (loaded.checkpoint, loaded.segments) == (None, [renewal().segment])
        await advanced(store, replace(checkpointed(await row(store)), generation=1))
        await advanced(store, replace(turn(await row(store), COMPLETED), generation=1))
        fresh = renewal(2)
        assert await commit(store, p.Renew(key(), 1, fresh, p.Projection("queued"), NOW)) == p.Renewed(2)
        loaded = (await store.load([key()]))[key()]
        assert (loaded.checkpoint, loaded.segments) == (None, [fresh.segment])

    @on_fresh_store
    async def test_a_pruned_run_leaves_no_checkpoint(self, store: p.Store) -> None:
        """A new run under the same id has none."""
        await advanced(store, checkpointed(await leased(store)))
        await advanced(store, turn(await row(store), COMPLETED, at=NOW))
        assert await store.prune(NOW + 1, 10) == 1
        await commit(store, start())
        assert (await store.load([key()]))[key()].checkpoint is None
