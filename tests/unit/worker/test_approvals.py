"""Approvals: asked for, given, refused, expired, and over exactly what was proposed."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest

from holdfast import Holdfast, RunCancelled, action, workflow
from holdfast.audit import records as r
from holdfast.audit import task_changes
from holdfast.errors import CallerError, InvalidRequest, TaskClosed, TaskForbidden
from holdfast.store import protocol as p
from holdfast.tasks.answers import answer
from tests.unit.worker.ground import Ground, asked, asking, kill, notes, policy_of, receipts, rested
from tests.unit.worker.paying import ALL, DONE, careful, failure_of, pay, paying


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


def test_an_approved_action_is_done_once_and_its_receipt_names_the_task(ground: Ground) -> None:
    """It waits without a worker, and goes on when a person says so."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, policy=asking()) as app:
            run = await app.start(paying, "a-1", id="one", actor="ann")
            task = await asked(app, "one")
            await rested(app, "one")
            assert DONE == []
            assert (task.kind, task.tier, task.starter, task.rule) == ("approval", "med", "ann", "r0")
            assert "a person to approve gov.pay" in await run.explain()
            assert f"holdfast approve {task.id}" in await run.explain()
            answered = await app.tasks.approve(task.id, by="bob", reason="fine")
            assert answered.status == "approved"
            assert await run.result(30) == ["paid 1"]
            (row,) = await receipts(app)
            assert (row.state, row.task) == ("succeeded", task.id)
            verdicts = [(each.verdict, each.who, each.reason) for each in await notes(app, r.Asked, "one")]
            assert verdicts == [("requested", None, ""), ("approved", "bob", "fine")]
            effects = [(each.effect, each.stage, each.task) for each in await notes(app, r.Decided, "one")]
            assert effects == [("needs_approval", "policy", task.id), ("allow", "approval", task.id)]

    ground.play(main)
    assert DONE == ["a-1 1"]


def test_a_rejected_action_fails_its_call_and_is_not_done(ground: Ground) -> None:
    """The workflow learns who said no, and why."""

    async def main(ground: Ground) -> str:
        async with ground.engine(*ALL, policy=asking()) as app:
            run = await app.start(careful, "a-1", id="one")
            await app.tasks.reject((await asked(app, "one")).id, by="bob", reason="too much")
            said = await run.result(30)
            assert await receipts(app) == []
            assert (await notes(app, r.Decided, "one"))[-1].stage == "approval"
            return said

    said = ground.play(main)
    assert said.startswith("rejected:")
    assert "bob rejected it" in said
    assert "too much" in said
    assert DONE == []


def test_an_approval_that_nobody_gives_expires_and_is_told(virtual: Ground) -> None:
    """The time is the one that the rule gives; afterwards nobody can answer any more."""

    async def main(ground: Ground) -> str:
        loop = asyncio.get_running_loop()
        async with ground.engine(*ALL, policy=asking(expires_in="2h")) as app:
            run = await app.start(careful, "a-1", id="one")
            task = await asked(app, "one")
            begun = loop.time()
            said = await run.result()
            assert timedelta(hours=2) <= timedelta(seconds=loop.time() - begun) < timedelta(hours=2, seconds=10)
            with pytest.raises(TaskClosed, match="expired"):
                await app.tasks.approve(task.id, by="bob")
            assert (await app.tasks.get(task.id)).status == "expired"
            assert [each.verdict for each in await notes(app, r.Asked, "one")] == ["requested", "expired"]
            return said

    assert "nobody answered approval" in virtual.play(main)
    assert DONE == []


