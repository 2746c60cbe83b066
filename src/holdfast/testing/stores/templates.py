"""Instances of templates in a store: caps that are items hold for every claim, and a story comes before a deletion."""

from __future__ import annotations

import msgspec

from holdfast.store import protocol as p
from holdfast.testing.stores.governance.admission import MINUTE, admitted, end, limits, place
from holdfast.testing.stores.governance.samples import note
from holdfast.testing.stores.items import put
from holdfast.testing.stores.samples import COMPLETED, NOW, TENANT, advanced, begun, commit, row, start, turn
from holdfast.testing.stores.topic import Topic, on_fresh_store


def cap_row(key: p.ItemKey, version: int = 1, status: str = p.CAP_SET, **cap: int) -> p.ItemRow:
    """An item that sets a cap."""
    return p.ItemRow(*key, version, msgspec.json.encode(p.SetCap(**cap)), status, None, NOW)


async def queue_instances(store: p.Store, template: str, *runs: str, at: int = NOW) -> None:
    """Start instances of a template, one microsecond apart."""
    for index, run in enumerate(runs):
        await begun(store, start(run, attributes={"template": template}, at=at + index))


async def keep_story(store: p.Store, run: p.Run) -> None:
    """Note an instance's story."""
    await store.commit([msgspec.structs.replace(note("story", run=run.key.run), id=p.story_id(run))])


