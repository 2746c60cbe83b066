"""The root ``run``, where a run stands as people see it, and signals for a version that is past."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import Holdfast, RunHandle, step, workflow
from holdfast.audit import records as r
from holdfast.errors import InvalidRequest, RunConflict
from holdfast.programs.function.decorators import STEPS
from holdfast.programs.function.values import encode
from holdfast.runs import messages
from holdfast.store import protocol as p
from tests.unit.worker.ground import OPTIONS, Ground, asked, kill, notes, rested


@workflow(name="context.elsewhere")
async def elsewhere() -> None:
    return None


DEFINITIONS = replace(OPTIONS, checkpoint_events=1)


@step(name="context.one")
async def one(what: str, times: int = 2) -> str:
    return what * times


def document(*nodes: dict[str, Any], name: str = "context.flow", **parts: Any) -> dict[str, Any]:
    return {"holdfast": "definition/1", "name": name, "version": 3, "steps": list(nodes), **parts}


ASKED = {"well": {"title": '=run.task + "?"', "show": {"run": "=run"}, "form": {"type": "object"}}}


async def begun(app: Holdfast, what: dict[str, Any], id: str = "one", **options: Any) -> RunHandle[Any]:
    found = app.definitions.add(what)
    return await app.start(found.definition.name, {"no": "7"}, id=id, **options)


def test_expressions_see_all_of_their_run(ground: Ground) -> None:
    """D-11, D-12: identity, reference, current task and signal, node, path, token, turn and start."""
    flow = document(
        {"first": {"set": {"state.first": "=run"}}},
        {
            "loop": {
                "repeat": {"times": 2},
                "do": [{"go": {"wait": "go", "key": "=start.no"}}, {"then": {"set": {"state.then": "=run"}}}],
            }
        },
        {"ask": {"task": "well"}},
        {"done": {"end": "=[state.first, state.then, run]"}},
        reference='="C-" + start.no',
        tasks=ASKED,
    )

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            run = await begun(app, flow, tenant="acme")
            for _ in range(2):
                while not (places := (await run.instance()).engine.places):
                    await app.changed(0.05)
                token = places[0].token
                await run.signal("go", key="7")
                while (await run.instance()).engine.token == token:
                    await app.changed(0.05)
            task = await asked(app, "one")
            (shown,) = [each.shown["run"] async for each in app.tasks.list(run="one")]
            last = (await run.instance()).engine.token
            await app.tasks.complete(task.id, {}, by="ann", tenant="acme")
            first, then, end = await run.result(30)
        known = {"name": "context.flow", "version": 3, "id": "one", "tenant": "acme", "reference": "C-7"}
        for each in (first, then, shown, end):
            assert {name: each[name] for name in known} == known
            assert each["startedAt"] == first["startedAt"] is not None
        assert (first["node"], first["path"], first["turn"]) == ("first", "first", 0)
        assert (first["task"], first["signal"], first["token"]) == (None, None, None)
        assert (then["path"], then["signal"], then["token"]) == ("loop.1.then", "go#7", token)
        assert then["turn"] == 2
        assert (task.summary, shown["task"], shown["node"]) == ("well?", "well", "ask")
        assert (end["task"], end["token"], end["turn"]) == ("well", last, 3)

    ground.play(main)


def test_where_a_run_stands_is_read_without_a_worker_and_without_its_steps(ground: Ground) -> None:
    """D-13 to D-15: business state apart from engine state: waits with paths and tokens, task, child, timers."""
    child = document({"kid": {"wait": "kid"}}, name="context.child")
    flow = document(
        {"a": {"step": "context.one", "with": {"what": "x"}, "as": "state.a"}},
        {"before": {"wait": "before"}},
        {
            "side": {
                "fork": {
                    "asks": [{"ask": {"task": "well", "timeout": "2d"}}],
                    "naps": [{"each": {"repeat": {"times": 2}, "do": [{"nap": {"sleep": "3h"}}]}}],
                    "runs": [{"tell": {"run": "context.child"}}],
                    "waits": [{"docs": {"wait": "docs"}}],
                }
            }
        },
        tasks=ASKED,
        reference="=start.no",
    )

    async def main(ground: Ground) -> None:
        async with ground.engine(options=replace(OPTIONS, checkpoint_events=10**6)) as app:
            app.definitions.add(child)
            run = await begun(app, flow)
            await rested(app, "one")
            single = (await run.instance()).engine
            assert (single.wait, single.task, single.last_signal) == ("signal", None, None)
            assert single.token == single.places[0].token
            with pytest.raises(RunConflict, match="waits for 'other' there no more"):
                await run.signal("other", wait_token="00" * 32 + ".0")
            with pytest.raises(InvalidRequest, match="is no token"):
                await run.signal("before", wait_token="7")
            await run.signal("before", id="first", wait_token=single.token)
            task = await asked(app, "one")
            await rested(app, "one")
            kill(app)
        async with ground.engine(options=DEFINITIONS, without=["context.one"]) as other:
            info = await other.run("one").instance()
            assert (info.definition, info.version, info.reference) == ("context.flow", 3, "7")
            assert info.state == await other.run("one").state() == {"a": "xx"}
            engine = info.engine
            assert {place.path: (place.kind, place.name) for place in engine.places if place.kind != "timeout"} == {
                "side.asks.ask": ("task", "well"),
                "side.naps.each.0.nap": ("timer", ""),
                "side.runs.tell": ("workflow", "context.child@3"),
                "side.waits.docs": ("signal", "docs"),
            }
            assert (engine.status, engine.wait, engine.token, engine.task) == ("waiting", "several", None, task.id)
            children = [each.id async for each in other.list(parent="one")]
            assert [(frame.path, frame.run) for frame in engine.frames] == [("side.runs.tell", *children)]
            assert sorted(timer.path for timer in engine.timers) == ["side.asks.ask", "side.naps.each.0.nap"]
            assert all(timer.due is not None for timer in engine.timers)
            assert engine.last_signal is not None
            assert (engine.last_signal.name, engine.last_signal.id) == ("before", "first")
            with pytest.raises(RunConflict):
                await other.run("one").signal("before", wait_token=single.token)
            overview = await other.run("one").overview()
            assert overview.instance == info
            await other.run("one").cancel()
        assert "context.one" in STEPS

    ground.play(main)


def test_a_run_that_has_ended_keeps_its_state_and_stands_nowhere(ground: Ground) -> None:
    flow = document({"a": {"set": {"state.a": 1}}}, {"b": {"sleep": "1s"}})

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            run = await begun(app, flow)
            await run.result(30)
            info = await run.instance()
            assert (info.state, info.engine.places, info.engine.status) == ({"a": 1}, (), "completed")
            await app.start(elsewhere, id="two")
            with pytest.raises(InvalidRequest, match="only runs of definitions have a state"):
                await app.run("two").instance()
            assert (await app.run("two").overview()).instance is None

    ground.play(main)


def test_a_signal_for_a_version_that_is_past_changes_nothing_and_is_noted(ground: Ground) -> None:
    """D-37, D-39: it was sent before the run moved on, and arrives after."""
    flow = document({"go": {"wait": "go", "as": "state.go"}}, {"done": {"end": "=state.go"}})

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            run = await begun(app, flow)
            row = await rested(app, "one")
            late = messages.signal("go", encode("late", "the signal"), 1, "late", row.version - 1)
            await app.committer.commit(p.Deliver(run.key, late))
            app.delivered(run.key)
            while not (said := await notes(app, r.Operated, "one")):
                await app.changed(0.05)
            assert await run.status() in ("running", "waiting")
            await run.signal("go", "fresh", expected_version=(await run.info()).events)
            assert await run.result(30) == "fresh"
            assert [(each.act, each.reason, each.details) for each in said] == [
                ("signal", f"ignored: it was for version {row.version - 1}, and the run has moved on", {"signal": "go"})
            ]
            assert len(await notes(app, r.Operated, "one")) == 1
            assert (await run.verify()).good

    ground.play(main)


def test_a_signal_for_a_wait_that_is_over_changes_nothing_and_is_noted(ground: Ground) -> None:
    """D-12a: it was sent while the run waited there, and arrives after."""
    flow = document(
        {"go": {"wait": "go", "match": "=payload == 1"}}, {"on": {"wait": "go"}}, {"done": {"end": "=payload"}}
    )

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            run = await begun(app, flow)
            await rested(app, "one")
            token = (await run.instance()).engine.token
            assert token is not None
            await run.signal("go", 1, wait_token=token)
            await rested(app, "one")
            late = messages.signal("go", encode("late", "the signal"), 1, "late", wait_token=token)
            await app.committer.commit(p.Deliver(run.key, late))
            app.delivered(run.key)
            while not (said := await notes(app, r.Operated, "one")):
                await app.changed(0.05)
            assert [each.reason for each in said] == [f"ignored: it was for wait {token}, and the run has moved on"]
            await run.signal("go", "fresh")
            assert await run.result(30) == "fresh"
            assert (await run.verify()).good

    ground.play(main)
