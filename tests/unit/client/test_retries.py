"""Retried runs through the doors that users have: what is done again, what is kept, and who is asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import (
    Holdfast,
    RunCancelled,
    RunFailed,
    RunHandle,
    TerminalError,
    WorkerOptions,
    action,
    receive,
    step,
    step_info,
    uuid,
    workflow,
)
from holdfast.audit.check.bundle import verify_bundle
from holdfast.errors import InvalidRequest, RetryRefused
from holdfast.store import protocol as p
from tests.unit.worker.ground import Ground

DONE: list[str] = []
FAILS: set[str] = set()


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()
    FAILS.clear()


@pytest.fixture
def virtual() -> Ground:
    return Ground(None)


def _do(what: str) -> str:
    if what in FAILS:
        raise TerminalError(f"{what} is broken")
    DONE.append(what)
    return what


@step(name="retries.refund")
async def refund(payment: str) -> None:
    DONE.append("refund")


@step(name="retries.charge", undo=refund)
async def charge(order: str) -> str:
    _do("charge")
    return step_info().key


@step(name="retries.check")
async def check(order: str) -> str:
    return _do("check")


@step(name="retries.look", repeatable=True)
async def look(order: str) -> str:
    return _do("look")


@action(connector="desk", operation="read", writes=False, name="retries.read")
async def read(order: str) -> str:
    return _do("read")


@action(connector="desk", operation="write", name="retries.write", secret=["token"])
async def write(order: str, token: str) -> str:
    return _do("write")


@step(name="retries.ship")
async def ship(order: str) -> str:
    return _do("ship")


@workflow(name="retries.ordering")
async def ordering(order: str) -> str:
    """As an author writes it: something to undo, something between, something that fails."""
    await charge(order)
    await check(order)
    await asyncio.sleep(3600)
    await look(order)
    await read(order)
    await write(order, "a secret token")
    return await ship(order)


@workflow(name="retries.drawing")
async def drawing(order: str) -> str:
    await charge(order)
    await write(order, "a secret token")
    await check(f"{uuid()} by a secret token")
    return await ship(order)


async def _ended(run: RunHandle[Any]) -> None:
    with pytest.raises((RunFailed, RunCancelled)):
        await run.result(timeout=10_000)


def test_what_was_not_undone_is_kept_and_the_rest_is_done_again(virtual: Ground) -> None:
    """The plan says it first. Steps and actions that only read are done again, a sleep is not slept again."""

    async def main(ground: Ground) -> None:
        async with ground.engine(ordering) as app:
            FAILS.add("ship")
            run = await app.start(ordering, "o-1", id="one")
            await _ended(run)
            assert DONE == ["charge", "check", "look", "read", "write", "refund"]
            plan = await run.plan_retry()
            assert plan.again == ("retries.charge", "retries.ship")
            assert plan.kept == ("retries.check", "retries.look", "retries.read", "retries.write")
            assert plan.slept == ()
            DONE.clear()
            FAILS.clear()
            began = ground.clock.now()
            await run.retry(by="ann")
            assert await run.result() == "ship"
            assert DONE == ["charge", "look", "read", "ship"]
            assert ground.clock.now() - began < 60_000_000
            assert (await run.verify()).good

    virtual.play(main)


def test_an_undone_call_has_another_key_in_every_generation(virtual: Ground) -> None:
    """Also where a generation failed before it came to the call."""

    @workflow(name="retries.late")
    async def late(order: str) -> str:
        await charge("first")
        await check(order)
        return await charge("second") + await ship(order)

    async def main(ground: Ground) -> None:
        async with ground.engine(late) as app:
            FAILS.add("ship")
            run = await app.start(late, "o-1", id="one")
            await _ended(run)
            async for entry in run.journal():
                assert "#2:1" not in entry.text
        FAILS.add("charge")
        async with ground.engine(late) as app:
            await app.run("one").retry()
            await _ended(app.run("one"))
        FAILS.clear()
        async with ground.engine(late) as app:
            await app.run("one").retry()
            assert (await app.run("one").result()).endswith(".2:1ship")
        assert DONE.count("check") == 1

    virtual.play(main)


async def _parked(ground: Ground, app: Holdfast) -> tuple[RunHandle[Any], str]:
    """A run that was retried and asks for another check than before, and why it is parked."""
    FAILS.add("ship")
    run = await app.start(drawing, "o-1", id="one")
    await _ended(run)
    FAILS.clear()
    await run.retry()

    await run.settled()
    found = (await run.info()).pause_reason
    assert found is not None
    DONE.clear()
    return run, found


def test_a_call_with_another_input_parks_the_run_and_shows_no_secret(virtual: Ground) -> None:
    """Both inputs are shown, and what an action calls secret is masked in both."""

    async def main(ground: Ground) -> None:
        async with ground.engine(drawing) as app:
            run, reason = await _parked(ground, app)
            kept, asked = reason.splitlines()[1:3]
            assert reason.startswith("retry_diverged: retries.check was done before the retry")
            assert kept.startswith("  - kept:  retries.check('")
            assert asked.startswith("  + asked: retries.check('")
            assert kept.partition("(")[2] != asked.partition("(")[2]
            assert "secret token" not in reason
            assert "secret token" not in await run.explain()
            with pytest.raises(InvalidRequest, match="is parked, retry_diverged"):
                await run.retry()
            with pytest.raises(InvalidRequest, match=r"no result of 'retries\.other'.*retries\.check \(1\)"):
                await run.retry(keep=["retries.other"])

    virtual.play(main)


@pytest.mark.parametrize(
    ("answer", "done"),
    [
        ({"again": ["retries.check"]}, ["check", "ship"]),
        ({"keep": ["retries.check"]}, ["ship"]),
        ({"new": True}, ["check", "ship"]),
    ],
    ids=["again", "keep", "new"],
)
def test_a_person_says_what_becomes_of_a_kept_result(virtual: Ground, answer: Any, done: list[str]) -> None:
    """The run goes on with the answer, and a replay of it sees an ordinary journal."""

    async def main(ground: Ground) -> None:
        async with ground.engine(drawing) as app:
            run, _ = await _parked(ground, app)
            plan = await run.plan_retry(**answer)
            assert plan.kept == ("retries.write", "retries.check")
            await run.retry(by="ann", reason="seen", **answer)
            assert await run.result() == "ship"
            assert [each for each in DONE if each != "write"] == done
            assert (await run.verify()).good
            assert await run.unreceived() == []

    virtual.play(main)


BOTH: list[bool] = []


@workflow(name="retries.mended")
async def mended(order: str) -> str:
    await charge(order)
    if BOTH:  # the code that was deployed before the retry
        await check(order)
    await write(order, "a secret token")
    return await ship(order)


def test_evidence_proves_an_act_whose_result_was_kept_elsewhere(virtual: Ground) -> None:
    """Mended code calls it at another position: its receipt is that of the call that did it."""

    async def main(ground: Ground) -> None:
        BOTH.clear()
        async with ground.engine(mended, options=WorkerOptions(warm_limit=0, retention_days=None)) as app:
            FAILS.add("ship")
            run = await app.start(mended, "o-1", id="one")
            await _ended(run)
            FAILS.clear()
            BOTH.append(True)
            await run.retry(by="ann")
            assert await run.result() == "ship"
            assert DONE == ["charge", "write", "refund", "charge", "check", "ship"]
            while (data := await app.store.file(run.key, 1, p.EVIDENCE)) is None:
                await app.changed(0.05)
            (key,) = await app.store.signing_keys()
            claims = verify_bundle(data, [key.public]).claims
            assert [claim.text for claim in claims if claim.state == "broken"] == []

    virtual.play(main)


def test_an_answer_may_come_with_the_retry_and_is_gone_with_its_generation(virtual: Ground) -> None:
    """What was done again in one generation is kept in the next, unless it is said once more."""

    async def main(ground: Ground) -> None:
        async with ground.engine(ordering) as app:
            FAILS.add("ship")
            run = await app.start(ordering, "o-1", id="one")
            await _ended(run)
            for again, count in ((["retries.check"], 2), ([], 2)):
                await run.retry(again=again)
                await _ended(run)
                assert DONE.count("check") == count

    virtual.play(main)


@step(name="retries.tidy")
async def tidy() -> None:
    _do("tidy")


@workflow(name="retries.handled")
async def handled(order: str) -> str:
    await check(order)
    try:
        return await ship(order)
    except Exception:
        await tidy()
        raise


def test_what_a_handler_did_after_the_failure_is_for_a_person_to_judge(virtual: Ground) -> None:
    """It may have taken back by hand what the run relies on."""

    async def main(ground: Ground) -> None:
        async with ground.engine(handled) as app:
            FAILS.add("ship")
            run = await app.start(handled, "o-1", id="one")
            await _ended(run)
            FAILS.clear()
            with pytest.raises(RetryRefused, match=r"'retries\.tidy' .* by hand .* `--keep retries\.tidy`"):
                await run.retry()
            await run.retry(keep=["retries.tidy"])
            assert await run.result() == "ship"
            assert DONE == ["check", "tidy", "ship"]

    virtual.play(main)


@workflow(name="retries.hurried")
async def hurried(order: str) -> str:
    async with asyncio.timeout(60):
        await charge(order)
        return str(await receive("go"))


def test_a_time_out_begins_anew(virtual: Ground) -> None:
    """Its time is over, and a retry in which it counted as fired could only fail again."""

    async def main(ground: Ground) -> None:
        async with ground.engine(hurried) as app:
            run = await app.start(hurried, "o-1", id="one")
            await _ended(run)
            assert (await run.plan_retry()).slept == (60.0,)
            await run.retry()
            await asyncio.sleep(30)
            await run.signal("go", "gone")
            assert await run.result() == "gone"
            assert DONE == ["charge", "refund", "charge"]

    virtual.play(main)


@workflow(name="retries.kid")
async def kid(order: str) -> str:
    await check(order)
    return await ship(order)


@workflow(name="retries.parent")
async def parent(order: str) -> str:
    await charge(order)
    return await kid(order)


@workflow(name="retries.grandparent")
async def grandparent(order: str) -> str:
    return await parent(order)


def test_a_tree_is_retried_in_one_commit(virtual: Ground) -> None:
    """Without it the retry is refused with the name of the child that would be found as it is."""

    async def main(ground: Ground) -> None:
        async with ground.engine(grandparent, parent, kid) as app:
            FAILS.add("ship")
            run = await app.start(grandparent, "o-1", id="one")
            await _ended(run)
            FAILS.clear()
            with pytest.raises(RetryRefused, match="calls its child one~0~1 again, which is failed"):
                await run.retry()
            assert (await run.plan_retry(tree=True)).children == ("one~0", "one~0~1")
            await run.retry(tree=True)
            assert await run.result() == "ship"
            assert DONE == ["charge", "check", "refund", "charge", "ship"]

    virtual.play(main)


@workflow(name="retries.slow")
async def slow() -> str:
    await ship("o-1")
    try:
        return str(await receive("go"))
    except asyncio.CancelledError:
        await receive("tidy")
        raise


@workflow(name="retries.above")
async def above() -> str:
    return await slow()


@step(name="retries.refund_if_open", retries=0)
async def refund_if_open(payment: str) -> None:
    _do("refund")


@step(name="retries.charge_firmly", undo=refund_if_open)
async def charge_firmly() -> str:
    return _do("charge")


@step(name="retries.pack", retries=0)
async def pack() -> str:
    return _do("pack")


@workflow(name="retries.waiting")
async def waiting() -> None:
    await asyncio.sleep(60)


@workflow(name="retries.sinking")
async def sinking() -> None:
    await charge_firmly()
    await asyncio.gather(pack(), waiting())


def test_a_run_that_could_not_undo_all_does_again_what_it_failed_of(virtual: Ground) -> None:
    """Its error says more than that of the call, and a child that was stopped has failed after that."""

    async def main(ground: Ground) -> None:
        async with ground.engine(sinking, waiting) as app:
            FAILS.update({"pack", "refund"})
            run = await app.start(sinking, id="one")
            with pytest.raises(RunFailed, match="pack is broken; and what was done could not all be taken back"):
                await run.result(60)
            FAILS.clear()
            assert (await run.plan_retry(tree=True)).again == ("retries.pack", "retries.waiting")
            await run.retry(tree=True)
            await run.result(600)
            assert DONE == ["charge", "pack"]

    virtual.play(main)


def test_a_child_that_is_being_cancelled_refuses_the_retry(virtual: Ground) -> None:
    """What it still does would be done beside its retry."""

    async def main(ground: Ground) -> None:
        async with ground.engine(above, slow) as app:
            FAILS.add("ship")
            run = await app.start(above, id="one")
            await _ended(run)
            FAILS.clear()
            child = app.run("one~0")
            await child.retry()
            await child.settled()
            await child.cancel()
            await child.settled()
            with pytest.raises(RetryRefused, match="its child one~0 is being cancelled"):
                await run.retry(tree=True)
            await child.signal("tidy")
            await _ended(child)
            await run.retry(tree=True)
            await run.settled()
            await app.run("one~0").signal("go", "gone")
            assert await run.result() == "gone"

    virtual.play(main)


def test_a_child_that_was_deleted_is_not_done_from_its_beginning(virtual: Ground) -> None:
    """In a store of an older version it may be gone: the retry is refused by its name."""

    async def main(ground: Ground) -> None:
        async with ground.engine(parent, kid) as app:
            FAILS.add("ship")
            run = await app.start(parent, "o-1", id="one")
            await _ended(run)
            ground.store._tables.forget(p.Key("default", "one~1"))  # type: ignore[attr-defined]
            with pytest.raises(RetryRefused, match="its child one~1 was deleted"):
                await run.retry(tree=True)

    virtual.play(main)
