"""Runs of definitions on whole engines: crashes, and everything that can be done to a run."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import Holdfast, RunCancelled, RunFailed, step, verify_evidence, workflow
from holdfast.errors import DuplicateName, InvalidArguments, InvalidRequest, RetryRefused, RunParked
from tests.unit.worker.ground import OPTIONS, Ground, asked, kill, rested

CALLS: list[str] = []
BROKEN: set[str] = set()
DEFINITIONS = replace(OPTIONS, checkpoint_events=1)


@pytest.fixture(autouse=True)
def nothing_called() -> None:
    CALLS.clear()
    BROKEN.clear()


@step(name="runs.free")
async def free(result: str) -> None:
    CALLS.append(f"free {result}")


@step(name="runs.book", undo=free)
async def book(what: str) -> str:
    CALLS.append(f"book {what}")
    if what in BROKEN:
        raise ValueError(f"no {what}")
    return what


@workflow(name="runs.double")
async def double(n: int) -> int:
    return 2 * n


def document(*nodes: dict[str, Any], name: str = "runs.trip", version: int = 1, **parts: Any) -> dict[str, Any]:
    return {"holdfast": "definition/1", "name": name, "version": version, "steps": list(nodes), **parts}


def booked(name: str, what: str) -> dict[str, Any]:
    return {name: {"step": "runs.book", "with": {"what": what}, "as": f"state.{name}"}}


TRIP = document(
    booked("hotel", "hotel"),
    {"go": {"wait": "go", "key": "=start.n", "as": "state.answer"}},
    booked("flight", "flight"),
    {"done": {"end": "=[state.hotel, state.answer, state.flight]"}},
)


async def begun(app: Holdfast, what: dict[str, Any] = TRIP, id: str = "one", **options: Any) -> Any:
    found = app.definitions.add(what)
    return await app.start(found.definition.name, {"n": 7}, id=id, **options)


def test_a_run_goes_on_in_a_worker_that_has_never_seen_its_definition(ground: Ground) -> None:
    """Its code lies in the store. What was done before the crash is not done again."""

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            run = await begun(app)
            await rested(app, "one")
            assert await run.state() == {"hotel": "hotel"}
            kill(app)
        async with ground.engine(options=DEFINITIONS) as other:
            run = other.run("one")
            assert await run.state() == {"hotel": "hotel"}
            await run.signal("go", "yes", key=8)
            await run.signal("go", "now", key=7)
            assert await run.result(30) == ["hotel", "now", "flight"]
            assert (await run.verify()).good

    ground.play(main)
    assert CALLS == ["book hotel", "book flight"]


def test_a_start_that_leaves_out_what_has_a_default_is_accepted_and_has_it(ground: Ground) -> None:
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "default": 4}}}
    found = document({"done": {"end": "=start.n"}}, name="runs.filled", start=schema)

    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            app.definitions.add(found)
            assert await (await app.start("runs.filled", {})).result(30) == 4
            await app.templates.create("filled", source=found, by="ann")
            await app.templates.activate("filled", by="ann")
            assert await (await app.templates.start("filled", by="ann")).result(30) == 4

    ground.play(main)


FACTORIAL = document(
    {"last": {"when": "=start.n < 2", "end": 1}},
    {"wait": {"wait": "go", "key": "=start.n"}},
    {"below": {"run": "runs.factorial@4", "with": {"n": "=start.n - 1"}, "as": "state.below"}},
    {"done": {"end": "=start.n * state.below"}},
    name="runs.factorial",
    version=4,
    start={"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}},
    state={"below": {"type": "integer"}},
)


def test_a_definition_runs_itself_on_a_condition_by_its_own_digest(ground: Ground) -> None:
    """Also in a worker that has never seen it, and beside a newer version of the name."""

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            again = app.definitions.add(FACTORIAL)
            assert app.definitions.add(FACTORIAL).digest == again.digest
            run = await begun(app, FACTORIAL)
            await rested(app, "one")
            app.definitions.add({**FACTORIAL, "version": 5, "steps": [{"no": {"end": 0}}]})
            await run.signal("go", key=7)
            kill(app)
        async with ground.engine(options=DEFINITIONS) as other:
            above = "one"
            for n in range(6, 1, -1):
                while not (children := [each async for each in other.list(parent=above)]):
                    await other.changed(0.05)
                (child,) = children
                await other.run(child.id).signal("go", key=n)
                above = child.id
            assert await other.run("one").result(30) == 5040

    ground.play(main)


def test_a_cancelled_run_undoes_what_it_did(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            run = await begun(app)
            await rested(app, "one")
            await run.cancel("enough")
            with pytest.raises(RunCancelled):
                await run.result(30)

    ground.play(main)
    assert CALLS == ["book hotel", "free hotel"]


def test_a_paused_run_takes_its_signal_when_it_is_resumed(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            run = await begun(app)
            await rested(app, "one")
            await run.pause("the shop moves")
            await run.signal("go", "now", key=7)
            assert await run.status() == "paused"
            assert CALLS == ["book hotel"]
            await run.resume()
            assert await run.result(30) == ["hotel", "now", "flight"]

    ground.play(main)


def test_a_failed_run_undoes_and_is_retried_from_there(ground: Ground) -> None:
    """What was undone is done again."""

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            run = await begun(app)
            BROKEN.add("flight")
            await run.signal("go", "now", key=7)
            with pytest.raises(RunFailed, match="no flight"):
                await run.result(30)
            BROKEN.clear()
            await run.retry()
            assert await run.result(30) == ["hotel", "now", "flight"]
            assert (await run.verify()).good

    ground.play(main)
    assert CALLS == ["book hotel", "book flight", "free hotel", "book hotel", "book flight"]


def test_a_retry_that_would_find_its_failed_child_again_says_to_retry_that_first(ground: Ground) -> None:
    """The parent has undone what it did before it called the child, so a retry would call the child once more."""

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            BROKEN.add("flight")
            app.definitions.add(document(booked("flight", "flight"), {"end": {"end": "flown"}}, name="runs.flight"))
            trip = [booked("hotel", "hotel"), {"fly": {"run": "runs.flight", "as": "state.fly"}}]
            run = await begun(app, document(*trip, {"end": {"end": "=state.fly"}}))
            with pytest.raises(RunFailed):
                await run.result(30)
            BROKEN.clear()
            with pytest.raises(RetryRefused, match=r"which is failed.* Retry one~1 first"):
                await run.retry()
            await app.run("one~1").retry()
            assert await app.run("one~1").result(30) == "flown"
            await run.retry()
            assert await run.result(30) == "flown"
            assert CALLS.count("book hotel") == 2
            assert (await run.verify()).good

    ground.play(main)


def test_a_fork_goes_its_own_way(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            run = await begun(app)
            await rested(app, "one")
            fork = await run.fork((await run.info()).events, id="two")
            await fork.signal("go", "there", key=7)
            await run.signal("go", "here", key=7)
            assert await fork.result(30) == ["hotel", "there", "flight"]
            assert await run.result(30) == ["hotel", "here", "flight"]

    ground.play(main)


def test_two_tenants_keep_their_own_code(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            runs = [await begun(app, tenant=tenant) for tenant in ("acme", "other")]
            for run in runs:
                await run.signal("go", run.tenant, key=7)
            assert [await run.result(30) for run in runs] == [
                ["hotel", "acme", "flight"],
                ["hotel", "other", "flight"],
            ]

    ground.play(main)


def test_an_expression_that_fails_parks_the_run_and_a_timer_wakes_one(ground: Ground) -> None:
    """Nothing is undone, and the reason names the node."""
    odd = document(booked("hotel", "hotel"), {"odd": {"set": {"state.x": "=start.n / 0"}}}, name="odd")
    nap = document({"nap": {"sleep": "100ms"}}, {"done": {"end": "=run.id"}}, name="nap")

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            run = await begun(app, odd)
            with pytest.raises(RunParked, match="node odd: division by zero"):
                await run.result()
            assert await (await begun(app, nap, "two")).result(30) == "two"

    ground.play(main)
    assert CALLS == ["book hotel"]


def test_a_run_that_is_parked_before_its_first_wait_shows_an_empty_state(ground: Ground) -> None:
    """Nothing of its first turn was kept."""
    odd = document({"odd": {"set": {"state.x": "=start.n / 0"}}}, name="odd.at.once")

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            run = await begun(app, odd)
            with pytest.raises(RunParked, match="division by zero"):
                await run.result()
            assert await run.state() == {}

    ground.play(main)


def test_definitions_and_functions_run_each_other(ground: Ground) -> None:
    """A child with a wait is a run; one without is played in its parent's turn."""
    small = document({"done": {"end": "=start.n + 1"}}, name="small")
    large = document({"nap": {"sleep": "10ms"}}, {"done": {"end": "=start.n + 2"}}, name="large")
    parent = document(
        {"a": {"run": "runs.double", "with": {"n": "=start.n"}, "as": "state.a"}},
        {"b": {"run": "small", "with": {"n": "=state.a"}, "as": "state.b"}},
        {"c": {"run": "large@^1", "with": {"n": "=state.b"}, "as": "state.c"}},
        {"done": {"end": "=[state.a, state.b, state.c]"}},
        name="parent",
    )

    async def main(ground: Ground) -> None:
        async with ground.engine(double, options=DEFINITIONS) as app:
            app.definitions.add(small)
            app.definitions.add(large)
            run = await begun(app, parent)
            assert await run.result(30) == [14, 15, 17]
            children = [child.workflow async for child in app.list(parent="one")]
            assert sorted(children) == ["large", "runs.double"]

    ground.play(main)


