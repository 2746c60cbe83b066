"""One idempotency key, one act: whoever asks again gets what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import ActionDenied, RetryPolicy, RunFailed, action, step, workflow
from holdfast.audit import records as r
from holdfast.errors import StoreUnavailable, Unencodable
from holdfast.journal.blobs import THRESHOLD_BYTES
from holdfast.journal.cbor import canonical
from holdfast.store import protocol as p
from tests.unit.gate.test_judgement import RECEIPT
from tests.unit.worker.ground import FREE, Ground, asked, asking, meets, notes, policy_of, receipts, until

DONE: list[str] = []
FAILS: list[Exception] = []
"""What the next acts fail with."""


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()
    FAILS.clear()


@action(connector="crm", operation="create", idempotency_key="order:{order}", name="key.create")
async def create(order: Any, size: int = 0) -> str:
    DONE.append(order)
    if FAILS:
        raise FAILS.pop(0)
    return f"{order} #{len(DONE)}" + "." * size


@workflow(name="key.creating")
async def creating(order: str, size: int = 0) -> str:
    return await create(order, size)


@workflow(name="key.twice")
async def twice(order: str) -> list[str]:
    return [await create(order), await create(order)]


def test_a_second_run_gets_the_recorded_result(ground: Ground) -> None:
    """Nothing is done twice; the receipt stays the first run's, and the audit says that the second used it."""

    async def main(ground: Ground) -> list[str]:
        async with ground.engine(creating) as app:
            results = [await (await app.start(creating, "o-1", id=run)).result(30) for run in ("one", "two")]
            (row,) = await receipts(app)
            assert row.run == "one"
            states = [(each.run, each.state, each.receipt) for each in await notes(app, r.Receipted)]
            assert states == [("one", "succeeded", row.id), ("two", "reused", row.id)]
            return results

    assert ground.play(main) == ["o-1 #1", "o-1 #1"]
    assert DONE == ["o-1"]


@action(connector="mail", operation="send", idempotency_key="order:{order}", name="key.mail")
async def mail(order: str) -> str:
    DONE.append(f"mail about {order}")
    return "sent"


@workflow(name="key.mailing")
async def mailing(order: str) -> str:
    try:
        return await mail(order)
    except ActionDenied as error:
        return str(error)


def test_a_key_that_stands_for_another_act_is_refused(ground: Ground) -> None:
    """Its result is not this act's, and to leave this one out in silence would be worse than to fail."""

    async def main(ground: Ground) -> None:
        async with ground.engine(creating, mailing) as app:
            assert await (await app.start(creating, "o-1", id="one")).result(30) == "o-1 #1"
            run = await app.start(mailing, "o-1", id="two")
            (row,) = await receipts(app)
            said = await run.result(30)
            assert said == (
                "action key.mail failed: ActionDenied: its idempotency key 'order:o-1' belongs to key.create "
                f"(crm create), receipt {row.id}: let the key say which act it is for"
            )
            decisions = [(each.effect, each.stage) for each in await notes(app, r.Decided, "two")]
            assert decisions == [("allow", "policy"), ("deny", "key")]
            assert (await run.info()).writes == 0
            assert (await run.verify()).good

    ground.play(main)
    assert DONE == ["o-1"]


def test_nobody_approves_what_was_done_with_the_same_request(ground: Ground) -> None:
    """G-25a: the second run gets the recorded result; the audit says why nobody was asked."""

    async def main(ground: Ground) -> None:
        async with ground.engine(creating) as app:
            await (await app.start(creating, "o-1", id="one")).result(30)
        async with ground.engine(creating, policy=asking()) as app:
            run = await app.start(creating, "o-1", id="two")
            assert await run.result(30) == "o-1 #1"
            assert [each async for each in app.tasks.list(status=None)] == []
            (row,) = await receipts(app)
            (decided,) = await notes(app, r.Decided, "two")
            assert (decided.effect, decided.stage) == ("allow", "key")
            assert f"receipt {row.id} has done it with the same request" in decided.reason
            assert (await run.info()).writes == 0
            assert (await run.verify()).good
            assert (await app.audit.verify()).good

    ground.play(main)
    assert DONE == ["o-1"]


