"""The way of an action through the gate: judged, done once, receipted, recorded; or denied."""

from __future__ import annotations

import asyncio
import math
import time

import pytest

from holdfast import ActionDenied, Cost, action, workflow
from holdfast.audit import records as r
from tests.unit.worker.ground import FREE, Ground, asked, asking, notes, policy_of, receipts, rested
from tests.unit.worker.paying import ALL, DONE, careful, failure_of, paid, pay, paying, stepping


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


def test_what_policy_allows_is_done_once_and_receipted(ground: Ground) -> None:
    """One act, one receipt that says what came of it, one decision and one end in the audit, in that order."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL) as app:
            run = await app.start(paying, "a-1", id="one", actor="ann")
            assert await run.result(30) == ["paid 1"]
            (row,) = await receipts(app)
            assert (row.state, row.run, row.action, row.target, row.actor) == (
                "succeeded",
                "one",
                "gov.pay",
                "account a-1",
                "ann",
            )
            (receipt,) = [each async for each in app.receipts.list(run="one")]
            assert (receipt.arguments, receipt.result) == ({"account": "a-1", "amount": 1}, "paid 1")
            kinds = [type(record) for record in await notes(app, r.Record, "one")]  # type: ignore[arg-type]
            assert kinds == [r.Decided, r.Operated, r.Receipted, r.Ended]  # ann's start is noted with it
            (decision,) = await notes(app, r.Decided)
            assert (decision.effect, decision.rule, decision.actor) == ("allow", "r0", "ann")
            assert decision.fields == {"account": "text", "amount": "number"}

    ground.play(main)
    assert DONE == ["a-1 1"]


SURROGATE = "'utf-8' codec can't encode character '\\ud800' in position 0: surrogates not allowed"
BAD_COSTS: list[tuple[object, str]] = [
    (None, "it gave NoneType instead of a Cost"),
    (0.5, "it gave float instead of a Cost"),
    (Cost("acme", "1,50"), "could not convert string to float: '1,50'"),  # type: ignore[arg-type]
    (Cost("acme", math.nan), "nan is no amount"),
    (Cost("acme", math.inf), "inf is no amount"),
    (Cost("acme", 1, model=None), "None is no text"),  # type: ignore[arg-type]
    (Cost("acme", 1, model="\ud800"), SURROGATE),
    (ValueError("no rate for s3cret"), "no rate for [secret]"),
]


@pytest.mark.parametrize(("given", "why"), BAD_COSTS, ids=str)
def test_a_cost_that_cannot_be_told_loses_no_receipt(virtual: Ground, given: object, why: str) -> None:
    """The act was done: its receipt says so, and what was wrong with its cost, and no secret."""

    def cost(_: str) -> Cost:
        if isinstance(given, Exception):
            raise given
        return given  # type: ignore[return-value]

    @action(connector="llm", operation="ask", cost=cost, secret=["token"], name="gov.dear")
    async def dear(token: str) -> str:
        return "said"

    @workflow(name="gov.spending")
    async def spending() -> str:
        return await dear("s3cret")

    async def main(ground: Ground) -> None:
        async with ground.engine(spending) as app:
            assert await (await app.start(spending, id="one")).result() == "said"
            (row,) = await receipts(app)
            assert (row.state, row.cost) == (
                "succeeded",
                {"provider": "unknown", "model": "", "amount": 0.0, "currency": "", "error": f"cost= failed: {why}"},
            )

    virtual.play(main)


def test_a_governed_run_costs_as_many_commits_as_the_same_run_of_steps(ground: Ground) -> None:
    """The decision and the opened receipt ride with the intent, the closed one with the completion."""

    async def main(ground: Ground) -> tuple[int, int]:
        async with ground.engine(*ALL) as app:
            await (await app.start(paying, "warm", id="warm")).result(30)
            counts = []
            for flow in (stepping, paying):
                before = app.committer.commits
                await (await app.start(flow, "a-1", 5)).result(30)
                counts.append(app.committer.commits - before)
            return counts[0], counts[1]

    steps, actions = ground.play(main)
    assert actions == steps == 6


def test_what_policy_denies_is_raised_in_the_workflow_and_not_done(ground: Ground) -> None:
    """The workflow may catch it; nothing is done, nothing is receipted, and the audit says why."""
    strict = policy_of({"name": "no payments", "effect": "deny"})

    async def main(ground: Ground) -> str:
        async with ground.engine(*ALL, policy=strict) as app:
            run = await app.start(careful, "a-1", id="one")
            said = await run.result(30)
            assert await receipts(app) == []
            (decision,) = await notes(app, r.Decided, "one")
            assert (decision.effect, decision.stage, decision.rule) == ("deny", "policy", "no payments")
            assert (decision.policy, decision.reason) == (strict.hash, "rule 'no payments' denies it")
            await app.start(paying, "a-1", id="two")
            failure = await failure_of(app, "two")
            assert failure.type == "holdfast.errors:ActionDenied"
            return said

    said = ground.play(main)
    assert said.startswith("denied:")
    assert "gov.pay on account a-1: rule 'no payments' denies it" in said
    assert DONE == []


@pytest.mark.parametrize(
    ("policy", "stage", "why"),
    [
        (None, "policy", "no policy is in force"),
        (policy_of(), "policy", "what no rule allows is denied"),
        (policy_of({}, allowlist=["crm/*"]), "allowlist", "bank/pay is not on the allowlist"),
        (policy_of({"when": "action.fields.nothing > 1"}), "policy", "cannot be evaluated"),
        (policy_of({}, caps={"default": {"max_writes_per_run": 0}}), "caps", "its cap max_writes_per_run is 0"),
    ],
    ids=["no policy", "no rule", "not listed", "broken rule", "no writes"],
)
def test_what_nobody_allows_is_denied(virtual: Ground, policy: object, stage: str, why: str) -> None:
    """The gate fails closed, and says which part of it said no."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, policy=policy) as app:  # type: ignore[arg-type]
            assert why in await (await app.start(careful, "a-1", id="one")).result(30)
            (decision,) = await notes(app, r.Decided, "one")
            assert (decision.effect, decision.stage) == ("deny", stage)
            assert why in decision.reason

    virtual.play(main)
    assert DONE == []