@pytest.mark.parametrize("nap", [[], [{"nap": {"sleep": "1s"}}]])
def test_a_child_is_the_same_whether_it_is_played_in_its_parents_turn_or_not(
    ground: Ground, nap: list[dict[str, Any]]
) -> None:
    """Its error is shown in the same way, and its id is its own."""

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            app.definitions.add(document(*nap, {"bad": {"raise": {"code": "BAD", "message": "no"}}}, name="runs.bad"))
            app.definitions.add(document(*nap, {"own": {"end": "=run.id"}}, name="runs.own"))
            parent = document(
                {"bad": {"run": "runs.bad", "on": {"failure": [{"kept": {"set": {"state.error": "=error"}}}]}}},
                {"own": {"run": "runs.own", "as": "state.own"}},
                {"done": {"end": "=[state.error.node, state.error.code, state.error.type, state.own]"}},
            )
            run = await begun(app, parent)
            *error, own = await run.result(30)
            assert error == ["bad", "BAD", "holdfast.errors:BusinessError"]
            assert (await app.run(own).info()).workflow == "runs.own"

    ground.play(main)


def test_a_task_of_a_definition_is_answered_by_another_worker_and_proved(ground: Ground) -> None:
    ask = document(
        {"ask": {"task": "approve", "as": "state.answer"}},
        {"done": {"end": "=state.answer.decision"}},
        name="ask",
        tasks={"approve": {"title": "Approve?", "show": {"n": "=start.n"}, "form": {"type": "object"}}},
    )

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            await begun(app, ask)
            task = await asked(app, "one")
            await rested(app, "one")
            kill(app)
        async with ground.engine(options=replace(DEFINITIONS, evidence=True)) as app:
            await app.tasks.complete(task.id, {"decision": "yes"}, by="ann")
            run = app.run("one")
            assert await run.result(30) == "yes"
            verdict = verify_evidence((await run.evidence(anew=True)).data)
            assert verdict.good

    ground.play(main)