def test_who_approves_sees_the_key_and_what_was_done_under_it(ground: Ground) -> None:
    """G-25a: for another request people are asked, with both requests in view."""

    async def main(ground: Ground) -> None:
        async with ground.engine(creating) as app:
            await (await app.start(creating, "o-1", id="one")).result(30)
        async with ground.engine(creating, policy=asking()) as app:
            run = await app.start(creating, "o-1", 3, id="two", actor="ann")
            await asked(app, "two")
            (task,) = [each async for each in app.tasks.list()]
            (row,) = await receipts(app)
            assert task.details["key"] == row.key == "order:o-1"
            assert task.details["fields"] == {"order": "o-1", "size": 3}
            before = {"receipt": row.id, "run": "one", "state": "succeeded", "fields": {"order": "o-1", "size": 0}}
            assert task.details["earlier"] == before
            await app.tasks.approve(task.id, by="bob")
            assert await run.result(30) == "o-1 #1"

    ground.play(main)
    assert DONE == ["o-1"]


def test_nobody_is_asked_about_a_key_that_stands_for_another_act(ground: Ground) -> None:
    """The key comes before the approval: an answer could change nothing."""

    async def main(ground: Ground) -> None:
        async with ground.engine(creating) as app:
            await (await app.start(creating, "o-1", id="one")).result(30)
        async with ground.engine(mailing, policy=asking()) as app:
            run = await app.start(mailing, "o-1", id="two")
            assert "belongs to key.create" in await run.result(30)
            assert [each async for each in app.tasks.list(status=None)] == []

    ground.play(main)


def test_a_denial_refuses_a_recorded_result_too(ground: Ground) -> None:
    """What may not be done now may not be relied on either."""

    async def main(ground: Ground) -> None:
        async with ground.engine(creating) as app:
            await (await app.start(creating, "o-1", id="one")).result(30)
        async with ground.engine(creating, policy=policy_of({"effect": "deny"})) as app:
            with pytest.raises(RunFailed, match="ActionDenied"):
                await (await app.start(creating, "o-1", id="two")).result(30)

    ground.play(main)


def test_the_same_key_twice_in_one_run_is_one_act(ground: Ground) -> None:
    """One after the other, as at once."""

    async def main(ground: Ground) -> list[str]:
        async with ground.engine(twice) as app:
            return await (await app.start(twice, "o-1")).result(30)

    assert ground.play(main) == ["o-1 #1", "o-1 #1"]
    assert DONE == ["o-1"]


def test_calls_of_one_key_at_once_are_one_act(ground: Ground) -> None:
    """The second waits for the first, though both were asked for in one turn."""

    @workflow(name="key.at_once")
    async def at_once(order: str) -> list[str]:
        return list(await asyncio.gather(create(order), create(order), create(order)))

    async def main(ground: Ground) -> list[str]:
        async with ground.engine(at_once) as app:
            return await (await app.start(at_once, "o-1")).result(30)

    assert ground.play(main) == ["o-1 #1"] * 3
    assert DONE == ["o-1"]


def test_tenants_do_not_share_keys(virtual: Ground) -> None:
    """A key is unique within its tenant alone."""

    async def main(ground: Ground) -> list[str]:
        async with ground.engine(creating) as app:
            runs = [await app.start(creating, "o-1", tenant=tenant) for tenant in ("acme", "umbrella")]
            return [await run.result() for run in runs]

    assert virtual.play(main) == ["o-1 #1", "o-1 #2"]


def test_what_failed_before_is_tried_again_under_its_key(ground: Ground) -> None:
    """A failed receipt is no result: the next run does it."""
    FAILS.append(ValueError("refused"))

    async def main(ground: Ground) -> str:
        async with ground.engine(creating) as app:
            with pytest.raises(RunFailed, match="refused"):
                await (await app.start(creating, "o-1", id="one")).result(30)
            result = await (await app.start(creating, "o-1", id="two")).result(30)
            (row,) = await receipts(app)
            assert (row.state, row.run) == ("succeeded", "two")
            assert [each.state for each in await notes(app, r.Receipted)] == ["failed", "succeeded"]
            return result

    assert ground.play(main) == "o-1 #2"


