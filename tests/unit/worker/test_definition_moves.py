"""Live runs that move to another version of their definition, on whole engines."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Holdfast, RunCancelled, RunFailed, step, verify_evidence
from holdfast.audit.bundles import pack, unpack
from holdfast.errors import InvalidRequest, RunEnded, RunParked
from holdfast.journal.events import REVISION
from tests.unit.worker.ground import OPTIONS, Ground, kill, rested, until
from tests.unit.worker.test_definition_runs import CALLS, DEFINITIONS, booked, document

NAME = "moves.trip"
BEFORE = document(booked("hotel", "hotel"), {"go": {"wait": "go"}}, {"end": {"end": 1}}, name=NAME)
AFTER = document(
    booked("hotel", "hotel"),
    {"go": {"wait": "go"}},
    booked("flight", "flight"),
    {"end": {"end": "=[state.hotel, state.flight]"}},
    name=NAME,
    version=2,
)
ELSEWHERE = document({"other": {"wait": "go"}}, name=NAME, version=3)


NOTED: list[int] = []
HELD: list[asyncio.Event] = []


@step(name="moves.note")
async def note() -> str:
    NOTED.append(1)
    await HELD.pop().wait()
    return "noted"


async def begun(app: Holdfast, id: str, document: Any = BEFORE) -> Any:
    app.definitions.add(document)
    run = await app.start(f"{NAME}@{document['version']}", {}, id=id)
    await rested(app, id)
    return run


def test_live_runs_move_and_end_as_the_newer_version_says(ground: Ground) -> None:
    """Also after a crash, in a worker that has neither version but what the store and the journal keep."""

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            for id in ("one", "two"):
                await begun(app, id)
            to = app.definitions.add(AFTER)
            planned = await app.definitions.plan_moves(to)
            assert {(move.run, move.verdict, move.asked) for move in planned} == {
                ("one", "safe", False),
                ("two", "safe", False),
            }
            moved = await app.definitions.migrate(to, runs=["one"], by="ann", reason="flights are sold now")
            assert [(move.run, move.before, move.after, move.asked) for move in moved] == [("one", 1, 2, True)]
            await rested(app, "one")
            assert [move.run for move in await app.definitions.plan_moves(to)] == ["two"]
            kill(app)
        async with ground.engine(options=DEFINITIONS) as other:
            for id in ("one", "two"):
                await other.run(id).signal("go")
            assert await other.run("one").result(30) == ["hotel", "flight"]
            assert await other.run("two").result(30) == 1
            for id in ("one", "two"):
                assert (await other.run(id).verify()).good
            notes = [entry async for entry in other.audit.list(run="one")]
            assert [note.record["act"] for note in notes if note.record.get("act")] == ["migrate"]

    ground.play(main)


def test_a_move_without_checkpoints_is_replayed_from_the_journal(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            await begun(app, "one")
            await app.definitions.migrate(app.definitions.add(AFTER))
            await rested(app, "one")
            kill(app)
        async with ground.engine() as other:
            await other.run("one").signal("go")
            assert await other.run("one").result(30) == ["hotel", "flight"]

    ground.play(main)


def test_a_run_that_cannot_move_is_not_asked(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            run = await begun(app, "one")
            (move,) = await app.definitions.migrate(app.definitions.add(ELSEWHERE))
            assert (move.verdict, move.asked) == ("blocked", False)
            assert "it stands at go" in move.reasons[0]
            assert not [entry async for entry in run.journal() if REVISION in repr(entry)]
            await run.signal("go")
            assert await run.result(30) == 1
            with pytest.raises(RunEnded):
                await app.definitions.plan_moves(app.definitions.add(AFTER), runs=["one"])
            with pytest.raises(InvalidRequest, match="there is no run 'two'"):
                await app.definitions.plan_moves(app.definitions.add(AFTER), runs=["two"])

    ground.play(main)


def test_a_run_that_ends_while_others_are_asked_does_not_keep_them(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            for id in ("one", "two", "three"):
                await begun(app, id)
            to, mover = app.definitions.add(AFTER), app.definitions._mover
            planned = await mover.plans(to, "default")
            await app.run("two").signal("go")
            assert await app.run("two").result(30) == 1
            moves = {move.run: move for move in [await mover.ask(to, each, "ann", "") for each in planned]}
            assert (moves["two"].verdict, moves["two"].reasons) == ("blocked", ("it has ended meanwhile",))
            assert [moves[id].asked for id in ("one", "two", "three")] == [True, False, True]

    ground.play(main)


def test_a_parked_run_goes_on_with_a_mended_definition(ground: Ground) -> None:
    """Its expression failed, and nothing of that turn was kept."""
    broken = document({"go": {"wait": "go", "as": "state.n"}}, {"end": {"end": "=10 / state.n"}}, name=NAME)
    mended = document(
        {"go": {"wait": "go", "as": "state.n"}},
        {"end": {"end": "=state.n == 0 ? 0 : 10 / state.n"}},
        name=NAME,
        version=2,
    )

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            run = await begun(app, "one", broken)
            await run.signal("go", 0)
            await rested(app, "one")
            assert (await run.info()).state == "failed_retryable"
            (move,) = await app.definitions.migrate(app.definitions.add(mended), by="ann")
            assert move.asked
            await run.resume(by="ann")
            assert await run.result(30) == 0
            assert (await run.verify()).good

    ground.play(main)


MISFIT = document(
    booked("hotel", "hotel"),
    {"flight": {"step": "runs.book", "with": {"what": "flight"}, "as": "state.n"}},
    {"end": {"end": "=state.n"}},
    name=NAME,
    state={"n": "integer"},
)


def test_a_result_that_does_not_fit_is_kept_for_a_mended_definition(ground: Ground) -> None:
    """The run is parked. What was done is not done again."""
    CALLS.clear()

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            run = await begun(app, "one", MISFIT)
            assert "state.n is of type integer" in str((await run.info()).pause_reason)
            mended = app.definitions.add({**MISFIT, "version": 2, "state": {"n": "string"}})
            (move,) = await app.definitions.migrate(mended, by="ann")
            assert move.asked
            await run.resume(by="ann")
            assert await run.result(30) == "flight"
            assert (await run.verify()).good

    ground.play(main)
    assert CALLS == ["book hotel", "book flight"]


def test_a_run_that_is_parked_by_a_result_is_cancelled_and_that_is_undone_too(ground: Ground) -> None:
    CALLS.clear()

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            run = await begun(app, "one", MISFIT)
            await run.cancel(by="ann")
            with pytest.raises(RunCancelled):
                await run.result(30)
            assert (await run.verify()).good

    ground.play(main)
    assert CALLS == ["book hotel", "book flight", "free flight", "free hotel"]


def test_a_moved_run_is_retried_and_forked_with_what_it_moved_to(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        failing = document(
            {"go": {"wait": "go"}}, {"no": {"step": "runs.book", "with": {"what": "=1"}}}, name=NAME, version=2
        )
        async with ground.engine(options=DEFINITIONS) as app:
            run = await begun(app, "one", document({"go": {"wait": "go"}}, name=NAME))
            await app.definitions.migrate(app.definitions.add(failing))
            await rested(app, "one")
            await run.signal("go")
            with pytest.raises(RunFailed):
                await run.result(30)
            await run.retry()
            with pytest.raises(RunFailed):
                await run.result(30)
            assert [each async for each in run.journal() if REVISION in repr(each)]

    ground.play(main)


def test_nobody_but_the_engine_sends_a_revision(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            run = await begun(app, "one")
            with pytest.raises(InvalidRequest, match="the engine's own"):
                await run.signal(REVISION, {})

    ground.play(main)


def test_evidence_of_a_moved_run_is_good(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            run = await begun(app, "one")
            await app.definitions.migrate(app.definitions.add(AFTER), by="ann")
            await rested(app, "one")
            await run.signal("go")
            await run.result(30)
            bundle = await run.evidence(anew=True)
            digests = {app.definitions.add(each).digest for each in (BEFORE, AFTER)}
            assert {f"definitions/{digest}.cbor" for digest in digests} <= unpack(bundle.data).keys()
            assert verify_evidence(bundle.data).good
            files = unpack(bundle.data)
            del files[f"definitions/{app.definitions.add(AFTER).digest}.cbor"]
            assert not verify_evidence(pack(files)).good

    ground.play(main)


def test_a_large_definition_is_moved_to_as_well(ground: Ground) -> None:
    """It is a blob beside the journal; a replay from the start, and a restored checkpoint, have it."""
    large = {**AFTER, "description": "x" * 100_000}

    async def main(ground: Ground) -> None:
        for id, options in (("one", DEFINITIONS), ("two", OPTIONS)):
            async with ground.engine(options=options) as app:
                await begun(app, id)
                await app.definitions.migrate(app.definitions.add(large), runs=[id])
                await rested(app, id)
                kill(app)
            async with ground.engine(options=options) as other:
                run = other.run(id)
                assert (await run.instance()).version == 2
                await run.signal("go")
                assert await run.result(30) == ["hotel", "flight"]
                assert (await run.verify()).good
                assert (await run.instance()).revisions[0].moved

    ground.play(main)


def test_a_run_moves_only_where_its_tenant_has_what_the_newer_version_runs(ground: Ground) -> None:
    """What is published in one tenant is not there in another: the child could never be made."""
    letter = document({"go": {"wait": "go"}}, name="moves.letter")
    after = document({"go": {"wait": "go"}}, {"tell": {"run": "moves.letter"}}, name=NAME, version=2)

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            for tenant in ("a", "b"):
                await app.definitions.publish(BEFORE, tenant=tenant)
                run = await app.start(NAME, {}, id="one", tenant=tenant)
                await run.settled(30)  # it moves from where it waits
            await app.definitions.publish_all([letter, after], tenant="a")
            to = await app.definitions.load(f"{NAME}@2", tenant="a")
            assert to is not None
            assert [move.asked for move in await app.definitions.migrate(to, tenant="a")] == [True]
            with pytest.raises(InvalidRequest, match="which tenant 'b' does not have: publish it"):
                await app.definitions.migrate(to, tenant="b")
            await app.definitions.publish(letter, tenant="b")
            assert [move.asked for move in await app.definitions.migrate(to, tenant="b")] == [True]

    ground.play(main)


@pytest.mark.parametrize("options", [DEFINITIONS, OPTIONS], ids=["from its checkpoint", "from its journal"])
def test_a_moved_run_is_read_where_its_new_steps_are_not_known(ground: Ground, options: Any) -> None:
    """As a command does, which has no code at all."""

    async def main(ground: Ground) -> None:
        async with ground.engine(options=options) as app:
            run = await begun(app, "one", document({"go": {"wait": "go"}}, name=NAME))
            steps = ({"go": {"wait": "go"}}, booked("hotel", "hotel"), {"more": {"wait": "more"}})
            await app.definitions.migrate(app.definitions.add(document(*steps, name=NAME, version=2)))
            await run.signal("go")
            await rested(app, "one")
            kill(app)
        async with ground.engine(without=["runs.book"], worker=False) as reader:
            assert await reader.run("one").state() == {"hotel": "hotel"}
            assert (await reader.run("one").instance()).version == 2

    ground.play(main)


def test_a_mended_definition_goes_on_in_the_worker_that_has_its_new_step(ground: Ground) -> None:
    """The run moves and comes to the step in one turn. A worker without the step does not park it once more."""
    broken = document({"go": {"wait": "go", "as": "state.n"}}, {"end": {"end": "=10 / state.n"}}, name=NAME)
    mended = document({"go": {"wait": "go", "as": "state.n"}}, booked("hotel", "hotel"), name=NAME, version=2)

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS, without=["runs.book"]) as older:
            run = await begun(older, "one", broken)
            await run.signal("go", 0)
            await rested(older, "one")
            async with ground.engine(options=DEFINITIONS) as newer:
                (move,) = await newer.definitions.migrate(newer.definitions.add(mended))
                assert move.asked
                await run.resume()
                await run.result(30)
            assert (await run.state()) == {"n": 0, "hotel": "hotel"}

    ground.play(main)


def test_a_moved_run_that_no_worker_can_serve_is_parked_with_what_it_lacks(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS, without=["runs.book"]) as app:
            run = await begun(app, "one", document({"go": {"wait": "go"}}, name=NAME))
            await run.pause("both come at once")
            after = document({"go": {"wait": "go"}}, booked("hotel", "hotel"), name=NAME, version=2)
            await app.definitions.migrate(await app.definitions.compile(after, check_uses=False))
            await run.signal("go")
            await run.resume()
            with pytest.raises(RunParked, match="is here: start a worker whose code defines it"):
                await run.result()
        async with ground.engine(options=DEFINITIONS) as other:
            await other.run("one").resume()
            await other.run("one").result(30)
            assert (await other.run("one").verify()).good

    ground.play(main)


def test_a_run_is_handed_over_with_the_result_that_it_got_where_it_lacks_a_step(ground: Ground) -> None:
    """A step ends in a worker that lacks what comes next: the step is not done again by the worker that has it."""
    first = {"note": {"step": "moves.note", "as": "state.note"}}
    before = document(first, {"go": {"wait": "go"}}, name=NAME)
    after = document(
        first, booked("hotel", "hotel"), {"end": {"end": "=[state.note, state.hotel]"}}, name=NAME, version=2
    )

    async def main(ground: Ground) -> None:
        NOTED.clear()
        held = asyncio.Event()
        HELD.append(held)
        async with ground.engine(options=DEFINITIONS, without=["runs.book"]) as older:
            older.definitions.add(before)
            run = await older.start(f"{NAME}@1", {}, id="one")
            await until(older, lambda: NOTED == [1])
            async with ground.engine(options=DEFINITIONS) as newer:
                await newer.definitions.migrate(newer.definitions.add(after))
                while (await run.instance()).version != 2:
                    await newer.changed(0.05)
                held.set()
                assert await newer.run("one").result(30) == ["noted", "hotel"]
                assert (await newer.run("one").verify()).good
            assert (await run.info()).pause_reason is None
        assert NOTED == [1]

    ground.play(main)
