"""Forms: asked, answered, refused, expired and given up, also together with steps, timeouts, retries and forks."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar

import cbor2
import pytest
from msgspec.structs import replace

from holdfast import Holdfast, RunCancelled, RunFailed, RunHandle, WorkerOptions, verify_evidence
from holdfast.audit import records as r
from holdfast.client.views.tasks import task_info
from holdfast.errors import InvalidAnswer, TaskClosed, TaskForbidden
from holdfast.programs.function.decorators import Workflow
from holdfast.store import protocol as p
from holdfast.views import TaskInfo
from tests.scope import one_stays
from tests.unit.worker.asking_people import (
    ALL,
    FAULTS,
    UNDONE,
    anyone,
    failing,
    faulty,
    gathering,
    hurried,
    joining,
    odd,
    patient,
    plain,
    review,
    rounds,
    strict,
    stuck,
)
from tests.unit.worker.ground import OPTIONS, Ground, asked, kill, notes, rested

T = TypeVar("T")


@pytest.fixture(autouse=True)
def nothing_undone() -> None:
    UNDONE.clear()
    FAULTS.clear()


def play(
    ground: Ground,
    workflow: Workflow[..., Any],
    scene: Callable[[Holdfast, RunHandle[Any]], Awaitable[T]],
    *args: object,
    actor: str | None = None,
    options: WorkerOptions = OPTIONS,
) -> T:
    """Play a scene with one engine and the run ``one`` of the workflow, which was just started."""

    async def main(ground: Ground) -> T:
        async with ground.engine(*ALL, options=options) as app:
            return await scene(app, await app.start(workflow, *args, id="one", actor=actor))

    return ground.play(main)


async def decide(app: Holdfast, task: p.TaskRow, decision: str) -> None:
    """Ann fills in the form, a Review, with this decision."""
    await app.tasks.complete(task.id, {"decision": decision}, by="ann")


async def open_task(app: Holdfast, title: str) -> p.TaskRow:
    """The open task of run ``one`` with that title, as soon as there is one."""
    while True:
        async for task in app.tasks.list(run="one"):
            if task.summary == title:
                return task
        await app.changed(0.05)


def test_an_answer_of_the_group_is_the_result_of_the_call(ground: Ground) -> None:
    """It is typed, and comes from a candidate who is not excluded. The audit has the hashes of form and answer."""

    async def main(app: Holdfast, run: RunHandle[Any]) -> None:
        task = await asked(app, "one")
        await rested(app, "one")
        assert (task.kind, task.summary, task.groups, task.excluded) == (
            "form",
            "review claim",
            ("claims",),
            ("Fred",),
        )
        assert cbor2.loads(task.details)["shown"] == {"total": 12}
        assert task.due_at == task.created_at + 48 * 3600 * 1_000_000
        explained = await run.explain()
        assert "somebody of group claims (not Fred) to answer 'review claim'" in explained
        assert f"holdfast tasks complete {task.id}" in explained
        good = {"decision": "pay", "amount": 3}
        with pytest.raises(TaskForbidden, match="group claims may"):
            await app.tasks.complete(task.id, good, by="ann")
        with pytest.raises(TaskForbidden, match="excluded"):
            await app.tasks.complete(task.id, good, by="fred", groups=["claims"])
        done = await app.tasks.complete(task.id, good, by="ann", groups=["claims"], reason="fine")
        assert done.status == "completed"
        assert await run.result(30) == ["pay", 3]
        entries = await notes(app, r.Asked, "one")
        assert [(each.verdict, each.who) for each in entries] == [("requested", None), ("completed", "ann")]
        assert entries[0].form == entries[1].form == r.of_bytes("form", task.form)
        assert entries[1].shown is not None
        assert entries[1].shown.sha256 == r.of_bytes("", cbor2.dumps({"total": 12}, canonical=True)).sha256
        assert entries[1].answer == r.of_bytes("result", cbor2.dumps(good, canonical=True))

    play(ground, review, main, "Fred", actor="fred")


def test_an_answer_that_does_not_fit_leaves_the_task_open(ground: Ground) -> None:
    """Every problem has its place, and the next answer counts."""

    async def main(app: Holdfast, run: RunHandle[Any]) -> None:
        task = await asked(app, "one")
        with pytest.raises(InvalidAnswer) as caught:
            await app.tasks.complete(task.id, {"amount": "much", "more": 1}, by="ann")
        assert [place for place, _ in caught.value.problems] == ["", "", "/amount"]
        assert await app.tasks.get(task.id) == task_info(task)
        await decide(app, task, "yes")
        assert await run.result(30) == "yes"

    play(ground, anyone, main)


def test_an_answer_that_the_type_refuses_is_asked_for_again(ground: Ground) -> None:
    """A validator checks more than a schema: the next task has the problem of the answer."""

    async def main(app: Holdfast, run: RunHandle[Any]) -> None:
        first = await asked(app, "one")
        await app.tasks.complete(first.id, {"even": 3}, by="ann")
        second = await asked(app, "one")
        assert second.id != first.id
        assert "it is odd" in cbor2.loads(second.details)["problem"]
        await app.tasks.complete(second.id, {"even": 4}, by="ann")
        assert await run.result(30) == 4

    play(ground, strict, main)


def test_a_dataclass_is_a_form_too(ground: Ground) -> None:
    """As are pydantic models and msgspec structs."""

    async def main(app: Holdfast, run: RunHandle[Any]) -> None:
        await app.tasks.complete((await asked(app, "one")).id, {"good": True}, by="ann")
        assert await run.result(30) is True

    play(ground, plain, main)


def test_time_reminds_escalates_and_lets_expire(virtual: Ground) -> None:
    """Each at its time, noted in the audit and on the task; the workflow catches a TimeoutError."""

    async def main(app: Holdfast, run: RunHandle[Any]) -> None:
        loop = asyncio.get_running_loop()
        task = await asked(app, "one")
        begun = loop.time()
        await app.tasks.claim(task.id, by="ann")
        assert await run.result() == "expired"
        assert timedelta(hours=3) <= timedelta(seconds=loop.time() - begun) < timedelta(hours=3, seconds=10)
        entries = await notes(app, r.Asked, "one")
        assert [each.verdict for each in entries] == [
            "requested",
            "claimed",
            "reminded",
            "reminded",
            "escalated",
            "expired",
        ]
        minutes = [round((each.at - task.created_at) / 60e6, 1) for each in entries[2:]]
        assert minutes == [60.0, 90.0, 120.0, 180.0]
        last = await app.tasks.get(task.id)
        assert (last.status, last.owner) == ("expired", "ann")
        assert last.reminded_at == last.reminders[-1]
        with pytest.raises(TaskClosed):
            await decide(app, task, "yes")
        assert (await app.audit.verify()).good

    play(virtual, patient, main)


def test_escalation_adds_candidates_and_keeps_the_owner(virtual: Ground) -> None:
    """The holder stays; after a release the added people may answer, too."""

    async def main(app: Holdfast, run: RunHandle[Any]) -> str:
        task = await asked(app, "one")
        await app.tasks.claim(task.id, by="ann")
        with pytest.raises(TaskForbidden):
            await app.tasks.complete(task.id, {"decision": "up"}, by="lea", groups=["leads"])
        await asyncio.sleep(2.5 * 3600)
        with pytest.raises(TaskForbidden, match="ann may"):
            await app.tasks.complete(task.id, {"decision": "up"}, by="lea", groups=["leads"])
        await app.tasks.release(task.id, by="ann")
        await app.tasks.complete(task.id, {"decision": "up"}, by="lea", groups=["leads"])
        return str(await run.result())

    assert play(virtual, patient, main) == "up"


def test_missed_reminders_become_one(virtual: Ground) -> None:
    """No engine ran at their times: the next engine gives one reminder, and escalates."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL) as app:
            await app.start(patient, id="one")
            task = await asked(app, "one")
            await rested(app, "one")
        await asyncio.sleep(2.5 * 3600)
        async with ground.engine(*ALL) as app:
            await asyncio.sleep(60)
            assert [each.verdict for each in await notes(app, r.Asked, "one")] == [
                "requested",
                "escalated",
                "reminded",
            ]
            await app.tasks.complete(task.id, {"decision": "up"}, by="lea", groups=["leads"])
            assert await app.run("one").result(60) == "up"

    virtual.play(main)