def test_an_approval_expires_while_no_engine_runs(virtual: Ground) -> None:
    """The timer is durable: the next engine finds it past, also where nobody wakes the run, and people come too late
    even before that."""

    async def main(ground: Ground) -> str:
        async with ground.engine(*ALL, policy=asking(expires_in="1h")) as app:
            await app.start(careful, "a-1", id="one")
            task = await asked(app, "one")
            await rested(app, "one")
        await asyncio.sleep(7200)
        async with ground.engine(*ALL, policy=asking(expires_in="1h")) as app:
            with pytest.raises(TaskClosed):
                await app.tasks.approve(task.id, by="bob")
            result: str = await app.run("one").result(60)
            return result

    assert "expired:" in virtual.play(main)
    assert DONE == []


def test_an_approval_expires_on_time_by_a_real_clock() -> None:
    """With the usual options: the run is in memory and rests, and only the time makes it go on."""

    async def main() -> tuple[str, float]:
        async with Holdfast("memory://", workflows=[careful], policy=asking(expires_in="1s")) as app:
            begun = time.monotonic()
            return await (await app.start(careful, "a-1", id="one")).result(20), time.monotonic() - begun

    said, seconds = asyncio.run(main())
    assert "nobody answered approval" in said
    assert seconds >= 1.0
    assert DONE == []


def test_an_expired_approval_is_asked_for_anew_when_the_run_is_retried(virtual: Ground) -> None:
    """What ApprovalExpired says: retry the run to ask again."""

    async def main(ground: Ground) -> list[str]:
        async with ground.engine(*ALL, policy=asking(expires_in="1h")) as app:
            run = await app.start(paying, "a-1", id="one")
            first = await asked(app, "one")
            assert (await failure_of(app, "one")).type == "holdfast.errors:ApprovalExpired"
            await run.retry(by="ann")
            second = await asked(app, "one")
            assert second.id != first.id
            await app.tasks.approve(second.id, by="bob")
            return await run.result()

    assert virtual.play(main) == ["paid 1"]


def test_cancelling_a_run_closes_what_it_asks(ground: Ground) -> None:
    """Nobody is asked about a run that is gone, and nothing is done."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, policy=asking()) as app:
            run = await app.start(paying, "a-1", id="one")
            task = await asked(app, "one")
            await run.cancel("not needed", by="ann")
            with pytest.raises(RunCancelled):
                await run.result(30)
            assert [each async for each in app.tasks.list()] == []
            assert (await app.tasks.get(task.id)).status == "cancelled"
            with pytest.raises(TaskClosed):
                await app.tasks.approve(task.id, by="bob")

    ground.play(main)
    assert DONE == []


def test_two_people_must_approve_what_two_must(ground: Ground) -> None:
    """One person twice is one person, and one person's word leaves the task open."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, policy=asking(two_person=True)) as app:
            run = await app.start(paying, "a-1", id="one")
            task = await asked(app, "one")
            assert (await app.tasks.approve(task.id, by="bob")).status == "requested"
            with pytest.raises(TaskForbidden, match="second, different person"):
                await app.tasks.approve(task.id, by="bob")
            assert DONE == []
            assert (await app.tasks.approve(task.id, by="cid")).status == "approved"
            await run.result(30)
            said = [(each.verdict, each.who, each.status) for each in await notes(app, r.Asked, "one")][1:]
            assert said == [("approved", "bob", "requested"), ("approved", "cid", "approved")]

    ground.play(main)
    assert DONE == ["a-1 1"]


def test_who_started_the_run_cannot_approve_it_at_tier_high(ground: Ground) -> None:
    """Also not where the action is in a child, which has its parent's actor."""

    @workflow(name="gov.parent")
    async def parent(account: str) -> list[str]:
        return await paying(account)

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, parent, policy=asking("high")) as app:
            for flow, run, asking_run in ((paying, "one", "one"), (parent, "two", "two~0")):
                await app.start(flow, "a-1", id=run, actor="ann")
                task = await asked(app, asking_run)
                with pytest.raises(TaskForbidden, match="ann started the run"):
                    await app.tasks.approve(task.id, by="ann")
                await app.tasks.approve(task.id, by="bob")
                await app.run(run).result(30)

    ground.play(main)
    assert DONE == ["a-1 1", "a-1 1"]


