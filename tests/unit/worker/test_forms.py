"""Forms: asked, answered, refused, expired, given up; and beside all that a run can do meanwhile."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import cbor2
import pytest
from msgspec.structs import replace

from holdfast import Holdfast, RunCancelled, RunFailed, verify_evidence
from holdfast.audit import records as r
from holdfast.errors import InvalidAnswer, TaskClosed, TaskForbidden
from holdfast.store import protocol as p
from tests.unit.worker.asking_people import (
    ALL,
    UNDONE,
    anyone,
    failing,
    gathering,
    hurried,
    odd,
    patient,
    plain,
    review,
    rounds,
    strict,
    stuck,
)
from tests.unit.worker.ground import OPTIONS, Ground, asked, kill, rested, told


@pytest.fixture(autouse=True)
def nothing_undone() -> None:
    UNDONE.clear()


async def open_task(app: Holdfast, run: str, title: str | None = None) -> p.TaskRow:
    """The open task of a run, of that title where one is given, as soon as there is one."""
    while True:
        async for task in app.tasks.list(run=run):
            if title is None or task.summary == title:
                return task
        await asyncio.sleep(0.01)


def test_an_answer_of_the_group_is_the_result_of_the_call(ground: Ground) -> None:
    """Typed, once, and by nobody who is excluded or not asked; the audit tells what was seen and said, by hash."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL) as app:
            run = await app.start(review, "Fred", id="one", actor="fred")
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
            entries = await told(app, r.Asked, "one")
            assert [(each.verdict, each.who) for each in entries] == [("requested", None), ("completed", "ann")]
            assert entries[0].form == entries[1].form == r.of_bytes("form", task.form)
            assert entries[1].shown is not None
            assert entries[1].shown.sha256 == r.of_bytes("", cbor2.dumps({"total": 12}, canonical=True)).sha256
            assert entries[1].answer == r.of_bytes("result", cbor2.dumps(good, canonical=True))

    ground.play(main)


def test_an_answer_that_does_not_fit_leaves_the_task_open(ground: Ground) -> None:
    """Every problem is told with its place, and the next answer counts."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL) as app:
            run = await app.start(anyone, id="one")
            task = await asked(app, "one")
            with pytest.raises(InvalidAnswer) as caught:
                await app.tasks.complete(task.id, {"amount": "much", "more": 1}, by="ann")
            assert [place for place, _ in caught.value.problems] == ["", "", "/amount"]
            assert await app.tasks.get(task.id) == task
            await app.tasks.complete(task.id, {"decision": "yes"}, by="ann")
            assert await run.result(30) == "yes"

    ground.play(main)


def test_an_answer_that_the_type_refuses_is_asked_for_again(ground: Ground) -> None:
    """A validator knows more than a schema: the next task says what was wrong with the answer."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL) as app:
            run = await app.start(strict, id="one")
            first = await asked(app, "one")
            await app.tasks.complete(first.id, {"even": 3}, by="ann")
            second = await open_task(app, "one")
            assert second.id != first.id
            assert "it is odd" in cbor2.loads(second.details)["problem"]
            await app.tasks.complete(second.id, {"even": 4}, by="ann")
            assert await run.result(30) == 4

    ground.play(main)


def test_a_dataclass_is_a_form_too(ground: Ground) -> None:
    """As are pydantic models and msgspec structs."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL) as app:
            run = await app.start(plain, id="one")
            await app.tasks.complete((await asked(app, "one")).id, {"good": True}, by="ann")
            assert await run.result(30) is True

    ground.play(main)


def test_time_reminds_escalates_and_lets_expire(virtual: Ground) -> None:
    """Each at its very time, noted in the audit and seen on the task; the workflow catches a TimeoutError."""

    async def main(ground: Ground) -> None:
        loop = asyncio.get_running_loop()
        async with ground.engine(*ALL) as app:
            run = await app.start(patient, id="one")
            task = await asked(app, "one")
            begun = loop.time()
            await app.tasks.claim(task.id, by="ann")
            assert await run.result() == "expired"
            assert timedelta(hours=3) <= timedelta(seconds=loop.time() - begun) < timedelta(hours=3, seconds=10)
            entries = await told(app, r.Asked, "one")
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
            assert (last.status, last.owner, last.reminded) == ("expired", "ann", 2)
            with pytest.raises(TaskClosed):
                await app.tasks.complete(task.id, {"decision": "yes"}, by="ann")
            assert (await app.audit.verify()).good

    virtual.play(main)


def test_escalation_adds_candidates_and_keeps_the_owner(virtual: Ground) -> None:
    """Who has the task still has it; when they give it back, those of the escalation may answer as well."""

    async def main(ground: Ground) -> str:
        async with ground.engine(*ALL) as app:
            run = await app.start(patient, id="one")
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

    assert virtual.play(main) == "up"


def test_reminders_that_nobody_was_there_for_are_one(virtual: Ground) -> None:
    """No engine ran when their times came: the next one gives one reminder, and escalates."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL) as app:
            await app.start(patient, id="one")
            task = await asked(app, "one")
            await rested(app, "one")
        await asyncio.sleep(2.5 * 3600)
        async with ground.engine(*ALL) as app:
            await asyncio.sleep(60)
            assert [each.verdict for each in await told(app, r.Asked, "one")] == ["requested", "escalated", "reminded"]
            await app.tasks.complete(task.id, {"decision": "up"}, by="lea", groups=["leads"])
            assert await app.run("one").result(60) == "up"

    virtual.play(main)