def test_cancelling_the_run_cancels_its_form(ground: Ground) -> None:
    """A task of a cancelled run is closed."""

    async def main(app: Holdfast, run: RunHandle[Any]) -> None:
        task = await asked(app, "one")
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result(30)
        assert (await app.tasks.get(task.id)).status == "cancelled"
        with pytest.raises(TaskClosed):
            await decide(app, task, "yes")
        assert (await app.audit.verify()).good

    play(ground, anyone, main)


def test_a_failing_step_beside_a_form_closes_it_and_earlier_steps_are_undone(ground: Ground) -> None:
    """The run fails, its form is cancelled, and the step before both is undone."""

    async def main(app: Holdfast, run: RunHandle[Any]) -> None:
        with pytest.raises(RunFailed, match="given up"):
            await run.result(30)
        assert UNDONE == ["first"]
        assert [task.status async for task in app.tasks.list(status=None)] == ["cancelled"]

    play(ground, gathering, main)


def test_a_timeout_gives_up_the_forms_of_a_task_group(virtual: Ground) -> None:
    """The form that was answered in time stays completed, the other is cancelled."""

    async def main(app: Holdfast, run: RunHandle[Any]) -> str:
        first = await open_task(app, "one")
        await decide(app, first, "a")
        result = str(await run.result())
        statuses = {task.summary: task.status async for task in app.tasks.list(status=None)}
        assert statuses == {"one": "completed", "two": "cancelled"}
        return result

    assert play(virtual, hurried, main) == "late"