def test_who_forks_a_run_cannot_thereby_approve_it_at_tier_high(virtual: Ground) -> None:
    """A fork has a starter, too: else whoever started the first could approve the second."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, policy=asking("high")) as app:
            run = await app.start(paying, "a-1", id="one", actor="ann", workspace="ops")
            await asked(app, "one")
            fork = await run.fork(1, id="two", by="ann")
            row = await fork.info()
            assert (row.actor, row.workspace) == ("ann", "ops")
            with pytest.raises(TaskForbidden):
                await app.tasks.approve((await asked(app, "two")).id, by="ann")

    virtual.play(main)


def test_a_fork_is_started_by_whoever_forks_it(virtual: Ground) -> None:
    """They ask for what it does, so an approval of tier high is another's. The audit says who, with the fork itself."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, policy=asking("high")) as app:
            run = await app.start(paying, "a-1", id="one", actor="ann")
            await asked(app, "one")
            fork = await run.fork(1, id="two", by="bob")
            assert (await fork.info()).actor == "bob"
            task = await asked(app, "two")
            with pytest.raises(TaskForbidden):
                await app.tasks.approve(task.id, by="bob")
            await app.tasks.approve(task.id, by="cid")
            await fork.result()
            _, noted = await notes(app, r.Operated, "one")
            assert (noted.act, noted.who, noted.details) == ("fork", "bob", {"sequence": "1", "fork": "two"})

    virtual.play(main)


def test_what_is_refused_is_not_in_the_audit(virtual: Ground) -> None:
    """An entry that someone has steered, where nothing was steered, would mislead whoever reads it."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, policy=asking()) as app:
            run = await app.start(paying, "a-1", id="one", actor="ann")
            task = await asked(app, "one")
            for refused in (run.retry(by="eve"), run.fork(99, by="eve"), run.fork(1, id="one", by="eve")):
                with pytest.raises(CallerError):
                    await refused
            with pytest.raises(InvalidRequest, match="the reason is a text"):
                await run.pause(7, by="eve")  # type: ignore[arg-type]
            await app.tasks.approve(task.id, by="bob")
            await run.result()
            for late in (run.cancel(by="eve"), run.pause(by="eve"), run.resume(by="eve"), run.retry(by="eve")):
                with pytest.raises(CallerError):
                    await late
            assert [each.act for each in await notes(app, r.Operated, "one")] == ["start"]

    virtual.play(main)


def test_an_answer_at_the_last_moment_leaves_no_refusal(virtual: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker found the task expired, and before it could say so somebody answered: only what counts is noted."""
    closing = task_changes.expired

    def overtaken(task: p.TaskRow, now: int, refused: p.Note) -> p.PutTask:
        said = answer(task, "bob", "approved", "", task.created_at)
        with pytest.raises(StopIteration):  # it is answered, with no wait in between
            virtual.store.commit([task_changes.put(said, "approved", task.created_at, "bob")]).send(None)
        return closing(task, now, refused)

    async def main(ground: Ground) -> list[str]:
        async with ground.engine(*ALL, policy=asking(expires_in="1h")) as app:
            monkeypatch.setattr(task_changes, "expired", overtaken)
            run = await app.start(paying, "a-1", id="one")
            result = await run.result()
            assert [each.effect for each in await notes(app, r.Decided, "one")] == ["needs_approval", "allow"]
            return result

    assert virtual.play(main) == ["paid 1"]