def test_cancelling_the_run_cancels_its_form(ground: Ground) -> None:
    """Nobody is asked in vain."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL) as app:
            run = await app.start(anyone, id="one")
            task = await asked(app, "one")
            await run.cancel()
            with pytest.raises(RunCancelled):
                await run.result(30)
            assert (await app.tasks.get(task.id)).status == "cancelled"
            with pytest.raises(TaskClosed):
                await app.tasks.complete(task.id, {"decision": "yes"}, by="ann")
            assert (await app.audit.verify()).good

    ground.play(main)


def test_a_failing_step_beside_a_form_closes_it_and_what_was_done_is_undone(ground: Ground) -> None:
    """The run fails, its form is cancelled, and the step before both is taken back."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL) as app:
            run = await app.start(gathering, id="one")
            with pytest.raises(RunFailed, match="given up"):
                await run.result(30)
            assert UNDONE == ["first"]
            assert [task.status async for task in app.tasks.list(status=None)] == ["cancelled"]

    ground.play(main)


def test_a_timeout_gives_up_the_forms_of_a_task_group(virtual: Ground) -> None:
    """What was answered in time stays answered, the other is cancelled."""

    async def main(ground: Ground) -> str:
        async with ground.engine(*ALL) as app:
            run = await app.start(hurried, id="one")
            first = await open_task(app, "one", "one")
            await app.tasks.complete(first.id, {"decision": "a"}, by="ann")
            said = str(await run.result())
            statuses = {task.summary: task.status async for task in app.tasks.list(status=None)}
            assert statuses == {"one": "completed", "two": "cancelled"}
            return said

    assert virtual.play(main) == "late"


def test_of_two_answers_at_once_one_counts(ground: Ground) -> None:
    """The other is told that the task is closed."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL) as app:
            run = await app.start(anyone, id="one")
            task = await asked(app, "one")
            answers = [app.tasks.complete(task.id, {"decision": who}, by=who) for who in ("ann", "bob")]
            outcomes = await asyncio.gather(*answers, return_exceptions=True)
            (done,) = [each for each in outcomes if isinstance(each, p.TaskRow)]
            assert [type(each) for each in outcomes if each is not done] == [TaskClosed]
            assert await run.result(30) == done.answers[-1].who

    ground.play(main)


@pytest.mark.parametrize("early", [0, 1, 1000])
def test_an_answer_in_the_moment_of_expiry_counts_or_is_refused(virtual: Ground, early: int) -> None:
    """Whichever comes first: whoever is told that it counted sees the run go on with it."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL) as app:
            run = await app.start(patient, id="one")
            task = await asked(app, "one")
            assert task.expires_at is not None
            await asyncio.sleep((task.expires_at - early - ground.clock.now()) / 1e6)
            try:
                await app.tasks.complete(task.id, {"decision": "just so"}, by="ann")
                said = "just so"
            except TaskClosed:
                said = "expired"
            assert await run.result() == said
            assert (await app.audit.verify()).good

    virtual.play(main)


def test_an_answer_while_no_worker_lives_is_found_by_the_next(virtual: Ground) -> None:
    """The worker was killed; the answer lies in the inbox."""

    async def main(ground: Ground) -> str:
        async with ground.engine(*ALL) as app:
            await app.start(anyone, id="one")
            task = await asked(app, "one")
            kill(app)
        async with ground.engine(policy=None) as client:
            await client.tasks.complete(task.id, {"decision": "late"}, by="ann")
        async with ground.engine(*ALL) as app:
            return str(await app.run("one").result(60))

    assert virtual.play(main) == "late"