def test_of_two_answers_at_once_one_counts(ground: Ground) -> None:
    """The other person gets TaskClosed."""

    async def main(app: Holdfast, run: RunHandle[Any]) -> None:
        task = await asked(app, "one")
        answers = [app.tasks.complete(task.id, {"decision": who}, by=who) for who in ("ann", "bob")]
        outcomes = await asyncio.gather(*answers, return_exceptions=True)
        (done,) = [each for each in outcomes if isinstance(each, TaskInfo)]
        assert [type(each) for each in outcomes if each is not done] == [TaskClosed]
        assert await run.result(30) == done.answers[-1].who

    play(ground, anyone, main)


@pytest.mark.parametrize("early", one_stays([0, 1, 1000]))
def test_an_answer_in_the_moment_of_expiry_counts_or_is_refused(virtual: Ground, early: int) -> None:
    """Whichever comes first. An answer that counted is the result of the run."""

    async def main(app: Holdfast, run: RunHandle[Any]) -> None:
        task = await asked(app, "one")
        assert task.expires_at is not None
        await asyncio.sleep((task.expires_at - early - virtual.clock.now()) / 1e6)
        try:
            await decide(app, task, "just so")
            expected = "just so"
        except TaskClosed:
            expected = "expired"
        assert await run.result() == expected
        assert (await app.audit.verify()).good

    play(virtual, patient, main)


def test_an_answer_while_no_worker_lives_is_found_by_the_next(virtual: Ground) -> None:
    """The worker was killed; the answer waits in the inbox."""

    async def main(ground: Ground) -> str:
        async with ground.engine(*ALL) as app:
            await app.start(anyone, id="one")
            task = await asked(app, "one")
            kill(app)
        async with ground.engine(policy=None) as client:
            await decide(client, task, "late")
        async with ground.engine(*ALL) as app:
            return str(await app.run("one").result(60))

    assert virtual.play(main) == "late"


def test_answers_that_were_given_in_time_win_over_a_timer_that_is_due_when_they_are_read(virtual: Ground) -> None:
    """No worker was there when people answered, nor when the time-out came: as with signals, the answers were first."""

    async def main(ground: Ground) -> str:
        async with ground.engine(*ALL) as app:
            await app.start(hurried, id="one")
            tasks = [await open_task(app, title) for title in ("one", "two")]
            await rested(app, "one")
            kill(app)
        async with ground.engine(policy=None) as client:
            for task in tasks:
                await client.tasks.complete(task.id, {"decision": task.summary}, by="ann")
        await asyncio.sleep(120)
        async with ground.engine(*ALL) as app:
            return str(await app.run("one").result(60))

    assert virtual.play(main) == "onetwo"


def test_a_generation_that_ends_closes_the_forms_that_it_leaves_open(virtual: Ground) -> None:
    """The next generation asks again, in tasks with other ids."""

    async def main(app: Holdfast, run: RunHandle[Any]) -> str:
        await decide(app, await open_task(app, "round 1"), "on")
        second = await open_task(app, "round 0")
        open_before = [task async for task in app.tasks.list(status=None) if task.summary == "left open"]
        assert [task.status for task in open_before] == ["cancelled"]
        await decide(app, second, "end")
        return str(await run.result())

    assert play(virtual, rounds, main, 1) == "end"


