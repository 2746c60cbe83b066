"""Pruning: ended runs are deleted with all that belongs to them, and nothing else is."""

from __future__ import annotations

from holdfast.store import protocol as p
from holdfast.testing.stores.governance.files import governed_end, keep, kept_file
from holdfast.testing.stores.governance.samples import bodies, note
from holdfast.testing.stores.samples import (
    COMPLETED,
    NOW,
    advanced,
    begun,
    commit,
    deliver,
    ended,
    key,
    leased,
    renewal,
    row,
    start,
    turn,
    work,
)
from holdfast.testing.stores.topic import Topic, on_fresh_store


class Retention(Topic):
    @on_fresh_store
    async def test_only_runs_that_ended_before_are_pruned(self, store: p.Store) -> None:
        """Not a run that ended at that time or later, and never one that has not ended."""
        for name, at in (("before", NOW - 1), ("then", NOW), ("after", NOW + 1)):
            await ended(store, name, at=at)
        await begun(store, start("alive", at=NOW - 100))
        assert await store.prune(NOW, 100) == 1
        assert {run.key.run for run in await store.find(p.Query(), 10)} == {"then", "after", "alive"}

    @on_fresh_store
    async def test_pruning_keeps_to_its_limit_oldest_end_first(self, store: p.Store) -> None:
        """It can be done in many small parts."""
        for name, at in (("c", 3), ("a", 1), ("b", 2)):
            await ended(store, name, at=NOW + at)
        for left in (["b", "c"], ["c"], []):
            assert await store.prune(NOW + 100, 1) == 1
            assert sorted(run.key.run for run in await store.find(p.Query(), 10)) == left
        assert await store.prune(NOW + 100, 1) == 0

    @on_fresh_store
    async def test_a_pruned_run_leaves_nothing_behind(self, store: p.Store) -> None:
        """Journal, blobs, kept message ids and late messages: the id is free as if never used."""
        run = await begun(store, start(owner="ann", blobs={b"digest": b"data"}))
        await commit(store, deliver(id="m1"))
        await advanced(store, turn(run, COMPLETED))
        await store.commit([p.Beat(key(), 1, b"late", NOW), p.Enqueue(work(1))])
        assert await store.prune(NOW + 1, 10) == 1
        assert await store.get([key()]) == []
        assert await store.segments(key(), 0, 0, 10) == []
        assert await store.blob("acme", b"digest") is None
        assert await store.progress_of(key()) == []
        assert await store.work_of(key()) == []
        facts = await store.facts()
        assert (sum(facts.runs.values()), facts.inbox, facts.work, facts.blobs) == (0, 0, 0, 0)
        await begun(store, start())
        assert await commit(store, deliver(id="m1")) == p.Delivered(1)
        assert await store.blob("acme", b"digest") is None

    @on_fresh_store
    async def test_a_blob_that_another_run_uses_stays(self, store: p.Store) -> None:
        """It is deleted with its last user."""
        await ended(store, "one", blobs={b"shared": b"data", b"own": b"mine"})
        await begun(store, start("two", owner="ann", blobs={b"shared": b"data"}))
        await store.prune(NOW + 1, 10)
        assert [await store.blob("acme", digest) for digest in (b"shared", b"own")] == [b"data", None]
        await advanced(store, turn(await row(store, "two"), COMPLETED))
        await store.prune(NOW + 1, 10)
        assert await store.blob("acme", b"shared") is None

    @on_fresh_store
    async def test_a_blob_leaves_with_users_that_are_pruned_together(self, store: p.Store) -> None:
        """Where two users are pruned together, the blob is deleted, too."""
        for name in ("one", "two", "three"):
            await ended(store, name, blobs={b"shared": b"data"})
        assert await store.prune(NOW + 1, 10) == 3
        assert await store.blob("acme", b"shared") is None
        assert (await store.facts()).blobs == 0

    @on_fresh_store
    async def test_pruning_stays_within_the_tenant_of_each_run(self, store: p.Store) -> None:
        """A run of the same id and a blob of the same digest in another tenant stay."""
        await ended(store, "one", blobs={b"digest": b"data"})
        await begun(store, start("one", tenant="bolt", blobs={b"digest": b"data"}))
        await store.prune(NOW + 1, 10)
        assert [run.key for run in await store.find(p.Query(), 10)] == [p.Key("bolt", "one")]
        assert await store.blob("bolt", b"digest") == b"data"
        assert len(await store.segments(p.Key("bolt", "one"), 0, 0, 10)) == 1

    @on_fresh_store
    async def test_a_renewed_run_is_not_pruned(self, store: p.Store) -> None:
        """It runs again."""
        run = await ended(store)
        await commit(store, p.Renew(key(), 0, renewal(), p.Projection("queued"), NOW))
        assert await store.prune(NOW + 1, 10) == 0
        assert (await row(store)).created_at == run.created_at

    @on_fresh_store
    async def test_a_child_is_pruned_after_its_parent(self, store: p.Store) -> None:
        """A retry of the parent may find it again. One whose parent is not there any more is like any other run."""
        parent = await begun(store, start("top", owner="ann", at=NOW - 100))
        await ended(store, "top~1", at=NOW - 90, parent="top")
        await ended(store, "top~1~2", at=NOW - 95, parent="top~1")
        await ended(store, "gone~1", at=NOW - 80, parent="gone")
        assert await store.prune(NOW + 100, 10) == 1
        assert {run.key.run for run in await store.find(p.Query(), 10)} == {"top", "top~1", "top~1~2"}
        await advanced(store, turn(parent, COMPLETED))
        assert await store.prune(NOW + 10**9, 1) == 1
        assert {run.key.run for run in await store.find(p.Query(), 10)} == {"top~1", "top~1~2"}
        assert await store.prune(NOW + 10**9, 10) == 2

    @on_fresh_store
    async def test_a_leased_run_is_not_pruned(self, store: p.Store) -> None:
        """At any age."""
        await leased(store)
        assert await store.prune(NOW + 10**15, 10) == 0

    @on_fresh_store
    async def test_a_governed_run_is_pruned_only_when_it_has_evidence(self, store: p.Store) -> None:
        """It waits and is counted, and does not keep other runs from being pruned."""
        for name, at in (("a", 1), ("b", 2), ("c", 3)):
            await governed_end(store, name, at=NOW + at)
        await ended(store, "plain", at=NOW + 4)
        assert await store.prune(NOW + 100, 1) == 1
        assert sorted(run.key.run for run in await store.find(p.Query(), 10)) == ["a", "b", "c"]
        assert [await store.evidence_overdue(NOW + at) for at in (1, 3, 100)] == [0, 2, 3]
        await keep(store, kept_file(p.EVIDENCE, run="b"), b"data")
        assert await store.evidence_overdue(NOW + 100) == 2
        assert await store.prune(NOW + 100, 10) == 1
        assert sorted(run.key.run for run in await store.find(p.Query(), 10)) == ["a", "c"]

    @on_fresh_store
    async def test_an_id_is_retired_once_its_run_is_gone_and_evidence_of_it_is_kept(self, store: p.Store) -> None:
        """In the audit the id always means that run. While the run exists, it is answered like any other."""
        run = await governed_end(store)
        await keep(store, kept_file(p.EVIDENCE), b"data")
        assert await commit(store, start()) == p.Exists(run.workflow, run.fingerprint, "one")
        await store.prune(NOW + 1, 10)
        parent = await leased(store, "parent")
        answers = await store.commit(
            [start(owner="ann", attached=(note(),)), start("two"), start(), start(tenant="bolt")]
        )
        assert answers == [p.Retired(), p.Started(1), p.Retired(), p.Started(1)]
        assert (await advanced(store, turn(parent, attached=(start(), start("three"))))).attached == (
            p.Retired(),
            p.Started(1),
        )
        assert await store.get([key()]) == []
        assert await store.segments(key(), 0, 0, 10) == []
        assert await bodies(store) == []

    @on_fresh_store
    async def test_an_id_is_retired_with_its_children(self, store: p.Store) -> None:
        """Another run of the id could start children under used ids. Ids that only look similar are not affected."""
        await ended(store)
        await governed_end(store, "one~3~1")
        for name in ("one~3~1", "ones~1", "one-2"):
            await keep(store, kept_file(p.EVIDENCE, run=name), b"data")
        await keep(store, kept_file("report.txt", run="five~1"), b"data")
        assert isinstance(await commit(store, start()), p.Exists)
        assert await store.prune(NOW + 1, 10) == 2
        for name in ("one", "one~3", "one~3~1", "ones"):
            assert await commit(store, start(name)) == p.Retired()
        for name in ("on", "one~", "one~3~", "one~4", "one~31", "one~3~1~1", "one-", "five"):
            assert await commit(store, start(name)) == p.Started(1)

    @on_fresh_store
    async def test_ids_of_messages_are_forgotten_oldest_first(self, store: p.Store) -> None:
        """In small parts; after that the same id is a new message. Younger ids are kept."""
        await begun(store, start())
        for name, at in (("c", 3), ("a", 1), ("b", 2)):
            await commit(store, deliver(id=name, at=NOW + at))
        assert await store.forget_deliveries(NOW + 3, 1) == 1
        assert await commit(store, deliver(id="b", at=NOW + 9)) == p.Repeated()
        assert await commit(store, deliver(id="a", at=NOW + 9)) == p.Delivered(4)
        assert await store.forget_deliveries(NOW + 3, 10) == 1
        assert await store.forget_deliveries(NOW + 3, 10) == 0
        assert await commit(store, deliver(id="c", at=NOW + 9)) == p.Repeated()
        assert await commit(store, deliver(id="b", at=NOW + 9)) == p.Delivered(5)
