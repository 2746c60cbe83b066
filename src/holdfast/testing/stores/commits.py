"""Batches, and the start of runs: each change is answered, and a refused one does not affect the others."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.testing.stores.samples import (
    NOW,
    SECOND,
    SERVES,
    WORKFLOW,
    begun,
    commit,
    deliver,
    key,
    leased,
    row,
    segment,
    start,
    turn,
    work,
)
from holdfast.testing.stores.topic import Topic, on_fresh_store


class Commits(Topic):
    @on_fresh_store
    async def test_an_empty_batch_is_answered_with_nothing(self, store: p.Store) -> None:
        """No changes, no answers."""
        assert await store.commit([]) == []

    @on_fresh_store
    async def test_each_change_of_a_batch_is_answered_in_order(self, store: p.Store) -> None:
        """The answers are in the order of the changes, and a change sees those before it."""
        answers = await store.commit(
            [
                start("one"),
                start("one"),
                deliver("one"),
                deliver("two"),
                start("two"),
                deliver("two"),
                p.Enqueue(work(1)),
                p.Withdraw(key(), 1),
                p.Beat(key(), 2, b"half", NOW),
            ]
        )
        assert answers == [
            p.Started(1),
            p.Exists(WORKFLOW, start("one").fingerprint, "one"),
            p.Delivered(1),
            p.Unknown(),
            p.Started(1),
            p.Delivered(1),
            p.Enqueued(),
            p.Withdrawn(),
            p.Enqueued(),
        ]

    @on_fresh_store
    async def test_a_refused_change_harms_no_neighbour(self, store: p.Store) -> None:
        """Beside a fenced turn, a taken id and an unknown run, the others are applied completely."""
        one, two = await leased(store, "one"), await leased(store, "two")
        answers = await store.commit(
            [
                turn(one),
                replace(turn(two), epoch=two.epoch + 1, attached=(start("never"),)),
                start("one"),
                p.FinishWork(key("one"), 9, 2, deliver().message),
                deliver("nobody"),
                turn(two, mark=" other"),
                deliver("one"),
            ]
        )
        kinds = [type(answer) for answer in answers]
        assert kinds == [p.Advanced, p.Fenced, p.Exists, p.Fenced, p.Unknown, p.Advanced, p.Delivered]
        assert (await row(store, "one")).version == one.version + 1
        assert (await row(store, "two")).head == segment(two.version, 1, mark=" other").head
        assert await store.get([key("never")]) == []

    @on_fresh_store
    async def test_two_turns_of_one_run_may_share_a_batch(self, store: p.Store) -> None:
        """The second is judged by the result of the first."""
        run = await leased(store)
        first = turn(run)
        second = turn(replace(run, version=run.version + 1))
        answers = await store.commit([first, second])
        assert [type(answer) for answer in answers] == [p.Advanced, p.Advanced]
        assert (await row(store)).version == run.version + 2

    @on_fresh_store
    async def test_many_turns_in_a_batch_are_each_judged_as_if_alone(self, store: p.Store) -> None:
        """Stores make many usual turns at once. One that is not usual changes nothing for the others."""
        for trouble in ("none", "lost", "message", "message with it", "twice", "repeated", "ending"):
            await _commit_many(store, trouble)

    @on_fresh_store
    async def test_a_started_run_shows_all_that_was_given(self, store: p.Store) -> None:
        """The row has all fields of the start."""
        projection = p.Projection("waiting", NOW + SECOND, "timer", True, None, None)
        change = start(projection=projection, priority=3, attributes={"city": "Ur"}, parent="mother")
        assert await begun(store, change) == p.Run(
            key=key(),
            workflow=WORKFLOW,
            root=change.root,
            generation=0,
            version=2,
            head=change.segment.head,
            standing="waiting",
            cancelling=True,
            pause=None,
            priority=3,
            attributes={"city": "Ur"},
            parent="mother",
            parent_position=7,
            fingerprint=change.fingerprint,
            owner=None,
            epoch=1,
            crashes=0,
            ready_at=None,
            wake_at=NOW + SECOND,
            waiting="timer",
            arrived=0,
            consumed=0,
            error=None,
            created_at=NOW,
            updated_at=NOW,
            ended_at=None,
            begun_at=NOW,
        )

    @on_fresh_store
    async def test_a_queued_run_is_ready_since_its_start(self, store: p.Store) -> None:
        """Any worker may claim it; a run that starts in another standing waits for an event."""
        assert (await begun(store, start("queued"))).ready_at == NOW
        assert (await begun(store, start("waiting", projection=p.Projection("waiting")))).ready_at is None
        claim = await store.claim("ann", SERVES, 10, NOW)
        assert [run.key.run for run in claim.runs] == ["queued"]
        await commit(store, deliver("waiting"))
        claim = await store.claim("ann", SERVES, 10, NOW)
        assert [run.key.run for run in claim.runs] == ["waiting"]

    @on_fresh_store
    async def test_a_run_started_with_an_owner_is_leased(self, store: p.Store) -> None:
        """Nobody else can claim it, and its holder advances it at the epoch of the answer."""
        answer = await commit(store, start(owner="ann"))
        assert answer == p.Started(1)
        run = await row(store)
        assert (run.owner, run.epoch, run.ready_at) == ("ann", 1, None)
        assert (await store.claim("bob", SERVES, 10, NOW)).runs == []
        assert isinstance(await commit(store, turn(run)), p.Advanced)

    @on_fresh_store
    async def test_a_run_that_ends_with_its_start_is_never_leased(self, store: p.Store) -> None:
        """It has ended: it has no owner, and no claim finds it."""
        run = await begun(store, start(projection=p.Projection("failed", error="no"), owner="ann"))
        assert (run.owner, run.ended_at, run.error, run.status) == (None, NOW, "no", "failed")
        assert (await store.claim("bob", SERVES, 10, NOW)).runs == []

    @on_fresh_store
    async def test_a_taken_id_tells_whose_it_is_and_changes_nothing(self, store: p.Store) -> None:
        """The caller can see whether it is the same start; the existing run is unchanged."""
        before = await begun(store, start())
        other = replace(start(workflow="other"), blobs={b"digest": b"data"}, attached=(deliver("one"), start("child")))
        assert await commit(store, other) == p.Exists(WORKFLOW, before.fingerprint, before.key.run)
        assert await row(store) == before
        assert await store.get([key("child")]) == []
        assert await store.blob("acme", b"digest") is None

    @on_fresh_store
    async def test_tenants_do_not_share_ids(self, store: p.Store) -> None:
        """The same id in two tenants names two runs."""
        await begun(store, start(tenant="acme"))
        await begun(store, start(tenant="bolt", workflow="other"))
        acme, bolt = await store.get([p.Key("acme", "one"), p.Key("bolt", "one")])
        assert (acme.workflow, bolt.workflow) == (WORKFLOW, "other")
        assert await commit(store, deliver()) == p.Delivered(1)
        (bolt,) = await store.get([p.Key("bolt", "one")])
        assert bolt.arrived == 0

    @on_fresh_store
    async def test_progress_keeps_what_was_said_last(self, store: p.Store) -> None:
        """Only the last report of each step is kept."""
        await leased(store)
        await store.commit(
            [p.Beat(key(), 5, b"early", NOW), p.Beat(key(), 2, b"other", NOW), p.Beat(key(), 5, b"late", NOW + 1)]
        )
        assert await store.progress_of(key()) == [p.StepProgress(2, b"other", NOW), p.StepProgress(5, b"late", NOW + 1)]


async def _commit_many(store: p.Store, trouble: str) -> None:
    """A batch of many turns, of which one is in trouble."""
    runs = [await leased(store, f"{trouble} {number}") for number in range(20)]
    odd = runs[7]
    batch: list[p.Change] = [turn(run, count=2, mark=f" of {run.key.run}") for run in runs]
    expected: list[p.Answer] = [p.Advanced(0, None, False) for _ in runs]
    match trouble:
        case "lost":
            batch[7] = replace(turn(odd, count=2), epoch=odd.epoch - 1)
            expected[7] = p.Fenced()
        case "message":
            await commit(store, deliver(odd.key.run))
            expected[7] = p.Advanced(1, None, False)
        case "message with it":
            batch.insert(3, deliver(odd.key.run))
            expected.insert(3, p.Delivered(1))
            expected[8] = p.Advanced(1, None, False)
        case "twice":
            batch.append(turn(replace(odd, version=odd.version + 2), mark=" again"))
            expected.append(p.Advanced(0, None, False))
        case "repeated":
            await store.commit(batch)
        case "ending":
            batch[7] = turn(odd, p.Projection("completed"), count=2)
            expected[7] = p.Advanced(0, None, True)
    assert await store.commit(batch) == expected
    for run in runs:
        more = {"lost": 0, "twice": 3}.get(trouble, 2) if run is odd else 2
        assert (await row(store, run.key.run)).version == run.version + more
        journal = (await store.load([run.key]))[run.key].segments
        assert sum(each.count for each in journal) == run.version + more