def test_attempts_are_receipted_each(virtual: Ground) -> None:
    """An action is retried as a step is; every attempt is judged and recorded, and the last one's receipt stays."""
    FAILS.extend([ValueError("busy"), ValueError("busy")])

    @action(
        connector="crm",
        operation="create",
        name="key.patient",
        retry=RetryPolicy(max_attempts=3, initial=60),
    )
    async def patient() -> str:
        return await create.function("o-1")  # type: ignore[no-any-return]

    @workflow(name="key.patiently")
    async def patiently() -> str:
        return await patient()

    async def main(ground: Ground) -> None:
        async with ground.engine(patiently) as app:
            await (await app.start(patiently, id="one")).result()
            (row,) = await receipts(app)
            assert (row.attempt, row.state) == (3, "succeeded")
            told_ = await notes(app, r.Receipted)
            assert [(each.attempt, each.state) for each in told_] == [(1, "failed"), (2, "failed"), (3, "succeeded")]
            assert len(await notes(app, r.Decided)) == 3

    virtual.play(main)
    assert len(DONE) == 3


def test_an_attempt_is_judged_by_the_policy_of_its_own_time(virtual: Ground) -> None:
    """What was allowed yesterday is not for ever: a retry under a policy that denies is not done."""
    FAILS.append(ValueError("busy"))

    @action(connector="crm", operation="create", name="key.slow_retry", retry=RetryPolicy(max_attempts=3, initial=60))
    async def slow_retry() -> str:
        return await create.function("o-1")  # type: ignore[no-any-return]

    @workflow(name="key.slowly")
    async def slowly() -> str:
        try:
            return await slow_retry()
        except ActionDenied:
            return "denied"

    async def main(ground: Ground) -> str:
        async with ground.engine(slowly) as app:
            run = await app.start(slowly, id="one")
            await until(app, lambda: len(DONE) == 1)
            app.policy.current = policy_of({"effect": "deny"})
            return await run.result()

    assert virtual.play(main) == "denied"
    assert DONE == ["o-1"]


@pytest.mark.parametrize("size", [100, THRESHOLD_BYTES, THRESHOLD_BYTES * 3])
def test_results_of_any_size_are_reused(ground: Ground, size: int) -> None:
    """What does not fit into a receipt is kept beside it, and shown as if it did."""

    async def main(ground: Ground) -> list[str]:
        async with ground.engine(creating) as app:
            results = [await (await app.start(creating, "o-1", size, id=run)).result(30) for run in ("one", "two")]
            (row,) = await receipts(app)
            assert (row.result is None) == (size >= THRESHOLD_BYTES)
            assert (await app.receipts.get(row.id)).result == results[0]
            return results

    first, second = ground.play(main)
    assert first == second
    assert len(first) == size + len("o-1 #1")
    assert DONE == ["o-1"]


