"""The whole story: the exported audit is a legal behaviour of the model, with the journals and without them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.client.governance.export import ExportedAction
from holdfast.errors import RunCancelled, RunFailed
from holdfast.templates.storyteller import delete_ended
from holdfast.templates.template import TemplateCaps
from tests.unit.templates import ground
from tests.unit.templates.oracle import judged, needs_templates

DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}


def of(actions: list[ExportedAction], instance: str) -> list[tuple[str, str | None]]:
    return [(each.action, each.step) for each in actions if each.instance == instance]


async def busy(app: Holdfast) -> None:
    """Instances that succeed, fail, retry, wait for a place and are cancelled; and templates that are archived."""
    ground.failures.clear()
    ground.failures.update({"b": 2, "y": 3})
    await ground.offered(app, "diamond", DIAMOND, caps=TemplateCaps(1))
    await ground.offered(app, "line", {"x": [], "y": ["x"], "z": ["y"], "w": []})
    runs = [await app.templates.start("diamond", id=f"d{number}", by="admin") for number in range(3)]
    failing = await app.templates.start("line", id="failing", by="admin")
    with pytest.raises(RunFailed, match="y fails"):
        await failing.result(600)
    ground.hold("w")
    cancelled = await app.templates.start("line", id="cancelled", by="admin")
    await ground.begun["w"].wait()
    await cancelled.cancel("enough", by="admin")
    with pytest.raises(RunCancelled):
        await cancelled.result(600)
    ground.release("w")
    await app.templates.archive("diamond", by="god")
    for run in runs:
        await run.result(600)


async def test_every_action_of_people_and_engine_is_told(holdfast_app: Holdfast) -> None:
    """A step that fails is retried at its time, and a failed step stops no independent one."""
    await busy(holdfast_app)
    actions = await ground.story(holdfast_app)
    assert of(actions, "failing") == [
        ("start_workflow", None),
        ("execute_step", "all"),
        ("execute_step", "w"),
        ("execute_step", "x"),
        ("complete_step", "w"),
        ("complete_step", "x"),
        ("execute_step", "y"),
        *[("fail_step", "y"), ("retry_step", "y"), ("execute_step", "y")] * 2,
        ("fail_step", "y"),
        ("fail_step", "all"),
        ("fail_workflow", None),
    ]
    words = [action for action, _ in of(actions, "cancelled")]
    assert words[-1] == "cancel_workflow"
    assert "request_cancel" in words
    ends = [each for each in actions if each.action == "cancel_workflow"]
    assert [(each.user, each.reason, each.template) for each in ends] == [("admin", "enough", "line")]
    assert {each.action for each in actions} >= set(ground.MODEL) - {"schedule_workflow", "trigger_scheduled"}
    assert [each.at for each in actions] == sorted(each.at for each in actions)


async def test_steps_begin_after_what_they_need_and_end_once(holdfast_app: Holdfast) -> None:
    """The rules of the model, told again: states of steps, their dependencies, and one end for each instance."""
    await busy(holdfast_app)
    needs: dict[str, list[str]] = {
        "all": [],
        "a": [],
        "b": ["a"],
        "c": ["a"],
        "d": ["b", "c"],
        "x": [],
        "y": ["x"],
        "z": ["y"],
        "w": [],
    }
    after = {
        ("pending", "execute_step"): "running",
        ("running", "complete_step"): "success",
        ("running", "fail_step"): "failed",
        ("failed", "retry_step"): "pending",
    }
    running: dict[str, dict[str, str]] = {}
    ended: list[str] = []
    for action in await ground.story(holdfast_app):
        instance = action.instance or ""
        if action.action == "start_workflow":
            assert instance not in running
            running[instance] = {}
        elif action.step is not None:
            states = running[instance]
            states[action.step] = after[states.get(action.step, "pending"), action.action]
            if action.action == "execute_step":
                assert {states.get(other) for other in needs[action.step]} <= {"success"}
        elif action.action in ("complete_workflow", "fail_workflow", "cancel_workflow"):
            states = running.pop(instance)
            ended.append(instance)
            assert action.action != "complete_workflow" or set(states.values()) == {"success"}
            assert action.action != "fail_workflow" or "failed" in states.values()
    assert (running, sorted(ended)) == ({}, ["cancelled", "d0", "d1", "d2", "failing"])


@needs_templates
async def test_the_story_is_a_legal_behaviour_of_the_model(holdfast_app: Holdfast, tmp_path: Path) -> None:
    """Judged by the oracle, without a limit on how many run at once: a start over a cap is queued, not refused."""
    await busy(holdfast_app)
    verdict = judged(ground.trace_of(await ground.story(holdfast_app)), tmp_path)
    assert (verdict["illegal"], verdict["broken"]) == ([], [])


@needs_templates
async def test_queued_instances_begin_within_the_models_cap(holdfast_app: Holdfast, tmp_path: Path) -> None:
    """With the cap of the template as the model's: an instance begins when another has ended."""
    ground.failures.clear()
    await ground.offered(holdfast_app, "diamond", DIAMOND, caps=TemplateCaps(2))
    runs = [await holdfast_app.templates.start("diamond", by="admin") for _ in range(7)]
    for run in runs:
        await run.result(600)
    verdict = judged(ground.trace_of(await ground.story(holdfast_app), cap=2), tmp_path)
    assert (verdict["illegal"], verdict["broken"]) == ([], [])


async def test_the_story_outlives_the_journals(holdfast_app: Holdfast) -> None:
    """Retention tells it before it deletes a journal, and it is the same story then."""
    await busy(holdfast_app)
    app = holdfast_app
    before = await ground.story(app)
    now = app.clock.now()
    assert await app.store.prune(2**60, 100) == 0, "an instance is not deleted before its story is told"
    assert await delete_ended(app.store, app.definitions.tools, 2**60, 100, now) == 5
    assert [run async for run in app.list()] == []
    assert await ground.story(app) == before
    assert (await app.audit.verify()).good
    assert await delete_ended(app.store, app.definitions.tools, 2**60, 100, now) == 0


async def test_an_id_that_is_used_again_has_two_stories(holdfast_app: Holdfast) -> None:
    """The first was told when its run was deleted, the second is read from the journal."""
    app = holdfast_app
    ground.failures.clear()
    await ground.offered(app, "line", {"x": []})
    for _ in range(2):
        await (await app.templates.start("line", id="same", by="admin")).result(60)
        once = await ground.story(app)
        await delete_ended(app.store, app.definitions.tools, 2**60, 100, app.clock.now())
        assert await ground.story(app) == once
        await asyncio.sleep(60)
    assert [each.action for each in once if each.instance == "same"] == 2 * [
        "start_workflow", *["execute_step"] * 2, *["complete_step"] * 2, "complete_workflow"
    ]  # fmt: skip


async def test_an_instance_that_waits_for_its_place_has_not_begun(holdfast_app: Holdfast) -> None:
    app = holdfast_app
    await ground.offered(app, "line", {"x": []}, caps=TemplateCaps(0))
    await app.templates.start("line", id="one", by="admin")
    await asyncio.sleep(60)
    assert of(await ground.story(app), "one") == [("queue_workflow", None)]
    assert (await app.templates.instance("one")).status == "queued"
