"""Caps through a whole engine: how many runs at once and in a minute, and how much each may write."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from holdfast import (
    ActionDenied,
    Policy,
    RunFailed,
    TenantQuota,
    action,
    continue_as_new,
    receive,
    spawn,
    workflow,
)
from holdfast.audit import records as r
from tests.unit.worker.ground import OPTIONS, Ground, asked, kill, notes, policy_of, receipts, rested, until

DONE: list[str] = []


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


@action(connector="crm", operation="write", name="caps.write")
async def write(word: str) -> str:
    DONE.append(word)
    return word


@action(connector="crm", operation="read", writes=False, name="caps.read")
async def read(word: str) -> str:
    DONE.append(word)
    return word


@action(connector="crm", operation="write", idempotency_key="one for all", name="caps.shared")
async def shared() -> str:
    DONE.append("shared")
    return "shared"


async def tried(call: object) -> str:
    try:
        return await call  # type: ignore[misc, no-any-return]
    except ActionDenied:
        return "denied"


def capped(**caps: object) -> Policy:
    return policy_of({}, caps={"default": caps})


def test_a_run_writes_no_more_than_its_cap(ground: Ground) -> None:
    """Reading does not count; what was denied does not count; the decision names the cap."""

    @workflow(name="caps.writing")
    async def writing() -> list[str]:
        return [await tried(call) for call in (write("a"), read("b"), write("c"), write("d"), read("e"), write("f"))]

    async def main(ground: Ground) -> list[str]:
        async with ground.engine(writing, policy=capped(max_writes_per_run=2)) as app:
            run = await app.start(writing, id="one")
            result = await run.result(30)
            assert (await run.info()).writes == 2
            stages = [each.stage for each in await notes(app, r.Decided) if each.effect == "deny"]
            assert stages == ["caps", "caps"]
            return result

    assert ground.play(main) == ["a", "b", "c", "denied", "e", "denied"]


def test_a_cap_on_writes_that_people_set_holds_from_its_commit_on(ground: Ground) -> None:
    """Also for runs under way, and beside the policy's: the stricter one counts. Taken away, it holds no more."""

    @workflow(name="caps.told")
    async def told() -> list[str]:
        said = []
        for word in "abcd":
            await receive("go", str)
            said.append(await tried(write(word)))
        return said

    async def main(ground: Ground) -> list[str]:
        async with ground.engine(told, policy=capped(max_writes_per_run=3)) as app:
            await app.tenants.create("default", limits=TenantQuota(max_writes_per_run=9))
            run = await app.start(told, id="one")
            for limits in (None, TenantQuota(max_writes_per_run=1), TenantQuota(), TenantQuota(max_writes_per_run=9)):
                await run.settled(30)
                if limits is not None:
                    await app.tenants.change("default", limits=limits)
                await run.signal("go", "on")
            assert (await app.tenants.get("default")).max_writes_per_run == 9
            result = await run.result(30)
            (denied,) = [each for each in await notes(app, r.Decided) if each.effect == "deny"]
            assert (denied.stage, "max_writes_per_run is 1" in denied.reason) == ("caps", True)
            return result

    assert ground.play(main) == ["a", "denied", "c", "d"]


def test_the_count_survives_workers_waits_and_generations(virtual: Ground) -> None:
    """It is the run's, not the worker's; a run that continues as new is the same run."""

    @workflow(name="caps.going_on")
    async def going_on(round_: int = 0) -> str:
        said = await tried(write(f"{round_}"))
        await asyncio.sleep(60)
        if said != "denied":
            continue_as_new(round_ + 1)
        return f"denied in round {round_}"

    async def main(ground: Ground) -> str:
        policy = capped(max_writes_per_run=3)
        async with ground.engine(going_on, policy=policy) as app:
            await app.start(going_on, id="one")
            await until(app, lambda: len(DONE) == 2)
            await rested(app, "one")
            kill(app)
        async with ground.engine(going_on, policy=policy) as app:
            result: str = await app.run("one").result()
            return result

    assert virtual.play(main) == "denied in round 3"
    assert DONE == ["0", "1", "2"]


def test_a_recorded_result_is_no_write(virtual: Ground) -> None:
    """What another run did is counted there."""

    @workflow(name="caps.sharing")
    async def sharing() -> list[str]:
        return [await tried(call) for call in (shared(), write("a"), write("b"))]

    async def main(ground: Ground) -> list[list[str]]:
        async with ground.engine(sharing, policy=capped(max_writes_per_run=2)) as app:
            return [await (await app.start(sharing, id=run)).result() for run in ("one", "two")]

    assert virtual.play(main) == [["shared", "a", "denied"], ["shared", "a", "b"]]


