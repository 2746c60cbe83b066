"""What is committed again because its answer was lost is there once; what a dead worker meant to close is closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest

from holdfast import OutcomeUnknown, RetryPolicy, RunCancelled, action, workflow
from holdfast.audit import records as r
from holdfast.audit.task_changes import put
from holdfast.errors import StoreUnavailable
from holdfast.store import protocol as p
from holdfast.tasks import answers as tasks
from tests.unit.worker.ground import FREE, Ground, asked, asking, kill, notes, policy_of, rested
from tests.unit.worker.paying import ALL, DONE, paid, paying

Commit = Callable[[Sequence[p.Change]], Awaitable[list[p.Answer]]]


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


@action(connector="crm", operation="create", idempotency_key="order:{order}", name="lost.create")
async def create(order: str) -> str:
    DONE.append(order)
    return order


@workflow(name="lost.creating")
async def creating(order: str) -> str:
    created = await create(order)
    await paid(order)  # so that its run goes on behind the act
    return created


@action(connector="crm", operation="blur", name="lost.blur")
async def blur() -> None:
    raise OutcomeUnknown("nobody knows")


@workflow(name="lost.blurring")
async def blurring() -> None:
    await blur()


@action(connector="crm", operation="fail", name="lost.fail", retry=RetryPolicy(max_attempts=2, initial=1))
async def fail() -> int:
    DONE.append("tried")
    if len(DONE) == 1:
        raise ValueError("not yet")
    return len(DONE)


@workflow(name="lost.failing")
async def failing() -> int:
    return await fail()


class Forgetful:
    """A store's ``commit`` that comes through and then loses its answer, every first time."""

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self._lost = False
        self.eventless = 0  # turns without events that brought entries

    async def __call__(self, changes: Sequence[p.Change]) -> list[p.Answer]:
        answers = await self._commit(changes)
        self._lost = not self._lost
        if self._lost:
            self.eventless += sum(_is_eventless(change) for change in changes)
            raise StoreUnavailable("the answer was lost")
        return answers


def _is_eventless(change: p.Change) -> bool:
    return (
        isinstance(change, p.Advance)
        and change.segment is None
        and any(isinstance(each, p.Note) for each in change.attached)
    )