def test_a_retry_keeps_what_was_answered_before_the_failure(virtual: Ground) -> None:
    """A form that was answered is not asked again. A form that the failure closed is asked again."""

    async def main(app: Holdfast, run: RunHandle[Any]) -> None:
        FAULTS.append("no")
        await decide(app, await asked(app, "one"), "a")
        with pytest.raises(RunFailed):
            await run.result()
        FAULTS.clear()
        await run.retry()
        again = await asked(app, "one")
        assert again.summary == "beside"
        await decide(app, again, "b")
        assert await run.result() == "a"
        tasks = sorted([(task.generation, task.summary, task.status) async for task in app.tasks.list(status=None)])
        assert tasks == [(0, "beside", "cancelled"), (0, "first", "completed"), (1, "beside", "completed")]
        assert (await app.audit.verify()).good

    play(virtual, faulty, main)


def test_a_retried_run_asks_again_what_its_cancellation_closed(virtual: Ground) -> None:
    """The task of the cancelled generation stays closed; the next generation has another."""

    async def main(app: Holdfast, run: RunHandle[Any]) -> None:
        await decide(app, await open_task(app, "first"), "a")
        second = await open_task(app, "second")
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()
        await run.retry()
        again = await open_task(app, "second")
        assert again.id != second.id
        await decide(app, again, "b")
        assert await run.result() == "ab"
        assert (await app.audit.verify()).good

    play(virtual, failing, main)


def test_a_fork_has_the_answers_and_asks_the_rest_itself(virtual: Ground) -> None:
    """Both runs end independently."""

    async def main(app: Holdfast, run: RunHandle[Any]) -> None:
        await decide(app, await open_task(app, "first"), "a")
        await open_task(app, "second")
        await rested(app, "one")
        fork = await run.fork((await run.info()).events, id="two")
        task = await asked(app, "two")
        assert task.summary == "second"
        await decide(app, task, "z")
        assert await fork.result() == "az"
        await decide(app, await asked(app, "one"), "b")
        assert await run.result() == "ab"
        assert (await app.audit.verify()).good

    play(virtual, failing, main)


def test_a_form_that_nobody_may_answer_is_seen(ground: Ground) -> None:
    """The run waits, and `explain` says that nobody may answer."""

    async def main(app: Holdfast, run: RunHandle[Any]) -> None:
        await asked(app, "one")
        await rested(app, "one")
        assert "nobody of them may" in await run.explain()

    play(ground, stuck, main, actor="eve")


def test_a_type_that_cannot_be_a_form_parks_the_run(ground: Ground) -> None:
    """Its author must act, and no task is made."""

    async def main(app: Holdfast, run: RunHandle[Any]) -> None:
        while (pause := (await run.info()).pause_reason) is None:
            await app.changed(0.05)
        assert "cannot be a form" in pause
        assert [task async for task in app.tasks.list(status=None)] == []

    play(ground, odd, main)


def test_a_form_is_no_member_of_a_join_set(virtual: Ground, recwarn: pytest.WarningsRecorder) -> None:
    """The author is told what to do instead, in the same words each time the run is resumed."""

    async def main(ground: Ground) -> list[str | None]:
        async with ground.engine(joining) as app:
            run = await app.start(joining, id="one")
            reasons = []
            for _ in range(2):
                await asyncio.sleep(1)
                reasons.append((await app.store.get([run.key]))[0].pause)
                await run.resume()
            return reasons

    first, second = virtual.play(main)
    assert first is not None
    assert first == second
    assert "ask() is neither: call it in a child workflow, or use asyncio.gather()" in first
    gc.collect()
    assert [str(each.message) for each in recwarn if "never awaited" in str(each.message)] == []


def test_evidence_shows_that_a_person_gave_the_answer(virtual: Ground) -> None:
    """A run with a form is governed: its bundle has the entry of the answer."""

    async def main(app: Holdfast, run: RunHandle[Any]) -> None:
        task = await asked(app, "one")
        await app.tasks.complete(task.id, {"decision": "pay"}, by="ann", groups=["claims"])
        assert await run.result() == ["pay", 0]
        assert (await run.info()).governed
        bundle = await run.evidence(anew=True)
        claims = {claim.about: claim for claim in verify_evidence(bundle.data).claims}
        assert claims["forms"].state == "consistent"
        assert "all forms (1) gave the answer of a person" in claims["forms"].text

    play(virtual, review, main, "fred", options=replace(OPTIONS, evidence=True))
