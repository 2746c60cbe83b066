"""Admission: the queued runs that a claim with limits lets begin, and those that it never holds back."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.testing.stores.samples import (
    COMPLETED,
    NOW,
    RUNNING,
    SECOND,
    SERVES,
    WAITING,
    WORKFLOW,
    advanced,
    begun,
    commit,
    deliver,
    key,
    renewal,
    row,
    start,
    turn,
)
from holdfast.testing.stores.topic import Topic, on_fresh_store

MINUTE: Final = 60 * SECOND


def limits(concurrency: int | None = None, per_min: int | None = None, **weights: int) -> p.Limits:
    """The same caps for all tenants, with weights by tenant."""
    cap = p.Cap(concurrency, per_min)
    return p.Limits(p.TenantLimits(cap), {tenant: p.TenantLimits(cap, weight) for tenant, weight in weights.items()})


async def admitted(
    store: p.Store,
    wanted: p.Limits | None,
    room: int = 100,
    *,
    now: int = NOW,
    workflows: tuple[str, ...] = (WORKFLOW,),
) -> list[str]:
    """The ids of the runs that a claim with limits gives."""
    claim = await store.claim("ann", p.Serves(workflows), room, now, wanted)
    return [run.key.run for run in claim.runs]


async def queue(store: p.Store, *runs: str, tenant: str = "acme", workflow: str = WORKFLOW, at: int = NOW) -> None:
    """Start runs that wait for a worker, one microsecond apart."""
    await store.commit([start(run, tenant=tenant, workflow=workflow, at=at + place) for place, run in enumerate(runs)])


async def place(store: p.Store, workspace: str, *runs: str, at: int = NOW, priority: int = 0) -> None:
    """Queue runs of a workspace."""
    starts = [start(run, at=at + place, priority=priority) for place, run in enumerate(runs)]
    await store.commit([replace(each, origin=p.Origin(workspace)) for each in starts])


async def end(store: p.Store, run: str) -> None:
    await advanced(store, turn(await row(store, run), COMPLETED))


class Admission(Topic):
    @on_fresh_store
    async def test_a_claim_with_limits_leases_as_any_other(self, store: p.Store) -> None:
        """The claim gives the run's new row: owned, begun, at a raised epoch."""
        before = await begun(store, start())
        (run,) = (await store.claim("ann", SERVES, 10, NOW + 5, limits(1))).runs
        assert (run.owner, run.begun_at, run.epoch, run.ready_at) == ("ann", NOW + 5, before.epoch + 1, None)
        assert await row(store) == run
        await advanced(store, turn(run))

    @on_fresh_store
    async def test_a_tenant_begins_no_more_runs_than_its_cap(self, store: p.Store) -> None:
        """Runs are under way from their first lease to their end, even while they wait."""
        await queue(store, "a", "b", "c", "d")
        assert await admitted(store, limits(2)) == ["a", "b"]
        assert await admitted(store, limits(2)) == []
        await advanced(store, turn(await row(store, "a"), WAITING, release=True))
        assert await admitted(store, limits(2)) == []
        await end(store, "b")
        assert await admitted(store, limits(2)) == ["c"]

    @on_fresh_store
    async def test_a_run_born_under_way_counts(self, store: p.Store) -> None:
        """A run that its starter leases has begun."""
        await begun(store, start("born", projection=RUNNING, owner="bob"))
        await queue(store, "a", "b")
        assert await admitted(store, limits(2)) == ["a"]

    @on_fresh_store
    async def test_a_cap_of_none_admits_no_one(self, store: p.Store) -> None:
        """A cap of 0 is a limit, too; without limits all are claimed as usual."""
        await queue(store, "a", "b")
        assert await admitted(store, limits(0)) == []
        assert await admitted(store, limits(per_min=0)) == []
        assert sorted(await admitted(store, limits())) == ["a", "b"]
        await queue(store, "c")
        assert await admitted(store, None) == ["c"]

    @on_fresh_store
    async def test_priority_leads_within_a_tenant_then_age(self, store: p.Store) -> None:
        """The same order as in a claim without limits."""
        await store.commit(
            [
                start("late", at=NOW + 2),
                start("early", at=NOW + 1),
                start("urgent", at=NOW + 3, priority=5),
                start("idle", at=NOW, priority=-5),
            ]
        )
        order = [await admitted(store, limits(100), 1) for _ in range(5)]
        assert order == [["urgent"], ["early"], ["late"], ["idle"], []]

    @on_fresh_store
    async def test_a_claim_with_limits_gives_no_more_than_its_room(self, store: p.Store) -> None:
        """Runs under way and runs that begin share it."""
        await queue(store, "a", "b", "c", "d")
        assert await admitted(store, limits(100), 1) == ["a"]
        await advanced(store, turn(await row(store, "a"), WAITING, release=True))
        await commit(store, deliver("a"))
        assert sorted(await admitted(store, limits(100), 2)) == ["a", "b"]
        assert await admitted(store, limits(100), 0) == []

    @on_fresh_store
    async def test_a_resuming_run_needs_no_place(self, store: p.Store) -> None:
        """It has its place: a tenant at its cap continues its runs under way, before new ones begin."""
        await queue(store, "a", "b")
        assert await admitted(store, limits(1)) == ["a"]
        await advanced(store, turn(await row(store, "a"), WAITING, release=True))
        await commit(store, deliver("a", at=NOW + SECOND))
        assert await admitted(store, limits(1), 1) == ["a"]

    @on_fresh_store
    async def test_a_rescued_run_needs_no_place(self, store: p.Store) -> None:
        """Runs keep their places when their worker leaves."""
        await queue(store, "a", "b")
        assert await admitted(store, limits(1)) == ["a"]
        await store.unregister("ann", NOW)
        assert await admitted(store, limits(1)) == ["a"]

    @on_fresh_store
    async def test_children_need_no_place_and_take_none(self, store: p.Store) -> None:
        """A child that waited for its parent's place would wait for ever."""
        await queue(store, "mother")
        assert await admitted(store, limits(1, 1)) == ["mother"]
        await store.commit([start("child", parent="mother"), start("second", parent="mother", at=NOW + 1)])
        assert sorted(await admitted(store, limits(1, 1))) == ["child", "second"]
        await end(store, "mother")
        await queue(store, "next")
        assert await admitted(store, limits(1, 2)) == ["next"]

    @on_fresh_store
    async def test_a_retried_run_asks_for_a_place_again(self, store: p.Store) -> None:
        """It gave up its place when it ended: otherwise more runs than the cap could be under way."""
        await queue(store, "a")
        await admitted(store, limits(1))
        await advanced(store, turn(await row(store, "a"), p.Projection("failed")))
        await queue(store, "b", "c")
        assert await admitted(store, limits(1)) == ["b"]
        await commit(store, p.Renew(key("a"), 0, renewal(), p.Projection("queued"), NOW - 5))
        assert await admitted(store, limits(1)) == []
        await end(store, "b")
        assert await admitted(store, limits(1)) == ["a"]
        assert await admitted(store, limits(1)) == []
        await end(store, "a")
        assert await admitted(store, limits(1)) == ["c"]

    @on_fresh_store
    async def test_paused_and_unknown_runs_do_not_begin(self, store: p.Store) -> None:
        """Nor do they hold up those after them."""
        await queue(store, "paused", "a")
        await queue(store, "foreign", workflow="other", at=NOW - 9)
        await store.pause(key("paused"), "wait", NOW)
        assert await admitted(store, limits(1)) == ["a"]

    @on_fresh_store
    async def test_a_tenant_begins_no_more_runs_in_a_minute_than_its_rate(self, store: p.Store) -> None:
        """Runs that have ended since count, too; the claim gives the time when the next may begin."""
        await queue(store, "a", "b", "c", "d")
        rate = limits(per_min=2)
        assert await admitted(store, rate, 1) == ["a"]
        claim = await store.claim("ann", SERVES, 10, NOW + 10 * SECOND, rate)
        assert [run.key.run for run in claim.runs] == ["b"]
        assert claim.next_wake_at == NOW + MINUTE
        await end(store, "a")
        claim = await store.claim("ann", SERVES, 10, NOW + MINUTE - 1, rate)
        assert (claim.runs, claim.next_wake_at) == ([], NOW + MINUTE)
        assert await admitted(store, rate, now=NOW + MINUTE) == ["c"]
        claim = await store.claim("ann", SERVES, 10, NOW + MINUTE, rate)
        assert (claim.runs, claim.next_wake_at) == ([], NOW + MINUTE + 10 * SECOND)

    @on_fresh_store
    async def test_the_earlier_of_a_timer_and_a_rate_is_told(self, store: p.Store) -> None:
        """A claimer sleeps until the earliest of them; a cap without a rate gives no time."""
        await queue(store, "a", "b")
        assert (await store.claim("ann", SERVES, 10, NOW, limits(1))).next_wake_at is None
        rate = limits(per_min=1)
        assert (await store.claim("ann", SERVES, 10, NOW, rate)).next_wake_at == NOW + MINUTE
        await begun(store, start("late", projection=p.Projection("waiting", NOW + 2 * MINUTE), parent="a"))
        assert (await store.claim("ann", SERVES, 10, NOW, rate)).next_wake_at == NOW + MINUTE
        await begun(store, start("soon", projection=p.Projection("waiting", NOW + SECOND), parent="a"))
        assert (await store.claim("ann", SERVES, 10, NOW, rate)).next_wake_at == NOW + SECOND

    @on_fresh_store
    async def test_each_tenant_has_caps_of_its_own(self, store: p.Store) -> None:
        """One at its cap does not hold up another; a tenant that is named has its own numbers."""
        for tenant in ("acme", "bolt"):
            await queue(store, *(f"{tenant} {number}" for number in range(4)), tenant=tenant)
        wanted = p.Limits(p.TenantLimits(p.Cap(1)), {"bolt": p.TenantLimits(p.Cap(3))})
        assert sorted(await admitted(store, wanted)) == ["acme 0", "bolt 0", "bolt 1", "bolt 2"]

    @on_fresh_store
    async def test_a_workflow_at_its_cap_holds_up_no_other(self, store: p.Store) -> None:
        """Even if many of its runs wait in front, and the claim has little room."""
        await queue(store, *(f"a{number}" for number in range(20)), workflow="busy")
        await queue(store, "b", workflow="other", at=NOW + SECOND)
        wanted = p.Limits(p.TenantLimits(workflows={"busy": p.Cap(1)}))
        both = ("busy", "other")
        assert await admitted(store, wanted, 1, workflows=both) == ["a0"]
        assert await admitted(store, wanted, 1, workflows=both) == ["b"]
        assert await admitted(store, wanted, 1, workflows=both) == []

    @on_fresh_store
    async def test_a_workflow_has_a_rate_of_its_own(self, store: p.Store) -> None:
        """Beside that of its tenant: both must let a run begin."""
        await queue(store, "a", "b", workflow="busy")
        await queue(store, "c", "d", workflow="other", at=NOW + SECOND)
        wanted = p.Limits(p.TenantLimits(p.Cap(None, 3), workflows={"busy": p.Cap(None, 1)}))
        assert await admitted(store, wanted, workflows=("busy", "other")) == ["a", "c", "d"]

    @on_fresh_store
    async def test_tenants_share_a_claim_fairly(self, store: p.Store) -> None:
        """The one with the fewest runs under way comes first: a long queue does not starve a short one."""
        await queue(store, *(f"a{number}" for number in range(20)), tenant="acme")
        await queue(store, "b0", "b1", tenant="bolt", at=NOW + SECOND)
        assert sorted(await admitted(store, limits(), 4)) == ["a0", "a1", "b0", "b1"]
        await queue(store, "c0", "c1", "c2", tenant="carol", at=NOW + MINUTE)
        assert sorted(await admitted(store, limits(), 2)) == ["c0", "c1"]

    @on_fresh_store
    async def test_a_tenant_of_greater_weight_has_a_greater_share(self, store: p.Store) -> None:
        """Three for each one of the other."""
        for tenant in ("acme", "bolt"):
            await queue(store, *(f"{tenant} {number}" for number in range(20)), tenant=tenant)
        given = await admitted(store, limits(acme=1, bolt=3), 8)
        assert sum(run.startswith("bolt") for run in given) == 6

    @on_fresh_store
    async def test_workspaces_of_a_tenant_share_a_claim_fairly(self, store: p.Store) -> None:
        """A longer queue gives no advantage, runs under way count, and an urgent run does not wait for its turn."""
        await place(store, "north", "a", "b", "c", "d")
        await place(store, "south", "e", "f", at=NOW + 100)
        assert await admitted(store, limits(100), 3) == ["a", "e", "b"]
        await end(store, "a")
        await end(store, "b")
        assert await admitted(store, limits(100), 2) == ["c", "d"]
        await place(store, "south", "g", "h", at=NOW + 200)
        await place(store, "north", "i", at=NOW + 300, priority=1)
        assert await admitted(store, limits(100), 3) == ["i", "f", "g"]

    @on_fresh_store
    async def test_a_tenants_cap_counts_all_its_workspaces(self, store: p.Store) -> None:
        """They share its places, and get free places in turn."""
        await place(store, "north", "a", "b", "c")
        assert await admitted(store, limits(2)) == ["a", "b"]
        await place(store, "south", "d", at=NOW + 100)
        assert await admitted(store, limits(2)) == []
        assert await admitted(store, limits(3)) == ["d"]

    @on_fresh_store
    async def test_two_claims_admit_no_more_than_one(self, store: p.Store) -> None:
        """The runs that one worker has begun count for the next one at once."""
        await queue(store, "a", "b", "c")
        given = []
        for worker in ("ann", "bob", "carl"):
            claim = await store.claim(worker, SERVES, 1, NOW, limits(2))
            given += [run.key.run for run in claim.runs]
        assert given == ["a", "b"]