def test_a_start_that_came_through_without_its_answer_keeps_no_key(
    virtual: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker has given it up, so only this worker knows that the act behind the open receipt never began."""
    unanswered = ["one"]

    async def main(ground: Ground) -> list[str]:
        commit = ground.store.commit

        async def committed(changes: Sequence[p.Change]) -> list[p.Answer]:
            answers = await commit(changes)
            if any(isinstance(change, p.Start) and change.key.run in unanswered for change in changes):
                raise StoreUnavailable("the answer was lost")
            return answers

        monkeypatch.setattr(ground.store, "commit", committed)
        async with ground.engine(creating) as app:
            with pytest.raises(StoreUnavailable):
                await app.start(creating, "o-1", id="one")
            await app.run("one").pause("it must not take its key up again", by="ann")
            unanswered.clear()
            second = await app.start(creating, "o-1", id="two")
            found = [str(await second.result(600))]
            await app.run("one").resume(by="ann")
            return [*found, str(await app.run("one").result(600))]

    assert virtual.play(main) == ["o-1 #1", "o-1 #1"]


def test_two_workers_that_meet_at_a_key_do_it_once(ground: Ground) -> None:
    """The second waits until the first is done, and gets its result."""

    async def main(ground: Ground) -> list[str]:
        begun, door = asyncio.Event(), asyncio.Event()

        @action(connector="crm", operation="create", idempotency_key="{order}", name="key.slow")
        async def slow(order: str) -> str:
            DONE.append(order)
            begun.set()
            await door.wait()
            return f"{order} #{len(DONE)}"

        @workflow(name="key.slow_flow")
        async def slow_flow(order: str) -> str:
            return await slow(order)

        async with ground.engine(slow_flow) as first, ground.engine(slow_flow) as second:
            one = await first.start(slow_flow, "o-1", id="one")
            await begun.wait()
            two = await second.start(slow_flow, "o-1", id="two")
            await until(second, lambda: meets(second))
            door.set()
            return [await one.result(30), await two.result(30)]

    assert ground.play(main) == ["o-1 #1", "o-1 #1"]
    assert DONE == ["o-1"]


def test_who_waits_at_a_key_does_it_where_the_first_has_failed(ground: Ground) -> None:
    """The key is free again, so the second's own act is done."""

    async def main(ground: Ground) -> str:
        begun, door = asyncio.Event(), asyncio.Event()

        @action(connector="crm", operation="create", idempotency_key="{order}", name="key.slow")
        async def slow(order: str) -> str:
            DONE.append(order)
            begun.set()
            await door.wait()
            if len(DONE) == 1:
                raise ValueError("refused")
            return f"{order} #{len(DONE)}"

        @workflow(name="key.slow_flow")
        async def slow_flow(order: str) -> str:
            return await slow(order)

        async with ground.engine(slow_flow) as first, ground.engine(slow_flow) as second:
            one = await first.start(slow_flow, "o-1", id="one")
            await begun.wait()
            two = await second.start(slow_flow, "o-1", id="two")
            await until(second, lambda: meets(second))
            door.set()
            with pytest.raises(RunFailed, match="refused"):
                await one.result(30)
            return await two.result(30)

    assert ground.play(main) == "o-1 #2"


def test_who_gives_up_waiting_at_a_key_does_nothing(virtual: Ground) -> None:
    """A call that its workflow no longer waits for is not done later, when the key becomes free."""

    async def main(ground: Ground) -> str:
        begun, door = asyncio.Event(), asyncio.Event()

        @action(connector="crm", operation="create", idempotency_key="{order}", name="key.slow")
        async def slow(order: str) -> str:
            DONE.append(order)
            begun.set()
            await door.wait()
            raise ValueError("refused")

        @workflow(name="key.impatient")
        async def impatient(order: str) -> str:
            try:
                async with asyncio.timeout(10):
                    return await slow(order)
            except TimeoutError:
                await asyncio.sleep(3600)
                return "gave up"

        @workflow(name="key.slow_flow")
        async def slow_flow(order: str) -> str:
            return await slow(order)

        async with ground.engine(slow_flow, impatient) as app:
            one = await app.start(slow_flow, "o-1", id="one")
            await begun.wait()
            two = await app.start(impatient, "o-1", id="two")
            await asyncio.sleep(60)
            door.set()
            with pytest.raises(RunFailed, match="refused"):
                await one.result()
            return await two.result()

    assert virtual.play(main) == "gave up"
    assert DONE == ["o-1"]


def test_a_result_that_cannot_be_kept_is_not_fetched_a_second_time(ground: Ground) -> None:
    """The act was done: repeating it for the sake of its result would do it twice. So the call fails, again and
    again."""

    @action(connector="crm", operation="create", idempotency_key="{order}", name="key.odd", retries=3)
    async def odd(order: str) -> object:
        DONE.append(order)
        return object()

    @workflow(name="key.odd_flow")
    async def odd_flow(order: str) -> object:
        return await odd(order)

    async def main(ground: Ground) -> None:
        async with ground.engine(odd_flow, policy=FREE) as app:
            run = await app.start(odd_flow, "o-1", id="one")
            with pytest.raises(RunFailed, match="cannot be stored as data"):
                await run.result(30)
            (row,) = await receipts(app)
            assert row.state == "succeeded"
            await run.retry(by="ann")
            with pytest.raises(RunFailed, match="cannot be stored as data"):
                await run.result(30)
            with pytest.raises(RunFailed, match="cannot be stored as data"):
                await (await app.start(odd_flow, "o-1", id="two")).result(30)

    ground.play(main)
    assert DONE == ["o-1"]


def test_who_waits_at_a_key_is_judged_by_the_policy_of_the_moment_in_which_it_would_act(ground: Ground) -> None:
    """It was allowed when it began to wait. Meanwhile the policy changed, and the first act failed."""

    async def main(ground: Ground) -> None:
        begun, released = asyncio.Event(), asyncio.Event()

        @action(connector="crm", operation="create", idempotency_key="one", name="key.waited_for")
        async def waited_for() -> str:
            DONE.append("begun")
            begun.set()
            await released.wait()
            raise ValueError("no")

        @workflow(name="key.waiting")
        async def waiting() -> str:
            try:
                return await waited_for()
            except Exception as error:
                return str(error)

        async with ground.engine(waiting) as app:
            first = await app.start(waiting, id="one")
            await begun.wait()
            second = await app.start(waiting, id="two")
            await until(app, lambda: meets(app))
            app.policy.current = policy_of({"effect": "deny"})
            released.set()
            assert await first.result(30) == "action key.waited_for failed: ValueError: no"
            said = await second.result(30)
            assert said.endswith("ActionDenied: key.waited_for on crm: rule 'r0' denies it")
            decisions = [(each.effect, each.policy) for each in await notes(app, r.Decided, "two")]
            assert decisions == [("allow", FREE.hash), ("deny", app.policy.current.hash)]
            assert (await second.info()).writes == 0
            assert (await second.verify()).good

    ground.play(main)
    assert DONE == ["begun"]


@workflow(name="key.by_number")
async def by_number(order: Any) -> str:
    return await create(order)


def test_a_number_and_the_text_of_it_are_two_orders(ground: Ground) -> None:
    """They were one act once, and the second order got the result of the first."""

    async def main(ground: Ground) -> list[str]:
        async with ground.engine(by_number) as app:
            return [await (await app.start(by_number, order)).result(30) for order in (1, "1", 1, "1")]

    assert ground.play(main) == ["1 #1", "1 #2", "1 #1", "1 #2"]


@pytest.mark.parametrize(("recorded", "gives"), [("1", "as before"), (1, "1 #1")], ids=["the text", "the number"])
def test_what_an_older_version_did_is_not_done_again(ground: Ground, recorded: Any, gives: str) -> None:
    """It kept the receipt under a key that the number would have, too: what it was made of, the receipt tells."""

    async def main(ground: Ground) -> str:
        before = replace(
            RECEIPT,
            tenant="default",
            key="order:1",
            connector="crm",
            operation="create",
            request=canonical({"order": recorded, "size": 0}),
        )
        done = replace(before, state="succeeded", result=canonical("as before"), closed_at=1)
        await ground.store.commit([p.OpenReceipt(before), p.CloseReceipt(done)])
        async with ground.engine(by_number) as app:
            return await (await app.start(by_number, "1")).result(30)

    assert ground.play(main) == gives
    assert len(DONE) == (gives == "1 #1")


DEEP: Any = 1
for _ in range(450):
    DEEP = [DEEP]


def test_what_could_not_be_read_back_is_refused_where_it_is_given(ground: Ground) -> None:
    """As an input, a signal, a step's result, an action's argument: no run is parked for it later."""

    @step(name="key.digging")
    async def digging() -> Any:
        return DEEP

    @workflow(name="key.deep")
    async def deep(how: Any) -> str:
        try:
            await (digging() if how == "step" else create(DEEP if how == "action" else how))
        except Exception as error:
            return str(error)
        return "nothing"

    async def main(ground: Ground) -> None:
        async with ground.engine(deep) as app:
            with pytest.raises(Unencodable, match="nested more than 400 levels deep"):
                await app.start(deep, DEEP, id="one")
            run = await app.start(deep, "step", id="two")
            assert "nested more than 400 levels deep" in await run.result(30)
            with pytest.raises(Unencodable, match="nested more than 400 levels deep"):
                await run.signal("word", DEEP)
            said = await (await app.start(deep, "action", id="three")).result(30)
            assert "nested more than 400 levels deep" in said
            for levels in range(390, 400):  # at the edge it is one or the other, and never parked
                value: Any = 1
                for _ in range(levels):
                    value = [value]
                try:
                    run = await app.start(deep, value, id=f"edge-{levels}")
                except Unencodable:
                    continue
                assert await run.result(30)

    ground.play(main)
