"""A run's row: its origin, and its facts for the gate."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.testing.stores.governance.samples import bodies, note
from holdfast.testing.stores.samples import (
    NOW,
    RUNNING,
    SERVES,
    WAITING,
    WORKFLOW,
    advanced,
    begun,
    commit,
    deliver,
    ended,
    key,
    renewal,
    row,
    start,
    turn,
)
from holdfast.testing.stores.topic import Topic, on_fresh_store


class Origins(Topic):
    @on_fresh_store
    async def test_a_run_keeps_where_it_came_from(self, store: p.Store) -> None:
        """Workspace, actor and trigger are in its row, for good."""
        origin = p.Origin("finance", "ann@example.org", "webhook", "invoice 7")
        run = await begun(store, replace(start(projection=RUNNING, owner="ann"), origin=origin))
        assert (run.workspace, run.actor, run.trigger_type, run.trigger_ref) == (
            "finance",
            "ann@example.org",
            "webhook",
            "invoice 7",
        )
        await advanced(store, turn(run))
        after = await row(store)
        assert (after.workspace, after.actor, after.trigger_type, after.trigger_ref) == (
            "finance",
            "ann@example.org",
            "webhook",
            "invoice 7",
        )

    @on_fresh_store
    async def test_a_run_without_an_origin_says_so(self, store: p.Store) -> None:
        """A run without an actor has none in its row."""
        run = await begun(store, start())
        assert (run.workspace, run.actor, run.trigger_type, run.trigger_ref) == ("", None, None, None)

    @on_fresh_store
    async def test_a_trigger_starts_one_run_of_a_tenant(self, store: p.Store) -> None:
        """Whatever the ids, also within one batch and beside a person's note. Another tenant's is another."""
        answers = await store.commit(
            [
                start("one", trigger_key=b"hook"),
                start("two", trigger_key=b"hook"),
                start("two", trigger_key=b"mail"),
                start("one", tenant="bolt", trigger_key=b"hook"),
            ]
        )
        there = p.Exists(WORKFLOW, b"greet one", "one")
        assert answers == [p.Started(1), there, p.Started(1), p.Started(1)]
        assert await commit(store, start("three", trigger_key=b"hook", owner="ann", attached=(note(),))) == there
        assert await commit(store, p.Operate(note(id="a"), (start("three", trigger_key=b"hook"),))) == there
        assert await bodies(store) == []
        assert await store.get([key("three")]) == []

    @on_fresh_store
    async def test_the_run_of_a_trigger_is_found_before_that_of_an_id(self, store: p.Store) -> None:
        """A run that other starts have made, as forks and instances are, is not the trigger's."""
        await store.commit([start("one", trigger_key=b"hook"), start("two")])
        assert await commit(store, start("two", trigger_key=b"hook")) == p.Exists(WORKFLOW, b"greet one", "one")
        assert await commit(store, start("two", trigger_key=b"mail")) == p.Exists(WORKFLOW, b"greet two", "two")
        assert await commit(store, start("three", trigger_key=b"mail")) == p.Started(1)

    @on_fresh_store
    async def test_the_same_start_of_a_trigger_is_recognised(self, store: p.Store) -> None:
        """Its answer may have been lost: it is not told that the run is another's."""
        leased = start("one", trigger_key=b"hook", owner="ann")
        assert await store.commit([leased]) == await store.commit([leased]) == [p.Started(1)]

    @on_fresh_store
    async def test_a_trigger_may_start_a_run_again_once_its_run_is_pruned(self, store: p.Store) -> None:
        """Nothing is known of the first any more."""
        failed = p.Projection("failed", error="no")
        await begun(store, start("one", projection=failed, trigger_key=b"hook"))
        assert await store.prune(NOW + 1, 10) == 1
        assert await commit(store, start("two", trigger_key=b"hook")) == p.Started(1)

    @on_fresh_store
    async def test_a_run_begins_where_it_is_first_leased(self, store: p.Store) -> None:
        """A queued run has not begun; later leases do not change the time when it began."""
        assert (await begun(store, start())).begun_at is None
        (run,) = (await store.claim("ann", SERVES, 1, NOW + 5)).runs
        assert run.begun_at == NOW + 5
        await advanced(store, turn(run, WAITING, release=True))
        await commit(store, deliver())
        (again,) = (await store.claim("bob", SERVES, 1, NOW + 9)).runs
        assert again.begun_at == NOW + 5 == (await row(store)).begun_at

    @on_fresh_store
    async def test_a_run_that_starts_with_its_first_turn_has_begun(self, store: p.Store) -> None:
        """Whether its worker keeps it or not."""
        assert (await begun(store, start("one", projection=RUNNING, owner="ann", at=NOW + 1))).begun_at == NOW + 1
        assert (await begun(store, start("two", projection=WAITING, at=NOW + 2))).begun_at == NOW + 2

    @on_fresh_store
    async def test_a_renewed_run_begins_anew(self, store: p.Store) -> None:
        """When its next generation is leased, and not before."""
        await begun(store, start())
        (run,) = (await store.claim("ann", SERVES, 1, NOW + 5)).runs
        await advanced(store, turn(run, p.Projection("failed")))
        await commit(store, p.Renew(key(), 0, renewal(), p.Projection("queued"), NOW + 9))
        assert (await row(store)).begun_at is None
        (again,) = (await store.claim("ann", SERVES, 1, NOW + 12)).runs
        assert again.begun_at == NOW + 12

    @on_fresh_store
    async def test_a_run_that_was_governed_once_stays_governed(self, store: p.Store) -> None:
        """A later turn does not undo that; the writes are those that its last turn counted."""
        run = await begun(store, start(projection=RUNNING, owner="ann"))
        assert (run.governed, run.writes) == (False, 0)
        for projection, expected in (
            (p.Projection("running", governed=True, writes=1), (True, 1)),
            (p.Projection("running", governed=False, writes=3), (True, 3)),
            (p.Projection("completed", governed=False, writes=3), (True, 3)),
        ):
            await advanced(store, turn(await row(store), projection))
            after = await row(store)
            assert (after.governed, after.writes) == expected

    @on_fresh_store
    async def test_a_first_turn_may_be_governed(self, store: p.Store) -> None:
        """The start shows it as a turn does."""
        run = await begun(store, start(projection=p.Projection("waiting", governed=True, writes=2)))
        assert (run.governed, run.writes, run.evidence) == (True, 2, None)

    @on_fresh_store
    async def test_every_reading_shows_the_same_row(self, store: p.Store) -> None:
        """Found, got, claimed and leased, a run is the same."""
        origin = p.Origin("finance", "ann", "schedule", "nightly")
        await begun(store, replace(start(), origin=origin))
        (run,) = (await store.claim("ann", SERVES, 1, NOW + 5)).runs
        assert await store.find(p.Query(), 10) == [run]
        assert await row(store) == run
        assert (await store.leased("ann")).runs == [run]
        await commit(store, deliver())
        assert await store.arrivals("ann") == [replace(run, arrived=1)]
        assert (await ended(store, "two")).workspace == ""