def test_an_approval_is_over_exactly_what_was_proposed(ground: Ground) -> None:
    """After a change of code the same call proposes something else: it is asked about anew, and the old question is
    closed."""

    @action(connector="bank", operation="pay", target="account {account}", risk="high", name="gov.pay (next)")
    async def next_pay(account: str, amount: int = 1) -> str:
        DONE.append(f"{account} {amount} by the next version")
        return f"paid {amount}"

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, policy=asking()) as app:
            await app.start(paying, "a-1", id="one")
            first = await asked(app, "one")
            await app.tasks.approve(first.id, by="bob")
            kill(app)
        async with ground.engine(*ALL, policy=asking(), steps={"gov.pay": next_pay}) as app:
            second = await asked(app, "one")
            assert second.id != first.id
            assert second.proposal != first.proposal
            assert DONE == []
            await app.tasks.approve(second.id, by="bob")
            await app.run("one").result(30)

    ground.play(main)
    assert DONE == ["a-1 1 by the next version"]


def test_an_open_question_is_closed_when_the_proposal_changes(virtual: Ground) -> None:
    """Deployed, rolled back and deployed again: each time one question is open, and it is over what would be done."""

    @action(connector="bank", operation="pay", target="account {account}", risk="high", name="gov.pay (next)")
    async def next_pay(account: str, amount: int = 1) -> str:
        DONE.append("the next version")
        return f"paid {amount}"

    async def main(ground: Ground) -> None:
        seen: list[str] = []
        async with ground.engine(*ALL, policy=asking()) as app:
            await app.start(paying, "a-1", id="one")
            seen.append((await asked(app, "one")).id)
            await rested(app, "one")
        for version in (next_pay, pay, next_pay, pay, next_pay):
            async with ground.engine(*ALL, policy=asking(), steps={"gov.pay": version}) as app:
                await app.run("one").signal("wake up")
                task = await asked(app, "one", other_than=seen[-1])
                assert task.id not in seen
                assert [each.id async for each in app.tasks.list()] == [task.id]
                seen.append(task.id)
                await rested(app, "one")
        async with ground.engine(*ALL, policy=asking(), steps={"gov.pay": next_pay}) as app:
            await app.tasks.approve(seen[-1], by="bob")
            await app.run("one").result()

    virtual.play(main)
    assert DONE == ["the next version"]


def test_a_policy_that_wants_more_by_now_is_not_content_with_less(virtual: Ground) -> None:
    """However often it is tightened between question and answer, the next question is asked, and answered it counts."""
    tightened = [asking("low"), asking("med"), asking("high"), asking("high", two_person=True)]

    async def main(ground: Ground) -> None:
        before = None
        async with ground.engine(*ALL, policy=tightened[0]) as app:
            await app.start(paying, "a-1", id="one", actor="ann")
            for policy in tightened[1:]:
                task = await asked(app, "one", other_than=before)
                await rested(app, "one")
                app.policy.current = policy
                await app.tasks.approve(task.id, by="bob")
                before = task.id
                assert DONE == []
            last = await asked(app, "one", other_than=before)
            assert (last.tier, last.two_person) == ("high", True)
            await app.tasks.approve(last.id, by="bob")
            await app.tasks.approve(last.id, by="cid")
            await app.run("one").result(60)

    virtual.play(main)
    assert DONE == ["a-1 1"]


@pytest.mark.parametrize("effect", ["allow", "deny"])
def test_a_question_is_closed_when_policy_has_another_answer_by_now(virtual: Ground, effect: str) -> None:
    """Judged again under a policy that asks nobody, the call goes on or fails, and nobody is left asked in vain."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, policy=asking()) as app:
            run = await app.start(careful, "a-1", id="one")
            task = await asked(app, "one")
            await rested(app, "one")
            app.policy.current = policy_of({"effect": effect})
            await run.signal("wake up")
            await run.result(60)
            assert [each async for each in app.tasks.list()] == []
            assert (await app.tasks.get(task.id)).status == "cancelled"

    virtual.play(main)
    assert (["a-1 1"] if effect == "allow" else []) == DONE


def test_only_a_delegated_person_may_answer(virtual: Ground) -> None:
    """Delegation passes the question on, among those who were asked, and is no approval."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, policy=asking(candidates=["bob", "oncall-*"])) as app:
            run = await app.start(paying, "a-1", id="one")
            task = await asked(app, "one")
            with pytest.raises(TaskForbidden, match="eve may not answer"):
                await app.tasks.approve(task.id, by="eve")
            with pytest.raises(TaskForbidden, match="eve may not answer"):
                await app.tasks.delegate(task.id, by="oncall-3", to="eve", reason="she knows")
            delegated = await app.tasks.delegate(task.id, by="oncall-3", to="oncall-4", reason="she knows")
            assert delegated.status == "requested"
            assert DONE == []
            assert "oncall-4 to approve" in await run.explain()
            with pytest.raises(TaskForbidden, match="oncall-4 may"):
                await app.tasks.approve(task.id, by="bob")
            await app.tasks.approve(task.id, by="oncall-4")
            await run.result(30)
            told_ = await notes(app, r.Asked, "one")
            assert [each.verdict for each in told_] == ["requested", "delegated", "approved"]

    virtual.play(main)