def test_a_write_that_failed_is_not_counted_again_when_the_run_is_retried(virtual: Ground) -> None:
    """All attempts of a call are one write, whichever worker makes them, and in whichever generation."""
    failing: list[Exception] = [ValueError("not today")]

    @action(connector="crm", operation="write", name="caps.failing")
    async def once_more(word: str) -> str:
        if failing:
            raise failing.pop()
        return word

    @workflow(name="caps.retried")
    async def retried() -> str:
        return await once_more("a")

    async def main(ground: Ground) -> int:
        policy = capped(max_writes_per_run=1)
        async with ground.engine(retried, policy=policy) as app:
            run = await app.start(retried, id="one")
            with pytest.raises(RunFailed, match="not today"):
                await run.result()
        async with ground.engine(retried, policy=policy) as app:
            await app.run("one").retry(by="ann")
            assert await app.run("one").result() == "a"
            return (await app.run("one").info()).writes

    assert virtual.play(main) == 1


def test_a_write_that_never_began_is_not_counted_again(virtual: Ground) -> None:
    """Its worker stopped between the opening of the receipt and the act; the next one does it."""

    @action(connector="crm", operation="wait", writes=False, name="caps.wait")
    async def wait() -> None:
        await asyncio.sleep(60)

    @workflow(name="caps.waiting")
    async def waiting() -> None:
        await wait()

    @workflow(name="caps.drained")
    async def drained() -> str:
        return await write("a")

    async def main(ground: Ground) -> int:
        policy, flows = capped(max_writes_per_run=1), (waiting, drained)
        async with ground.engine(*flows, policy=policy, options=replace(OPTIONS, step_limit=1)) as app:
            await app.start(waiting, id="first")
            await asyncio.sleep(1)
            await app.start(drained, id="one")
            await asyncio.sleep(1)
            assert [each.state for each in await receipts(app, "one")] == ["pending"]
        async with ground.engine(*flows, policy=policy) as app:
            assert await app.run("one").result() == "a"
            assert [each.state for each in await notes(app, r.Receipted, "one")] == ["failed", "succeeded"]
            return (await app.run("one").info()).writes

    assert virtual.play(main) == 1
    assert DONE == ["a"]


def test_calls_at_once_count_each(virtual: Ground) -> None:
    """All are judged in one turn, and still only so many are let through."""

    @workflow(name="caps.crowd")
    async def crowd() -> list[str]:
        return list(await asyncio.gather(*(tried(write(str(number))) for number in range(5))))

    async def main(ground: Ground) -> list[str]:
        async with ground.engine(crowd, policy=capped(max_writes_per_run=2)) as app:
            return await (await app.start(crowd, id="one")).result()

    assert sorted(virtual.play(main)) == ["0", "1", "denied", "denied", "denied"]


def test_children_write_on_their_parents_account(ground: Ground) -> None:
    """And theirs; on another worker, too, and at the same time. What is detached is a run of its own."""

    @workflow(name="caps.grandchild")
    async def grandchild(word: str) -> str:
        return await tried(write(word))

    @workflow(name="caps.child")
    async def child(word: str) -> list[str]:
        return list(await asyncio.gather(grandchild(f"{word}1"), grandchild(f"{word}2"), tried(write(word))))

    @workflow(name="caps.loner")
    async def loner() -> str:
        return await tried(write("alone"))

    @workflow(name="caps.family")
    async def family() -> list[str]:
        first = await tried(write("first"))
        below = await asyncio.gather(child("a"), child("b"))
        await spawn(loner, id="loner")
        return [first, *(word for each in below for word in each), await tried(write("last"))]

    async def main(ground: Ground) -> None:
        flows, policy = (family, child, grandchild, loner), capped(max_writes_per_run=4)
        async with ground.engine(*flows, policy=policy) as app, ground.engine(*flows, policy=policy):
            run = await app.start(family, id="one")
            words = await run.result(30)
            assert words[0] == "first"
            assert words[-1] == "denied"
            assert words.count("denied") == 4
            assert await app.run("loner").result(30) == "alone"
            assert (await run.verify()).good
            denied = [each for each in await notes(app, r.Decided) if each.effect == "deny"]
            assert {each.stage for each in denied} == {"caps"}
            reason = "run one has written 4 times with its children, and its cap max_writes_per_run is 4"
            assert reason in {each.reason for each in denied}

    ground.play(main)
    assert len(DONE) == 5


