"""Tasks: each changes only from the version before, and is cancelled from any."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.testing.stores.governance.samples import bodies, note, task
from holdfast.testing.stores.samples import (
    COMPLETED,
    NOW,
    TENANT,
    WAITING,
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
)
from holdfast.testing.stores.topic import Topic, on_fresh_store

APPROVED = task("task", 2, status="approved", answers=[p.TaskAnswer("ann", "approved", "it is due", NOW + 9)])


class TaskTopic(Topic):
    @on_fresh_store
    async def test_a_task_is_read_as_it_was_written(self, store: p.Store) -> None:
        """Every field comes back, when it is made and when it is changed."""
        assert await commit(store, p.PutTask(task())) == p.Tasked()
        assert await store.task(TENANT, "task") == task()
        assert await commit(store, p.PutTask(APPROVED)) == p.Tasked()
        assert await store.task(TENANT, "task") == APPROVED

    @on_fresh_store
    async def test_a_task_that_is_not_there_is_none(self, store: p.Store) -> None:
        """Neither an unknown id nor one of another tenant is found."""
        await commit(store, p.PutTask(task()))
        assert await store.task(TENANT, "no such") is None
        assert await store.task("bolt", "task") is None

    @on_fresh_store
    async def test_of_two_answers_to_one_version_the_first_is_applied(self, store: p.Store) -> None:
        """The other is fenced, in one batch or in two, and its attached changes leave no trace."""
        await commit(store, p.PutTask(task()))
        rejected = task("task", 2, status="rejected", answers=[p.TaskAnswer("bob", "rejected", "no", NOW)])
        change = p.PutTask(rejected, (note("rejected"),))
        answers = await store.commit([p.PutTask(APPROVED, (note("approved"),)), change])
        assert answers == [p.Tasked(), p.Fenced()]
        assert await commit(store, change) == p.Fenced()
        assert await store.task(TENANT, "task") == APPROVED
        assert await bodies(store) == ["approved"]

    @on_fresh_store
    async def test_a_task_is_made_once(self, store: p.Store) -> None:
        """Another task of the same id is fenced, with any contents."""
        await commit(store, p.PutTask(task()))
        assert await commit(store, p.PutTask(task(run="two"))) == p.Fenced()
        assert await store.task(TENANT, "task") == task()
        assert await commit(store, p.PutTask(task(tenant="bolt"))) == p.Tasked()

    @on_fresh_store
    async def test_no_version_is_left_out_and_none_comes_back(self, store: p.Store) -> None:
        """A missing task has no second version; a task at version 2 accepts neither version 4 nor another version 2."""
        assert await commit(store, p.PutTask(task("task", 2))) == p.Fenced()
        assert await store.task(TENANT, "task") is None
        await store.commit([p.PutTask(task()), p.PutTask(APPROVED)])
        for stale in (task("task", 4), task("task", 2), task("task", 1)):
            assert await commit(store, p.PutTask(stale)) == p.Fenced()
        assert await store.task(TENANT, "task") == APPROVED

    @on_fresh_store
    async def test_the_files_of_an_answer_come_with_it_and_outlive_the_run(self, store: p.Store) -> None:
        """They are kept with the answer that is applied, leave no trace of a fenced one, and belong to the task."""
        await ended(store, blobs={b"shared": b"data"})
        await commit(store, p.PutTask(task()))
        change = p.PutTask(APPROVED, blobs={b"shared": b"data", b"own": b"mine"})
        assert await commit(store, change) == p.Tasked()
        assert await commit(store, change) == p.Tasked()
        other = task("task", 2, status="rejected")
        assert await commit(store, p.PutTask(other, blobs={b"other": b"lost"})) == p.Fenced()
        assert await store.blob(TENANT, b"other") is None
        assert await store.prune(NOW + 1, 10) == 1
        assert [await store.blob(TENANT, digest) for digest in (b"shared", b"own")] == [b"data", b"mine"]

    @on_fresh_store
    async def test_a_task_put_again_as_it_was_is_recognised(self, store: p.Store) -> None:
        """After a lost answer it is tasked again, and the attached changes are made once."""
        await leased(store)
        first = p.PutTask(task(), (note("requested"),))
        second = p.PutTask(APPROVED, (deliver(), note("approved")))
        for change in (first, second):
            assert [await commit(store, change) for _ in range(3)] == [p.Tasked()] * 3
        assert (await row(store)).arrived == 1
        assert await bodies(store) == ["requested", "approved"]

    @on_fresh_store
    async def test_an_open_task_is_cancelled_whatever_its_version(self, store: p.Store) -> None:
        """Its answers stay, and it is found by its new status."""
        await begun(store, start())
        passed_on = task("task", 2, answers=[p.TaskAnswer("ann", "delegated to dora", "she knows: ü", NOW + 3)])
        await store.commit([p.PutTask(task()), p.PutTask(passed_on), p.PutTask(task("other"))])
        assert await commit(store, p.CancelTask(TENANT, "task", NOW + 5, (note("cancelled"),))) == p.Tasked()
        expected = replace(passed_on, version=3, status="cancelled", closed_at=NOW + 5)
        assert await store.task(TENANT, "task") == expected
        assert await store.tasks(p.TaskQuery(status="cancelled"), 10) == [expected]
        assert [live.id for live in (await store.governed([key()]))[key()].tasks if live != expected] == ["other"]
        assert await bodies(store) == ["cancelled"]

    @on_fresh_store
    async def test_a_task_is_cancelled_once(self, store: p.Store) -> None:
        """Repeated it is tasked again, in one batch or in several, and nothing changes any more."""
        await commit(store, p.PutTask(task()))
        change = p.CancelTask(TENANT, "task", NOW + 5, (note("cancelled"),))
        assert await store.commit([change, change]) == [p.Tasked()] * 2
        assert await commit(store, replace(change, at=NOW + 9)) == p.Tasked()
        assert await store.task(TENANT, "task") == replace(task(), version=2, status="cancelled", closed_at=NOW + 5)
        assert await bodies(store) == ["cancelled"]

    @on_fresh_store
    async def test_what_is_answered_or_has_expired_is_not_cancelled(self, store: p.Store) -> None:
        """It is fenced and unchanged; a missing task, or one of another tenant, is fenced, too."""
        closed = [task(status, status=status) for status in ("approved", "rejected", "expired")]
        await store.commit([*(p.PutTask(each) for each in closed), p.PutTask(task("foreign", tenant="bolt"))])
        names = [*(each.id for each in closed), "foreign", "no such"]
        answers = await store.commit([p.CancelTask(TENANT, name, NOW + 5, (note("no"),)) for name in names])
        assert answers == [p.Fenced()] * 5
        assert [await store.task(TENANT, each.id) for each in closed] == closed
        assert await store.task("bolt", "foreign") == task("foreign", tenant="bolt")
        assert await bodies(store) == []

    @on_fresh_store
    async def test_of_an_answer_and_a_cancellation_the_first_counts(self, store: p.Store) -> None:
        """Even in one batch: the other is fenced, and its attached changes leave no trace."""
        await store.commit([p.PutTask(task("a")), p.PutTask(task("b"))])
        answered = [p.PutTask(replace(APPROVED, id=name), (note(f"{name} approved"),)) for name in "ab"]
        cancelled = [p.CancelTask(TENANT, name, NOW + 5, (note(f"{name} cancelled"),)) for name in "ab"]
        answers = await store.commit([answered[0], cancelled[0], cancelled[1], answered[1]])
        assert answers == [p.Tasked(), p.Fenced(), p.Tasked(), p.Fenced()]
        found = await store.tasks(p.TaskQuery(), 10)
        assert [(each.id, each.status) for each in found] == [("a", "approved"), ("b", "cancelled")]
        assert await bodies(store) == ["a approved", "b cancelled"]

    @on_fresh_store
    async def test_a_task_is_cancelled_with_its_turn(self, store: p.Store) -> None:
        """Only if the turn is applied; committed again it is recognised, with events and without."""
        run = await leased(store)
        await store.commit([p.PutTask(task()), p.PutTask(task("other"))])
        change = turn(run, count=0, attached=(p.CancelTask(TENANT, "task", NOW, (note("first"),)),))
        assert await commit(store, replace(change, epoch=9)) == p.Fenced()
        assert await store.task(TENANT, "task") == task()
        last = turn(run, COMPLETED, attached=(p.CancelTask(TENANT, "other", NOW, (note("second"),)),))
        for each in (change, last):
            answers = [await advanced(store, each) for _ in range(2)]
            assert [answer.attached for answer in answers] == [(p.Tasked(),)] * 2
        assert await store.tasks(p.TaskQuery(status="requested"), 10) == []
        assert await bodies(store) == ["first", "second"]

    @on_fresh_store
    async def test_an_answer_wakes_its_run(self, store: p.Store) -> None:
        """The message comes with the answer, and makes a run that waits ready."""
        await advanced(store, turn(await leased(store), WAITING, release=True, attached=(p.PutTask(task()),)))
        await commit(store, p.PutTask(APPROVED, (deliver(body="approved", at=NOW + 1),)))
        assert (await row(store)).ready_at == NOW + 1
        ((_, message),) = (await store.messages([key()]))[key()]
        assert message.body == b"approved"

    @on_fresh_store
    async def test_an_answer_to_a_run_that_has_ended_is_kept(self, store: p.Store) -> None:
        """The message has no receiver, but the task is answered."""
        await ended(store)
        await commit(store, p.PutTask(task()))
        assert await commit(store, p.PutTask(APPROVED, (deliver(), note("approved")))) == p.Tasked()
        assert await store.task(TENANT, "task") == APPROVED
        assert await bodies(store) == ["approved"]

    @on_fresh_store
    async def test_a_task_comes_with_its_turn(self, store: p.Store) -> None:
        """It is made if the turn is applied, recognised if that is committed again, and not made if it is fenced."""
        run = await leased(store)
        change = turn(run, WAITING, attached=(p.PutTask(task(), (note(),)),))
        assert await commit(store, replace(change, epoch=9)) == p.Fenced()
        assert await store.task(TENANT, "task") is None
        assert await bodies(store) == []
        answers = [await advanced(store, change) for _ in range(2)]
        assert [answer.attached for answer in answers] == [(p.Tasked(),)] * 2
        assert await bodies(store) == ["said"]

    @on_fresh_store
    async def test_a_worker_that_takes_a_run_over_sees_its_live_tasks(self, store: p.Store) -> None:
        """All of the present generation but cancelled forms; those of an earlier one are not."""
        run = await leased(store)
        await advanced(store, turn(run, renewal=renewal()))
        await store.commit([p.PutTask(task("earlier")), p.PutTask(task("of two", run="two"))])
        for status in ("requested", "approved", "rejected", "expired", "cancelled"):
            await commit(store, p.PutTask(task(status, generation=1, status=status)))
            await commit(store, p.PutTask(task(f"{status} form", generation=1, status=status, kind="form")))
        found = await store.governed([key(), key("three")])
        assert list(found) == [key()]
        statuses = ("approved", "expired", "rejected", "requested")
        wanted = sorted([*statuses, "cancelled", *(f"{status} form" for status in statuses)])
        assert sorted(live.id for live in found[key()].tasks) == wanted
        assert found[key()].receipts == []

    @on_fresh_store
    async def test_tasks_outlive_their_run(self, store: p.Store) -> None:
        """Pruning a run does not delete its tasks and their answers."""
        await ended(store)
        await commit(store, p.PutTask(task()))
        assert await store.prune(NOW + 1, 10) == 1
        assert await store.task(TENANT, "task") == task()
        assert await commit(store, p.PutTask(APPROVED)) == p.Tasked()

    @on_fresh_store
    async def test_tasks_are_listed_oldest_first_by_pages(self, store: p.Store) -> None:
        """Equal times are ordered by tenant and id; no page repeats or skips a row."""
        for tenant, name, at in (
            ("bolt", "c", 1),
            (TENANT, "a", 3),
            (TENANT, "e", 1),
            (TENANT, "d", 1),
            ("bolt", "b", 2),
        ):
            await commit(store, p.PutTask(task(name, tenant=tenant, created_at=NOW + at)))
        listed: list[p.TaskRow] = []
        while page := await store.tasks(p.TaskQuery(), 2, listed[-1] if listed else None):
            assert len(page) <= 2
            listed += page
        assert [found.id for found in listed] == ["d", "e", "c", "b", "a"]

    @on_fresh_store
    async def test_tasks_are_listed_by_what_is_asked(self, store: p.Store) -> None:
        """Each condition narrows the list, and a changed task is found by its new fields."""
        await store.commit(
            [
                p.PutTask(task("a")),
                p.PutTask(task("b", run="two", created_at=NOW + 1)),
                p.PutTask(task("c", tenant="bolt", created_at=NOW + 2)),
                p.PutTask(task("b", 2, run="two", created_at=NOW + 1, status="expired")),
            ]
        )

        async def ids(query: p.TaskQuery) -> str:
            return "".join([found.id for found in await store.tasks(query, 10)])

        assert await ids(p.TaskQuery()) == "abc"
        assert await ids(p.TaskQuery(tenant=TENANT)) == "ab"
        assert await ids(p.TaskQuery(status="requested")) == "ac"
        assert await ids(p.TaskQuery(status="expired")) == "b"
        assert await ids(p.TaskQuery(run="two")) == "b"
        assert await ids(p.TaskQuery(TENANT, "requested", "one")) == "a"
        assert await ids(p.TaskQuery(TENANT, "requested", "two")) == ""

    @on_fresh_store
    async def test_tasks_are_listed_by_subject_and_owner(self, store: p.Store) -> None:
        """By their present owner: a released task has none."""
        await store.commit(
            [
                p.PutTask(task("a", kind="form")),
                p.PutTask(task("b", kind="outcome", created_at=NOW + 1)),
                p.PutTask(task("c", kind="form", owner="ida", created_at=NOW + 2)),
                p.PutTask(task("b", 2, kind="outcome", owner=None, created_at=NOW + 1)),
            ]
        )

        async def ids(query: p.TaskQuery) -> str:
            return "".join([found.id for found in await store.tasks(query, 10)])

        assert await ids(p.TaskQuery(kind="form")) == "ac"
        assert await ids(p.TaskQuery(kind="approval")) == ""
        assert await ids(p.TaskQuery(owner="emil")) == "a"
        assert await ids(p.TaskQuery(TENANT, kind="form", owner="ida")) == "c"

    @on_fresh_store
    async def test_tasks_are_read_together_by_id(self, store: p.Store) -> None:
        """Those of the tenant that exist."""
        a, b = task("a"), task("b")
        await store.commit([p.PutTask(a), p.PutTask(b), p.PutTask(task("c", tenant="bolt"))])
        assert await store.tasks_by_id(TENANT, ["b", "nobody", "a", "c"]) == {"a": a, "b": b}
        assert await store.tasks_by_id(TENANT, []) == {}