class TemplateTopic(Topic):
    @on_fresh_store
    async def test_a_claim_keeps_to_the_caps_of_templates(self, store: p.Store) -> None:
        """Also where none are given: in order, and the instances of one template do not hold up another's."""
        await put(store, cap_row(p.cap_key(TENANT, template="t"), max_concurrency=1))
        await queue_instances(store, "t", "one", "two")
        await queue_instances(store, "u", "three", at=NOW + 5)
        await begun(store, start("plain", at=NOW + 9))
        assert await admitted(store, None) == ["one", "three", "plain"]
        assert await admitted(store, None) == []
        await end(store, "one")
        assert await admitted(store, None) == ["two"]

    @on_fresh_store
    async def test_where_caps_are_set_only_a_claim_lets_a_run_begin(self, store: p.Store) -> None:
        """From the commit of a cap on a start that leases its run, or ends it at once, is refused; a queued one is not,
        nor are children and other tenants. One that was made before is recognised."""
        before = start("before", owner="ann")
        await begun(store, before)
        await put(store, cap_row(p.cap_key(TENANT), max_concurrency=9))
        assert await commit(store, before) == p.Started(1)
        for run, change in (("leased", start("leased", owner="ann")), ("done", start("done", projection=COMPLETED))):
            assert await commit(store, change) == p.Limited()
            assert await store.get([p.Key(TENANT, run)]) == []
        assert isinstance(await commit(store, start("before", at=NOW + 1, owner="bob")), p.Exists)
        elsewhere = start("other", tenant="bolt", owner="ann")
        several = await store.commit([start("leased", owner="ann"), start("queued"), elsewhere])
        assert several == [p.Limited(), p.Started(1), p.Started(1)]
        await begun(store, start("before~1", parent="before", owner="ann"))
        await put(store, cap_row(p.cap_key(TENANT), 2, p.CAP_UNSET), id="act 2")
        await begun(store, start("leased", owner="ann"))

    @on_fresh_store
    async def test_a_claim_says_whether_caps_held(self, store: p.Store) -> None:
        """From the commit of a cap to the commit that takes it away."""
        key = p.cap_key(TENANT, template="t")
        for version, status, limited in ((1, p.CAP_SET, True), (2, "none", False), (3, p.CAP_SET, True)):
            await put(store, cap_row(key, version, status, max_concurrency=0), id=f"act {version}")
            await queue_instances(store, "t", f"run {version}")
            claim = await store.claim("ann", p.Serves(("greet",)), 10, NOW)
            assert (claim.limited, len(claim.runs)) == (limited, 0 if limited else 2)
        assert (await store.claim("ann", p.Serves(("greet",)), 10, NOW, limits())).limited

    @on_fresh_store
    async def test_a_lane_begins_where_people_have_set_caps(self, store: p.Store) -> None:
        """It takes no place under a cap."""
        await put(store, cap_row(p.ItemKey(TENANT, p.CAP, "all"), max_concurrency=1))
        lane = start("lane", program_kind=p.MACHINE)
        assert await commit(store, lane) == p.Started(1)
        assert (await row(store, "lane")).begun_at == lane.segment.at

    @on_fresh_store
    async def test_a_rate_of_a_template_says_when_the_next_may_begin(self, store: p.Store) -> None:
        """The claim gives the time, so that nobody has to look before it."""
        await put(store, cap_row(p.cap_key(TENANT, template="t"), max_runs_per_min=2))
        await queue_instances(store, "t", "one", "two", "three")
        claim = await store.claim("ann", p.Serves(("greet",)), 10, NOW + 10)
        assert ([run.key.run for run in claim.runs], claim.next_wake_at) == (["one", "two"], NOW + 10 + MINUTE)
        assert await admitted(store, None, now=NOW + 10 + MINUTE) == ["three"]

    @on_fresh_store
    async def test_a_template_without_its_own_cap_has_the_workflows(self, store: p.Store) -> None:
        """The most specific setting wins, cap by cap; what has a cap of its own still counts for the workflow."""
        policy = p.Limits(p.TenantLimits(workflows={"greet": p.Cap(max_concurrency=2)}))
        await put(store, cap_row(p.cap_key(TENANT, template="t"), max_concurrency=3))
        await queue_instances(store, "t", "a", "b", "c", "d")
        await queue_instances(store, "u", "e", at=NOW + 9)
        assert await admitted(store, policy) == ["a", "b", "c"]
        for run in ("a", "b"):
            await end(store, run)
        assert await admitted(store, policy) == ["d"]
        await end(store, "c")
        assert await admitted(store, policy) == ["e"]

    @on_fresh_store
    async def test_caps_of_a_tenant_and_of_a_workspace_are_laid_over_the_policys(self, store: p.Store) -> None:
        """All of them must have a place for a run."""
        await put(store, cap_row(p.cap_key(TENANT), max_concurrency=3))
        await put(store, cap_row(p.cap_key(TENANT, workspace="north"), max_concurrency=1), id="act 2")
        await place(store, "north", "n1", "n2")
        await place(store, "south", "s1", "s2", "s3", at=NOW + 10)
        assert await admitted(store, limits(concurrency=100)) == ["n1", "s1", "s2"]
        await end(store, "s1")
        assert await admitted(store, limits(concurrency=100)) == ["s3"]

    @on_fresh_store
    async def test_workspaces_share_by_their_weights(self, store: p.Store) -> None:
        """Three to one where one of them weighs three."""
        await put(store, cap_row(p.cap_key(TENANT), max_concurrency=4))
        await put(store, cap_row(p.cap_key(TENANT, workspace="north"), weight=3), id="act 2")
        await place(store, "north", *(f"n{number}" for number in range(8)))
        await place(store, "south", *(f"s{number}" for number in range(8)), at=NOW + 10)
        chosen = await admitted(store, None)
        assert sorted(name[0] for name in chosen) == ["n", "n", "n", "s"]

    @on_fresh_store
    async def test_a_cap_that_cannot_be_read_lets_nothing_begin(self, store: p.Store) -> None:
        """What it meant is not known."""
        key = p.cap_key(TENANT, template="t")
        await put(store, p.ItemRow(*key, 1, b"altered", p.CAP_SET, None, NOW))
        await queue_instances(store, "t", "one")
        await queue_instances(store, "u", "two")
        assert await admitted(store, None) == ["two"]

    @on_fresh_store
    async def test_an_instance_is_deleted_only_when_its_story_is_told(self, store: p.Store) -> None:
        """The store itself looks for the entry, of this run and this generation; other runs need none."""
        await queue_instances(store, "t", "one")
        await begun(store, start("plain"))
        for run in ("one", "plain"):
            await store.claim("ann", p.Serves(("greet",)), 10, NOW)
            await advanced(store, turn(await row(store, run), COMPLETED))
        instance = await row(store, "one")
        assert [run.key.run for run in await store.untold(NOW + 1, 10)] == ["one"]
        assert await store.untold(instance.ended_at or 0, 10) == []
        await keep_story(store, msgspec.structs.replace(instance, generation=1))
        assert await store.prune(NOW + 1, 10) == 1
        assert (await row(store, "one")).key == instance.key
        await keep_story(store, instance)
        assert await store.untold(NOW + 1, 10) == []
        assert await store.prune(NOW + 1, 10) == 1
        assert await store.get([instance.key]) == []
