"""Paused runs: they do not advance until a person resumes them."""

from __future__ import annotations

import msgspec

from holdfast.store import protocol as p
from holdfast.testing.stores.samples import (
    NOW,
    RUNNING,
    SERVES,
    WAITING,
    advanced,
    begun,
    claimed,
    commit,
    deliver,
    ended,
    key,
    leased,
    row,
    start,
    turn,
    worker,
)
from holdfast.testing.stores.topic import Topic, on_fresh_store


class Pauses(Topic):
    @on_fresh_store
    async def test_a_paused_run_shows_why(self, store: p.Store) -> None:
        """The reason and the time of change are on its row."""
        await begun(store, start())
        assert await store.pause(key(), "look first", NOW + 2) is True
        run = await row(store)
        assert (run.status, run.pause, run.standing, run.updated_at) == ("paused", "look first", "queued", NOW + 2)

    @on_fresh_store
    async def test_a_second_reason_takes_the_place_of_the_first(self, store: p.Store) -> None:
        """A run has one reason: the last."""
        await begun(store, start())
        await store.pause(key(), "first", NOW)
        assert await store.pause(key(), "second", NOW) is True
        assert (await row(store)).pause == "second"

    @on_fresh_store
    async def test_what_is_not_there_or_has_ended_cannot_be_paused(self, store: p.Store) -> None:
        """The answer is no, and nothing changes."""
        assert await store.pause(key(), "wait", NOW) is False
        before = await ended(store)
        assert await store.pause(key(), "wait", NOW) is False
        assert await store.unpause(key(), NOW) is False
        assert await row(store) == before

    @on_fresh_store
    async def test_an_unpaused_run_is_ready_from_then(self, store: p.Store) -> None:
        """Even one that was waiting: its next turn sees the messages that came since."""
        await advanced(store, turn(await leased(store), WAITING, release=True))
        await store.pause(key(), "wait", NOW)
        assert await store.unpause(key(), NOW + 5) is True
        run = await row(store)
        assert (run.pause, run.ready_at, run.updated_at, run.crashes) == (None, NOW + 5, NOW + 5, 0)
        assert await claimed(store) == ["one"]

    @on_fresh_store
    async def test_what_is_not_paused_cannot_be_unpaused(self, store: p.Store) -> None:
        """The answer is no, and nothing changes."""
        assert await store.unpause(key(), NOW) is False
        before = await begun(store, start())
        assert await store.unpause(key(), NOW + 5) is False
        assert await row(store) == before

    @on_fresh_store
    async def test_unpausing_a_leased_run_leaves_it_to_its_holder(self, store: p.Store) -> None:
        """It is not offered to anybody else."""
        run = await leased(store)
        await store.pause(key(), "wait", NOW)
        await store.unpause(key(), NOW)
        after = await row(store)
        assert (after.owner, after.epoch, after.ready_at) == ("ann", run.epoch, None)
        assert await claimed(store, worker="bob") == []

    @on_fresh_store
    async def test_unpausing_forgives_crashes(self, store: p.Store) -> None:
        """A person has looked at it: the count begins at 0 again."""
        await store.register(worker(), -1)
        await leased(store)
        await store.rescue(NOW)
        await store.pause(key(), "poison", NOW)
        await store.unpause(key(), NOW)
        assert (await row(store)).crashes == 0

    @on_fresh_store
    async def test_the_holder_of_a_paused_run_is_told_with_its_next_turn(self, store: p.Store) -> None:
        """The turn is applied, its answer carries the reason; the lease goes only with ``release``."""
        run = await leased(store)
        await store.pause(key(), "wait", NOW)
        assert await advanced(store, turn(run)) == p.Advanced(0, "wait", released=False)
        run = await row(store)
        assert (run.pause, run.owner) == ("wait", "ann")

    @on_fresh_store
    async def test_a_paused_run_is_released_although_messages_arrived(self, store: p.Store) -> None:
        """Otherwise its holder could neither advance nor release it; the messages are seen after unpausing."""
        run = await leased(store)
        await commit(store, deliver())
        await store.pause(key(), "wait", NOW)
        assert await advanced(store, turn(run, release=True)) == p.Advanced(1, "wait", released=True)
        assert await claimed(store) == []
        await store.unpause(key(), NOW)
        (again,) = (await store.claim("bob", SERVES, 1, NOW)).runs
        assert (again.arrived, again.consumed) == (1, 0)

    @on_fresh_store
    async def test_a_turn_may_park_its_own_run(self, store: p.Store) -> None:
        """A projection with a pause stops the run, with the reason in its row."""
        run = await leased(store)
        await commit(store, deliver())
        parked = p.Projection("running", pause="the code no longer matches")
        answer = await advanced(store, turn(run, parked, count=0, release=True))
        assert answer == p.Advanced(1, "the code no longer matches", released=True)
        after = await row(store)
        assert (after.status, after.pause) == ("paused", "the code no longer matches")
        assert await claimed(store) == []

    @on_fresh_store
    async def test_a_turn_does_not_park_a_run_that_got_a_cancellation_meanwhile(self, store: p.Store) -> None:
        """It is as if the cancellation had come after the pause: the run is ready, and what killed it is forgotten."""
        run = await leased(store)
        cancel = p.Message(p.CANCEL, b"enough", NOW + 3)
        assert await commit(store, p.Deliver(key(), cancel, unpauses=True)) == p.Delivered(1)
        parked = p.Projection("waiting", pause="the code no longer matches")
        assert await advanced(store, turn(run, parked, count=0, release=True)) == p.Advanced(1, None, released=True)
        after = await row(store)
        assert (after.pause, after.ready_at, after.updated_at) == (None, NOW + 3, NOW + 3)
        assert await claimed(store) == ["one"]

    @on_fresh_store
    async def test_a_turn_parks_for_what_it_has_heard(self, store: p.Store) -> None:
        """A cancellation that it knows of did not help, and other messages move nothing."""
        run = await leased(store)
        cancel = p.Message(p.CANCEL, b"enough", NOW)
        await store.commit([p.Deliver(key(), cancel, unpauses=True), deliver()])
        parked = p.Projection("waiting", pause="the code no longer matches")
        change = msgspec.structs.replace(turn(run, parked, count=0, release=True), heard=1)
        assert await advanced(store, change) == p.Advanced(2, parked.pause, released=True)
        assert await claimed(store) == []

    @on_fresh_store
    async def test_a_turn_does_not_park_where_it_took_in_less_than_the_cancellation(self, store: p.Store) -> None:
        """What it took in is gone from the inbox, the cancellation is not."""
        run = await leased(store)
        cancel = p.Message(p.CANCEL, b"enough", NOW)
        await store.commit([deliver(), p.Deliver(key(), cancel, unpauses=True)])
        parked = p.Projection("waiting", pause="the code no longer matches")
        assert await advanced(store, turn(run, parked, consumed=1, release=True)) == p.Advanced(2, None, released=True)
        assert await claimed(store) == ["one"]
        assert [position for position, _ in (await store.messages([key()]))[key()]] == [2]

    @on_fresh_store
    async def test_a_run_that_a_person_has_paused_stays_paused(self, store: p.Store) -> None:
        """The person came after the cancellation, which may be in the inbox still."""
        run = await leased(store)
        await commit(store, p.Deliver(key(), p.Message(p.CANCEL, b"enough", NOW), unpauses=True))
        await store.pause(key(), "wait", NOW)
        parked = p.Projection("waiting", pause="the code no longer matches")
        answer = await advanced(store, turn(run, parked, count=0, release=True))
        assert answer == p.Advanced(1, "the code no longer matches", released=True)
        assert await claimed(store) == []

    @on_fresh_store
    async def test_a_turn_without_a_pause_does_not_unpause(self, store: p.Store) -> None:
        """Only ``unpause`` does."""
        run = await leased(store)
        await store.pause(key(), "wait", NOW)
        await advanced(store, turn(run, RUNNING, release=True))
        assert (await row(store)).pause == "wait"

    @on_fresh_store
    async def test_a_paused_run_receives_messages_and_stays_paused(self, store: p.Store) -> None:
        """Nothing sent to it is lost."""
        await begun(store, start())
        await store.pause(key(), "wait", NOW)
        assert await commit(store, deliver()) == p.Delivered(1)
        assert await claimed(store) == []

    @on_fresh_store
    async def test_a_run_may_start_paused(self, store: p.Store) -> None:
        """It exists, and continues when it is resumed."""
        await begun(store, start(projection=p.Projection("queued", pause="held")))
        assert await claimed(store) == []
        await store.unpause(key(), NOW)
        assert await claimed(store) == ["one"]