def test_each_run_of_a_family_has_its_own_workflows_cap(virtual: Ground) -> None:
    """The child's is narrower; the parent's holds for both."""

    @workflow(name="caps.narrow")
    async def narrow() -> list[str]:
        return [await tried(write(word)) for word in ("a", "b")]

    @workflow(name="caps.wide")
    async def wide() -> list[str]:
        return [*(await narrow()), *(await narrow()), await tried(write("c")), await tried(write("d"))]

    async def main(ground: Ground) -> list[str]:
        caps = {"max_writes_per_run": 3, "workflows": {"caps.narrow": {"max_writes_per_run": 1}}}
        async with ground.engine(wide, narrow, policy=capped(**caps)) as app:
            return await (await app.start(wide, id="one")).result(30)

    assert virtual.play(main) == ["a", "denied", "a", "denied", "c", "denied"]


def test_runs_beyond_the_concurrency_wait_in_order_and_say_so(ground: Ground) -> None:
    """One place: the first in line gets it when the one before has ended."""

    async def main(ground: Ground) -> None:
        doors = {word: asyncio.Event() for word in "abc"}

        @action(connector="crm", operation="write", name="caps.slow")
        async def slow(word: str) -> str:
            DONE.append(word)
            await doors[word].wait()
            return word

        @workflow(name="caps.slowly")
        async def slowly(word: str) -> str:
            return await slow(word)

        async with ground.engine(slowly, policy=capped(max_concurrency=1)) as app:
            runs = {word: await app.start(slowly, word, id=word) for word in "abc"}
            await until(app, lambda: DONE == ["a"])
            assert await runs["b"].status() == await runs["c"].status() == "queued"
            assert "a place within its tenant's caps" in await runs["b"].explain()
            for word, following in (("a", ["a", "b"]), ("b", ["a", "b", "c"])):
                doors[word].set()
                await runs[word].result(30)
                await until(app, lambda: following == DONE)  # noqa: B023  # it is awaited at once
            doors["c"].set()
            await runs["c"].result(30)

    ground.play(main)


def test_a_run_that_waits_for_people_keeps_its_place(virtual: Ground) -> None:
    """It is under way: else any number could wait at once."""

    @workflow(name="caps.asking")
    async def asking_(word: str) -> str:
        return await write(word)

    policy = policy_of({"effect": "needs_approval", "tier": "low"}, caps={"default": {"max_concurrency": 1}})

    async def main(ground: Ground) -> None:
        async with ground.engine(asking_, policy=policy) as app:
            first = await app.start(asking_, "a", id="one")
            second = await app.start(asking_, "b", id="two")
            task = await asked(app, "one")
            await asyncio.sleep(600)
            assert await second.status() == "queued"
            await app.tasks.approve(task.id, by="bob")
            await first.result()
            await app.tasks.approve((await asked(app, "two")).id, by="bob")
            assert await second.result() == "b"

    virtual.play(main)


def test_no_minute_has_more_beginnings_than_the_cap(virtual: Ground) -> None:
    """The rest begin as the minute moves on, in order."""
    begun: list[tuple[str, float]] = []

    @workflow(name="caps.brief")
    async def brief(word: str) -> str:
        return await write(word)

    async def main(ground: Ground) -> None:
        loop = asyncio.get_running_loop()
        async with ground.engine(brief, policy=capped(max_runs_per_min=2)) as app:
            runs = [await app.start(brief, f"{number}", id=f"{number}") for number in range(5)]
            for run in runs:
                word = await run.result()
                begun.append((word, loop.time()))

    virtual.play(main)
    assert DONE == ["0", "1", "2", "3", "4"]
    minutes = [int(round(time, 6) // 60) for _, time in begun]
    assert minutes == [0, 0, 1, 1, 2]


def test_a_tenants_cap_is_its_own(virtual: Ground) -> None:
    """Many runs of one tenant do not hold another's up."""

    @workflow(name="caps.waiting")
    async def waiting(word: str) -> str:
        await asyncio.sleep(3600)
        return word

    async def main(ground: Ground) -> None:
        async with ground.engine(waiting, policy=capped(max_concurrency=1)) as app:
            runs = [await app.start(waiting, "x", tenant=tenant) for tenant in ("acme", "acme", "umbrella")]
            await asyncio.sleep(10)
            assert [await run.status() for run in runs] == ["waiting", "queued", "waiting"]

    virtual.play(main)