def test_a_denied_run_can_be_retried_under_another_policy(ground: Ground) -> None:
    """A denial is no act: after the policy was changed the same call is judged again, and done."""

    async def main(ground: Ground) -> list[str]:
        async with ground.engine(*ALL, policy=policy_of({"effect": "deny"})) as app:
            await app.start(paying, "a-1", id="one")
            await failure_of(app, "one")
        async with ground.engine(*ALL) as app:
            await app.run("one").retry(by="ann")
            result: list[str] = await app.run("one").result(30)
            return result

    assert ground.play(main) == ["paid 1"]
    assert DONE == ["a-1 1"]


def test_arguments_that_do_not_fit_are_refused_before_policy_is_asked(virtual: Ground) -> None:
    """An action is judged by what it would do: where that cannot be read nothing is done, and the audit, which leaves
    the house, does not tell the value."""

    @workflow(name="gov.confused")
    async def confused() -> str:
        return await pay("a-1", "forty-two")  # type: ignore[arg-type]  # the mistake

    async def main(ground: Ground) -> None:
        async with ground.engine(confused) as app:
            await app.start(confused, id="one")
            failure = await failure_of(app, "one")
            assert failure.type == "holdfast.errors:Undecodable"
            assert "argument 'amount' of gov.pay" in failure.message
            (decision,) = await notes(app, r.Decided, "one")
            assert (decision.effect, decision.stage, decision.action) == ("deny", "schema", "gov.pay")
            assert "forty-two" not in decision.reason

    virtual.play(main)
    assert DONE == []


def test_an_action_that_is_gone_fails_its_call_and_closes_its_question(virtual: Ground) -> None:
    """After a deployment without it: the author learns what to do, and nobody is left asked."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, policy=asking()) as app:
            await app.start(paying, "a-1", id="one")
            await asked(app, "one")
            await rested(app, "one")
        async with ground.engine(*ALL, policy=asking(), steps={"gov.pay": paid}) as app:
            await app.run("one").signal("wake up")
            failure = await failure_of(app, "one")
            assert "'gov.pay' is no action any more: deploy" in failure.message
            assert [each async for each in app.tasks.list()] == []
            last = (await notes(app, r.Decided, "one"))[-1]
            assert (last.effect, last.stage, last.action) == ("deny", "schema", "gov.pay")

    virtual.play(main)


def test_a_changed_policy_judges_the_next_call(virtual: Ground) -> None:
    """What was allowed before stays done; the decision of each call names the policy that made it."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, policy=FREE) as app:
            await (await app.start(paying, "a-1", id="one")).result(30)
            app.policy.current = other = policy_of({"effect": "deny"})
            assert "denied" in await (await app.start(careful, "a-1", id="two")).result(30)
            assert [each.policy for each in await notes(app, r.Decided)] == [FREE.hash, other.hash]

    virtual.play(main)


def test_a_rule_that_takes_its_time_stops_no_other_run(ground: Ground) -> None:
    """It is judged beside; the run that waits for it is denied in the end, and others go on meanwhile."""

    @action(connector="crm", operation="slow", name="apart.slow")
    async def slow(numbers: list[int]) -> str:
        return "done"

    @workflow(name="apart.slowly")
    async def slowly(count: int) -> str:
        try:
            return await slow(list(range(count)))
        except ActionDenied as error:
            return str(error)

    async def main(ground: Ground) -> None:
        loops = "action.fields.numbers.map(a, action.fields.numbers).size() > 0"
        policy = policy_of({"when": loops})
        async with ground.engine(slowly, policy=policy) as app:
            assert await (await app.start(slowly, 30, id="quick")).result(60) == "done"
            run = await app.start(slowly, 9_000, id="slow")
            gaps, last, ended = [], time.thread_time(), asyncio.ensure_future(run.result(60))
            while not ended.done():
                await asyncio.sleep(0)
                gaps.append(time.thread_time() - last)
                last = time.thread_time()
            assert "the policy took too long: rule 'r0' was cut off" in await ended
            assert max(gaps) < 0.05
            decisions = [(each.effect, each.rule) for each in await notes(app, r.Decided)]
            assert decisions == [("allow", "r0"), ("deny", "r0")]

    ground.play(main)