def test_bad_starts_are_refused(ground: Ground) -> None:
    typed = document(
        {"done": {"end": 1}}, name="typed", start={"type": "object", "properties": {"n": {"type": "string"}}}
    )

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            with pytest.raises(InvalidArguments, match="/n"):
                await begun(app, typed)
            with pytest.raises(InvalidArguments, match="one value"):
                await app.start("typed", {}, {})
            with pytest.raises(DuplicateName, match="give the changed one a new version"):
                app.definitions.add(document({"done": {"end": 2}}, name="typed"))
            run = await app.start("typed", {"n": "x"}, id="two")
            assert await run.result(30) == 1
            with pytest.raises(InvalidRequest, match="only runs of definitions"):
                await (await app.start(double, 1, id="three")).state()

    ground.play(main)


def test_a_name_means_one_program_of_an_engine(ground: Ground) -> None:
    """A definition that is called like a served function is refused. A function that is not served hides nothing."""
    other = document({"done": {"end": "five"}}, name="runs.double")  # the function of that name gives a number

    async def main(ground: Ground) -> None:
        async with ground.engine(double, options=DEFINITIONS) as app:
            with pytest.raises(DuplicateName, match=r"serves a workflow function called 'runs\.double'"):
                app.definitions.add(other)
            assert await (await app.start("runs.double", 4, id="function")).result(30) == 8
        async with ground.engine(options=DEFINITIONS) as app:
            app.definitions.add(other)
            assert await (await app.start("runs.double", id="definition")).result(30) == "five"
            assert await app.run("definition").result(30) == "five"

    ground.play(main)
