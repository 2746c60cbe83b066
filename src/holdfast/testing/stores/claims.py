"""Claims: which ready runs a worker gets, and in which order."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.testing.stores.samples import (
    NOW,
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
)
from holdfast.testing.stores.topic import Topic, on_fresh_store


class Claims(Topic):
    @on_fresh_store
    async def test_a_claim_leases_a_ready_run(self, store: p.Store) -> None:
        """The claim gives the run's new row: owned, at a raised epoch, begun, no longer ready."""
        before = await begun(store, start())
        claim = await store.claim("ann", SERVES, 10, NOW + 5)
        expected = replace(before, owner="ann", epoch=before.epoch + 1, ready_at=None, begun_at=NOW + 5)
        assert claim.runs == [expected]
        assert await row(store) == expected
        await advanced(store, turn(expected))

    @on_fresh_store
    async def test_a_leased_run_is_not_claimed_again(self, store: p.Store) -> None:
        """Neither by another worker nor by its holder."""
        await begun(store, start())
        assert await claimed(store, worker="ann") == ["one"]
        assert await claimed(store, worker="bob") == []
        assert await claimed(store, worker="ann") == []

    @on_fresh_store
    async def test_higher_priority_is_claimed_first_then_older(self, store: p.Store) -> None:
        """Highest priority first; among equals, the longest ready."""
        await store.commit(
            [
                start("late", at=NOW + 2),
                start("early", at=NOW + 1),
                start("urgent", at=NOW + 3, priority=5),
                start("idle", at=NOW, priority=-5),
            ]
        )
        order = [await claimed(store, 1) for _ in range(5)]
        assert order == [["urgent"], ["early"], ["late"], ["idle"], []]

    @on_fresh_store
    async def test_a_claim_gives_no_more_than_its_limit(self, store: p.Store) -> None:
        """The best ones within the limit; the others stay ready."""
        await store.commit([start(name, at=NOW + at) for at, name in enumerate("abcde")])
        assert sorted(await claimed(store, 2)) == ["a", "b"]
        assert await claimed(store, 0) == []
        assert sorted(await claimed(store, 10)) == ["c", "d", "e"]

    @on_fresh_store
    async def test_age_is_counted_from_when_a_run_became_ready(self, store: p.Store) -> None:
        """An old run that a message has just woken comes after one that has waited for a worker."""
        run = await leased(store, "old")
        await advanced(store, turn(run, WAITING, release=True))
        await begun(store, start("new", at=NOW + 5))
        await commit(store, deliver("old", at=NOW + 9))
        assert [await claimed(store, 1), await claimed(store, 1)] == [["new"], ["old"]]

    @on_fresh_store
    async def test_only_known_workflows_are_claimed(self, store: p.Store) -> None:
        """A worker gets no run whose code it does not have."""
        await store.commit(
            [start("one", workflow="greet"), start("two", workflow="other"), start("three", workflow="x")]
        )
        assert (await store.claim("ann", p.Serves(), 10, NOW)).runs == []
        assert (await store.claim("ann", p.Serves(("unheard",)), 10, NOW)).runs == []
        claim = await store.claim("ann", p.Serves(("greet", "other")), 10, NOW)
        assert {run.key.run for run in claim.runs} == {"one", "two"}
        assert (await row(store, "three")).owner is None

    @on_fresh_store
    async def test_a_paused_run_is_not_claimed(self, store: p.Store) -> None:
        """Not while it is paused."""
        await begun(store, start())
        await store.pause(key(), "wait", NOW)
        assert await claimed(store) == []

    @on_fresh_store
    async def test_an_ended_run_is_not_claimed(self, store: p.Store) -> None:
        """It has ended."""
        await ended(store)
        assert await claimed(store) == []

    @on_fresh_store
    async def test_a_waiting_run_is_not_claimed_before_something_arrives(self, store: p.Store) -> None:
        """It only waits; a message makes it ready, and the claim shows that it arrived."""
        await advanced(store, turn(await leased(store), WAITING, release=True))
        assert await claimed(store) == []
        await commit(store, deliver())
        (run,) = (await store.claim("bob", SERVES, 1, NOW)).runs
        assert (run.key.run, run.arrived, run.consumed) == ("one", 1, 0)

    @on_fresh_store
    async def test_runs_of_all_tenants_are_claimed(self, store: p.Store) -> None:
        """A worker serves every tenant of the store."""
        await store.commit([start(tenant="acme"), start(tenant="bolt")])
        claim = await store.claim("ann", SERVES, 10, NOW)
        assert {run.key.tenant for run in claim.runs} == {"acme", "bolt"}
