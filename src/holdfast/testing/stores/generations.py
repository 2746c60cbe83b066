"""Generations: the same run with a fresh journal, under the lease it has or after its end."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.testing.stores.samples import (
    COMPLETED,
    NOW,
    SERVES,
    advanced,
    begun,
    claimed,
    commit,
    deliver,
    ended,
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


class Generations(Topic):
    @on_fresh_store
    async def test_a_turn_may_begin_the_next_generation(self, store: p.Store) -> None:
        """The old journal gets its last segment, the new one its first; the lease and the id stay."""
        run = await leased(store)
        fresh = renewal()
        answer = await advanced(store, turn(run, COMPLETED, renewal=fresh, at=NOW + 4))
        assert answer == p.Advanced(0, None, released=False)
        after = await row(store)
        assert (after.generation, after.version, after.head, after.root) == (1, 2, fresh.segment.head, fresh.root)
        assert (after.status, after.ended_at, after.owner, after.epoch) == ("running", None, "ann", run.epoch)
        assert await store.segments(key(), 0, 0, 10) == [segment(), segment(2, 1, at=NOW + 4)]
        assert await store.segments(key(), 1, 0, 10) == [fresh.segment]
        assert (await store.load([key()]))[key()].segments == [fresh.segment]

    @on_fresh_store
    async def test_the_next_generation_goes_on_with_the_inbox(self, store: p.Store) -> None:
        """Messages that were not consumed stay, and positions continue."""
        run = await leased(store)
        await store.commit([deliver(body="a"), deliver(body="b")])
        await advanced(store, turn(run, COMPLETED, consumed=1, renewal=renewal()))
        assert (await store.messages([key()]))[key()] == [p.Received(2, message("b"))]
        assert await commit(store, deliver()) == p.Delivered(3)

    @on_fresh_store
    async def test_the_last_generations_turns_are_fenced(self, store: p.Store) -> None:
        """Same epoch, same version, another generation."""
        run = await leased(store)
        await advanced(store, turn(run, COMPLETED, renewal=renewal()))
        assert await commit(store, turn(run)) == p.Fenced()
        after = await row(store)
        assert after.version == run.version
        await advanced(store, turn(after))

    @on_fresh_store
    async def test_a_renewing_turn_committed_again_is_recognised(self, store: p.Store) -> None:
        """By the head of the new journal; nothing is made twice."""
        run = await leased(store)
        change = turn(run, COMPLETED, renewal=renewal())
        first = await commit(store, change)
        after = await row(store)
        assert await commit(store, change) == first
        assert await row(store) == after
        assert await store.segments(key(), 1, 0, 10) == [renewal().segment]
        assert await commit(store, replace(change, renewal=renewal(2))) == p.Fenced()

    @on_fresh_store
    async def test_an_ended_run_is_renewed_and_ready(self, store: p.Store) -> None:
        """It is the same run in its next generation, not ended, at a raised epoch."""
        first = await begun(store, start(owner="ann", attributes={"a": "b"}))
        await advanced(store, turn(first, p.Projection("failed", error="no", cancelling=True)))
        before = await row(store)
        fresh = renewal()
        change = p.Renew(key(), 0, fresh, p.Projection("queued"), NOW + 8)
        assert await commit(store, change) == p.Renewed(1)
        assert await row(store) == replace(
            before,
            generation=1,
            version=2,
            head=fresh.segment.head,
            root=fresh.root,
            standing="queued",
            cancelling=False,
            epoch=before.epoch + 1,
            ready_at=NOW + 8,
            error=None,
            updated_at=NOW + 8,
            ended_at=None,
        )
        assert await store.segments(key(), 1, 0, 10) == [fresh.segment]
        (run,) = (await store.claim("bob", SERVES, 1, NOW)).runs
        await advanced(store, turn(run))

    @on_fresh_store
    async def test_only_an_ended_run_of_that_generation_is_renewed(self, store: p.Store) -> None:
        """Running, missing and already renewed runs are fenced."""
        change = p.Renew(key(), 0, renewal(), p.Projection("queued"), NOW)
        assert await commit(store, change) == p.Fenced()
        run = await leased(store)
        assert await commit(store, change) == p.Fenced()
        assert await row(store) == run
        await advanced(store, turn(run, COMPLETED))
        assert await commit(store, replace(change, generation=1)) == p.Fenced()
        assert await store.commit([change, change]) == [p.Renewed(1), p.Fenced()]
        assert (await row(store)).generation == 1

    @on_fresh_store
    async def test_messages_reach_a_renewed_run(self, store: p.Store) -> None:
        """Even one whose id was refused after the run had ended; one delivered before is still a repetition."""
        run = await leased(store)
        await commit(store, deliver(id="before"))
        await advanced(store, turn(run, COMPLETED, consumed=1))
        assert await commit(store, deliver(id="meanwhile")) == p.Gone()
        await commit(store, p.Renew(key(), 0, renewal(), p.Projection("queued"), NOW))
        answers = await store.commit([deliver(id="before"), deliver(id="meanwhile")])
        assert answers == [p.Repeated(), p.Delivered(2)]

    @on_fresh_store
    async def test_a_renewed_run_does_not_look_for_messages_that_went_with_its_end(self, store: p.Store) -> None:
        """Its inbox was cleared: what it had not taken in is never found, and who looks for it would look for ever."""
        run = await leased(store)
        await commit(store, deliver(id="too late"))
        await advanced(store, turn(run, COMPLETED))
        await commit(store, p.Renew(key(), 0, renewal(), p.Projection("queued"), NOW))
        found = await row(store)
        assert (found.arrived, found.consumed) == (1, 1)
        assert (await store.messages([key()])).get(key(), []) == []

    @on_fresh_store
    async def test_the_journals_of_all_generations_can_be_read(self, store: p.Store) -> None:
        """Each under its number."""
        await ended(store)
        await commit(store, p.Renew(key(), 0, renewal(1), p.Projection("queued"), NOW))
        assert await claimed(store) == ["one"]
        await advanced(store, turn(await row(store), COMPLETED, renewal=renewal(2)))
        journals = [await store.segments(key(), generation, 0, 10) for generation in range(4)]
        assert [len(journal) for journal in journals] == [2, 2, 1, 0]