def lose_answers(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Forgetful:
    """Let every answer of the store be lost once."""
    forgetful = Forgetful(ground.store.commit)

    async def commit(changes: Sequence[p.Change]) -> list[p.Answer]:
        return await forgetful(changes)

    monkeypatch.setattr(ground.store, "commit", commit)
    return forgetful


async def written(ground: Ground) -> list[bytes]:
    """The bodies of the whole audit."""
    return [entry.body for entry in await ground.store.entries(p.AuditQuery("default"), 1000)]


def test_every_entry_is_written_once_where_every_answer_is_lost(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decisions with events and without, answers, receipts, ends, and the policy that is in force."""

    async def main(ground: Ground) -> None:
        forgetful = lose_answers(ground, monkeypatch)
        async with ground.engine(*ALL, policy=asking()) as app:
            run = await app.start(paying, "a-1", id="one")
            task = await asked(app, "one")
            await rested(app, "one")
            await app.tasks.approve(task.id, by="bob")
            assert await run.result(30) == ["paid 1"]
            assert [each.effect for each in await notes(app, r.Decided)] == ["needs_approval", "allow"]
            assert [each.verdict for each in await notes(app, r.Asked)] == ["requested", "approved"]
            assert [each.state for each in await notes(app, r.Receipted)] == ["succeeded"]
            assert [each.act for each in await notes(app, r.Operated)] == ["policy"]
            assert len(await notes(app, r.Ended)) == 1
        assert forgetful.eventless > 0

    ground.play(main)
    assert DONE == ["a-1 1"]


def test_what_an_operator_does_is_told_once_where_the_answer_is_lost(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And each time that it is done: the same act a moment later is another entry."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, policy=asking()) as app:
            run = await app.start(paying, "a-1", id="one")
            await asked(app, "one")
            await rested(app, "one")
            lose_answers(ground, monkeypatch)
            for _ in range(2):
                await run.pause(by="ann")
                await run.resume(by="ann")
            acts = [each.act for each in await notes(app, r.Operated, "one")]
            assert acts == ["pause", "resume", "pause", "resume"]

    ground.play(main)


def test_every_act_is_made_and_told_once_where_its_answer_is_lost(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start by a person, a signal, a fork, a cancellation of a paused run, a retry."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, policy=asking()) as app:
            lose_answers(ground, monkeypatch)
            run = await app.start(paying, "a-1", id="one", actor="ann")
            await asked(app, "one")
            await rested(app, "one")
            await run.signal("hello", 1, by="bob")
            fork = await run.fork(1, id="two", by="cid")
            assert (fork.id, await fork.status() in ("queued", "running", "waiting")) == ("two", True)
            await run.pause(by="dan")
            await run.cancel("enough", by="eve")
            with pytest.raises(RunCancelled):
                await run.result(30)
            await run.retry(by="fay")
            operated = await notes(app, r.Operated, "one")
            acts = [(each.act, each.who) for each in operated]
            assert acts == [
                ("start", "ann"),
                ("signal", "bob"),
                ("fork", "cid"),
                ("pause", "dan"),
                ("cancel", "eve"),
                ("retry", "fay"),
            ]
            (row,) = await ground.store.get([run.key])
            assert row.generation == 1

    ground.play(main)


def test_a_reuse_is_told_once_where_the_lease_is_lost_with_the_answer(
    virtual: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn that carries it came through and is refused when it is committed again: then the entry goes alone."""

    async def main(ground: Ground) -> None:
        sabotaged: list[str] = []
        async with ground.engine(creating, policy=FREE) as app:
            await (await app.start(creating, "o-1", id="one")).result(30)
            commit = ground.store.commit

            async def sabotage(changes: Sequence[p.Change]) -> list[p.Answer]:
                answers = await commit(changes)
                if not sabotaged and any(_brings_reuse(change) for change in changes):
                    assert app.worker is not None
                    sabotaged.append(app.worker.id)
                    await ground.store.unregister(app.worker.id, ground.clock.now())
                    raise StoreUnavailable("the answer was lost")
                return answers

            monkeypatch.setattr(ground.store, "commit", sabotage)
            assert await (await app.start(creating, "o-1", id="two")).result(600) == "o-1"
            assert [each.state for each in await notes(app, r.Receipted, "two")] == ["reused"]
        assert sabotaged

    virtual.play(main)
    assert DONE == ["o-1"]


def _brings_reuse(change: p.Change) -> bool:
    if not isinstance(change, p.Advance):
        return False
    return any(isinstance(each, p.Note) and b'"reused"' in each.body for each in change.attached)


def test_a_task_passed_on_at_the_moment_its_run_ends_is_closed_though_the_worker_dies(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing does not hang on the version that the worker knew, nor on its living on: it comes with the end itself."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, policy=asking()) as app:
            run = await app.start(paying, "a-1", id="one")
            task = await asked(app, "one")
            await rested(app, "one")
            commit = ground.store.commit

            async def meddle(changes: Sequence[p.Change]) -> list[p.Answer]:
                if any(isinstance(each, p.Advance) and each.projection.standing in p.ENDED for each in changes):
                    passed_on = tasks.delegate(task, "bob", "eve", "she knows", ground.clock.now())
                    change = put(passed_on, "delegated", ground.clock.now(), "bob", "she knows")
                    assert await commit([change]) == [p.Tasked()]
                    kill(app)
                return await commit(changes)

            monkeypatch.setattr(ground.store, "commit", meddle)
            await run.cancel("not needed", by="ann")
            while (await ground.store.get([p.Key("default", "one")]))[0].standing != "cancelled":
                await app.changed(0.05)
        found = await ground.store.task("default", task.id)
        assert found is not None
        assert (found.status, found.version, found.delegated_to) == ("cancelled", 3, "eve")
        assert [said.who for said in found.answers] == ["bob"]
        verdicts = [each.verdict for each in map(r.decode, await written(ground)) if isinstance(each, r.Asked)]
        assert verdicts == ["requested", "delegated", "cancelled"]

    ground.play(main)
    assert DONE == []


def test_all_that_a_call_has_asked_is_closed_with_it(virtual: Ground) -> None:
    """Policy no longer wants the approval that it asked for, then the act ends in nobody knows what: when its run is
    cancelled people are no longer asked for the approval, and still for the outcome, which its receipt needs."""

    async def main(ground: Ground) -> None:
        async with ground.engine(blurring, policy=asking()) as app:
            run = await app.start(blurring, id="one")
            approval = await asked(app, "one")
            await rested(app, "one")
            app.policy.current = policy_of({})
            await run.signal("wake up")
            outcome = await asked(app, "one", other_than=approval.id)
            assert outcome.kind == "outcome"
            await run.cancel("not needed", by="ann")
            with pytest.raises(RunCancelled):
                await run.result(60)
            left = [(await app.tasks.get(each.id)).status for each in (approval, outcome)]
            assert left == ["cancelled", "requested"]

    virtual.play(main)


def test_a_call_whose_approval_was_withdrawn_asks_anew(virtual: Ground) -> None:
    """Policy did not want it for one attempt, and wants it for the next: nobody can answer the closed question."""

    async def main(ground: Ground) -> None:
        async with ground.engine(failing, policy=asking()) as app:
            run = await app.start(failing, id="one")
            first = await asked(app, "one")
            await rested(app, "one")
            app.policy.current = policy_of({})
            await run.signal("wake up")
            while not DONE:
                await app.changed(0.05)
            app.policy.current = asking()
            second = await asked(app, "one", other_than=first.id)
            assert (await app.tasks.get(first.id)).status == "cancelled"
            await app.tasks.approve(second.id, by="bob")
            assert await run.result(600) == 2

    virtual.play(main)