def test_a_generation_that_ends_closes_the_forms_that_it_leaves_open(virtual: Ground) -> None:
    """The next one asks anew, under other ids."""

    async def main(ground: Ground) -> str:
        async with ground.engine(*ALL) as app:
            run = await app.start(rounds, 1, id="one")
            await app.tasks.complete((await open_task(app, "one", "round 1")).id, {"decision": "on"}, by="ann")
            second = await open_task(app, "one", "round 0")
            left = [task async for task in app.tasks.list(status=None) if task.summary == "left open"]
            assert [task.status for task in left] == ["cancelled"]
            await app.tasks.complete(second.id, {"decision": "end"}, by="ann")
            return str(await run.result())

    assert virtual.play(main) == "end"


def test_a_retry_keeps_what_was_answered_before_the_failure(virtual: Ground) -> None:
    """What is kept is not asked again; what is not kept is."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL) as app:
            run = await app.start(failing, id="one")
            await app.tasks.complete((await open_task(app, "one", "first")).id, {"decision": "a"}, by="ann")
            await app.tasks.complete((await open_task(app, "one", "second")).id, {"decision": "fail"}, by="ann")
            with pytest.raises(RunFailed):
                await run.result()
            await run.retry()
            titles = [task.summary async for task in app.tasks.list(status=None)]
            await asyncio.sleep(30)
            if (await run.info()).standing == "failed":  # the answer itself made it fail: it is kept, and fails again
                assert titles.count("first") == 1
            else:
                await app.tasks.complete((await open_task(app, "one")).id, {"decision": "b"}, by="ann")
                assert await run.result() == "ab"

    virtual.play(main)


def test_a_retried_run_asks_again_what_its_cancellation_closed(virtual: Ground) -> None:
    """The task of the cancelled generation stays closed; the next has one of its own."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL) as app:
            run = await app.start(failing, id="one")
            await app.tasks.complete((await open_task(app, "one", "first")).id, {"decision": "a"}, by="ann")
            second = await open_task(app, "one", "second")
            await run.cancel()
            with pytest.raises(RunCancelled):
                await run.result()
            await run.retry()
            again = await open_task(app, "one", "second")
            assert again.id != second.id
            await app.tasks.complete(again.id, {"decision": "b"}, by="ann")
            assert await run.result() == "ab"
            assert (await app.audit.verify()).good

    virtual.play(main)


def test_a_fork_has_the_answers_and_asks_the_rest_itself(virtual: Ground) -> None:
    """Both runs end on their own."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL) as app:
            run = await app.start(failing, id="one")
            await app.tasks.complete((await open_task(app, "one", "first")).id, {"decision": "a"}, by="ann")
            await open_task(app, "one", "second")
            await rested(app, "one")
            fork = await run.fork((await run.info()).version, id="two")
            task = await open_task(app, "two")
            assert task.summary == "second"
            await app.tasks.complete(task.id, {"decision": "z"}, by="ann")
            assert await fork.result() == "az"
            await app.tasks.complete((await open_task(app, "one")).id, {"decision": "b"}, by="ann")
            assert await run.result() == "ab"
            assert (await app.audit.verify()).good

    virtual.play(main)


def test_a_form_that_nobody_may_answer_is_seen(ground: Ground) -> None:
    """The run waits; who looks at it is told that it waits in vain."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL) as app:
            run = await app.start(stuck, id="one", actor="eve")
            await asked(app, "one")
            await rested(app, "one")
            assert "nobody of them may" in await run.explain()

    ground.play(main)


def test_a_type_that_cannot_be_a_form_parks_the_run(ground: Ground) -> None:
    """Its author must act, and nobody is asked what nobody could answer."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL) as app:
            run = await app.start(odd, id="one")
            while (pause := (await run.info()).pause) is None:
                await app.changed(0.05)
            assert "cannot be a form" in pause
            assert [task async for task in app.tasks.list(status=None)] == []

    ground.play(main)


def test_evidence_says_that_a_person_answered_what_the_run_went_on_with(virtual: Ground) -> None:
    """A run with a form is governed: its bundle has the entry of the answer."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, options=replace(OPTIONS, evidence=True)) as app:
            run = await app.start(review, "fred", id="one")
            task = await asked(app, "one")
            await app.tasks.complete(task.id, {"decision": "pay"}, by="ann", groups=["claims"])
            assert await run.result() == ["pay", 0]
            assert (await run.info()).governed
            bundle = await run.evidence(anew=True)
        claims = {claim.about: claim for claim in verify_evidence(bundle.data).claims}
        assert claims["forms"].state == "consistent"
        assert "all forms (1) gave what a person answered" in claims["forms"].text

    virtual.play(main)