def test_a_question_is_explained_with_who_may_answer_it_and_since_when(virtual: Ground) -> None:
    """Not with whoever started the run at tier high, nor with who has approved; its age is its own, not the run's."""
    candidates = ["ann", "bob", "oncall-*"]

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, policy=asking("high", candidates=candidates)) as app:
            run = await app.start(paying, "a-1", id="one", actor="ann")
            first = await asked(app, "one")
            await rested(app, "one")
            assert "waiting for bob or oncall-* to approve gov.pay" in await run.explain()
            await asyncio.sleep(660)
            assert (await run.explain()).startswith("For 11 minutes it has been waiting")
            app.policy.current = asking("high", candidates=candidates, two_person=True)
            await app.tasks.approve(first.id, by="bob")
            second = await asked(app, "one", other_than=first.id)
            await rested(app, "one")
            told_ = await run.explain()
            assert "waiting for two people (bob or oncall-*) to approve gov.pay" in told_
            assert told_.startswith("For 0."), told_
            await app.tasks.approve(second.id, by="bob")
            await asyncio.sleep(300)
            told_ = await run.explain()
            assert told_.startswith(
                "For 5 minutes it has been waiting for a second person (oncall-*; bob has approved) to"
            )
            await app.tasks.delegate(second.id, by="ann", to="oncall-7")
            assert "a second person (oncall-7; bob has approved) to" in await run.explain()

    virtual.play(main)


@pytest.mark.parametrize(
    ("candidates", "two_person", "told_"),
    [
        ([], False, "waiting for a person (not ann, who started the run) to approve"),
        ([], True, "waiting for two people (not ann, who started the run) to approve"),
        (["a*"], False, "waiting for a* (not ann, who started the run) to approve"),
        (
            ["ann"],
            False,
            "waiting for a person (not ann, who started the run; and nobody else is a candidate) to approve",
        ),
    ],
)
def test_the_starter_is_named_among_those_who_may_not(
    virtual: Ground, candidates: list[str], two_person: bool, told_: str
) -> None:
    """Where a pattern, or anyone, would include them; and where nobody else is left."""
    more = {"candidates": candidates} if candidates else {}

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, policy=asking("high", two_person=two_person, **more)) as app:
            run = await app.start(paying, "a-1", id="one", actor="ann")
            await asked(app, "one")
            await rested(app, "one")
            assert told_ in await run.explain()

    virtual.play(main)


def test_of_two_answers_at_once_one_counts(ground: Ground) -> None:
    """The second learns that it came too late; nothing is done twice."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, policy=asking()) as app:
            run = await app.start(careful, "a-1", id="one")
            task = await asked(app, "one")
            answers = await asyncio.gather(
                app.tasks.approve(task.id, by="bob"),
                app.tasks.approve(task.id, by="cid"),
                return_exceptions=True,
            )
            assert sorted(type(answer).__name__ for answer in answers) == ["TaskClosed", "TaskInfo"]
            await run.result(30)

    ground.play(main)
    assert DONE == ["a-1 1"]
