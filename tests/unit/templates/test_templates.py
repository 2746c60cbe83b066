"""Templates on an engine: who may be started when, what is pinned, what is queued, and what instances show."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Holdfast, SyncHoldfast, TenantQuota, Trigger, workflow
from holdfast.errors import (
    InvalidArguments,
    InvalidRequest,
    RunCancelled,
    RunConflict,
    RunFailed,
    TemplateConflict,
    TemplateNotFound,
    WorkflowUnknown,
)
from holdfast.store.memory import MemoryStore
from holdfast.templates.node_calls import compiled
from holdfast.templates.template import EventRoute, TemplateCaps
from tests.unit.templates import ground


@workflow
async def greeting(name: str = "you", often: int = 1) -> str:
    for _ in range(often):
        await ground.work(name)
    return f"hello {name}"


@pytest.fixture(autouse=True)
def nothing_fails() -> None:
    ground.failures.clear()
    ground.held.clear()


def test_a_template_goes_through_its_states(url: str) -> None:
    """Only an active one starts, and every act is in the audit with who did it."""

    async def main() -> None:
        async with Holdfast(url) as app:
            made = await app.templates.create("greet", greeting, name="Greetings", input={"name": "Bo"}, by="god")
            assert (made.status, made.version, made.owner, made.trigger) == ("draft", 1, "god", "manual")
            acts = [
                ("draft", None),
                ("active", app.templates.activate),
                ("paused", app.templates.pause),
                ("active", app.templates.resume),
                ("archived", app.templates.archive),
            ]
            for status, act in acts:
                if act is not None:
                    assert (await act("greet", by="god")).status == status
                if status == "active":
                    run = await app.templates.start("greet", by="admin")
                    assert await run.result(30) == "hello Bo"
                else:
                    with pytest.raises(TemplateConflict, match=f"'greet' is {status}"):
                        await app.templates.start("greet", by="admin")
            for act in (app.templates.activate, app.templates.pause, app.templates.resume, app.templates.archive):
                with pytest.raises(TemplateConflict, match="archived"):
                    await act("greet")
            with pytest.raises(TemplateConflict, match="archived"):
                await app.templates.new_version("greet", name="other")
            actions = [(each.action, each.user) for each in await ground.story(app) if each.instance is None]
            people = ["create_template", "activate_template", "pause_template", "resume_template", "archive_template"]
            assert actions == [(act, "god") for act in people]
            assert [each.id async for each in app.templates.list(status="archived")] == ["greet"]
            assert [each.id async for each in app.templates.list(status="active")] == []

    asyncio.run(main())


def test_a_start_is_known_by_its_id(url: str) -> None:
    """Started again it is found, even where the template has been archived since; another template's id is refused."""

    async def main() -> None:
        async with Holdfast(url) as app:
            for id in ("one", "two"):
                await app.templates.create(id, greeting, by="god")
                await app.templates.activate(id, by="god")
            first = await app.templates.start("one", {"name": "Bo"}, id="same", workspace="north", by="admin")
            again = await app.templates.start("one", {"name": "Bo"}, id="same", by="admin")
            assert first.id == again.id == "same"
            assert await again.result(30) == "hello Bo"
            info = await first.info()
            assert info.attributes == {"template": "one", "template_version": "1"}
            assert (info.actor, info.workspace, info.trigger) == ("admin", "north", Trigger("manual", "one"))
            with pytest.raises(RunConflict):
                await app.templates.start("one", {"name": "Al"}, id="same")
            with pytest.raises(TemplateConflict, match="no instance of template 'two'"):
                await app.templates.start("two", {"name": "Bo"}, id="same")
            await app.templates.archive("one")
            assert (await app.templates.start("one", {"name": "Bo"}, id="same")).id == "same"
            with pytest.raises(TemplateConflict):
                await app.templates.start("one", {"name": "Bo"}, id="new")
            starts = [each for each in await ground.story(app) if each.action == "start_workflow"]
            assert len(starts) == 1

    asyncio.run(main())


def test_a_template_pins_its_definition_until_its_next_version(url: str) -> None:
    """Instances keep what they were started with, those that wait for their place too."""

    async def main() -> None:
        async with Holdfast(url) as app:
            await app.definitions.publish(ground.graph({"old": []}, name="bill"))
            await app.templates.create("bill", "bill", caps=TemplateCaps(0), by="god")
            await app.templates.activate("bill")
            first = await app.templates.start("bill")
            newer = await app.definitions.publish(ground.graph({"new": []}, name="bill", version=2))
            second = await app.templates.start("bill")
            changed = await app.templates.new_version("bill", "bill@2", caps=TemplateCaps(), by="god")
            assert (changed.version, changed.status, changed.program.digest) == (2, "active", newer.digest)
            third = await app.templates.start("bill")
            for run in (first, second, third):
                await run.result(30)
            shown = {each.id: each async for each in app.templates.instances("bill")}
            versions = [(shown[run.id].template_version, *shown[run.id].step_states) for run in (first, second, third)]
            assert versions == [(1, "all", "old"), (1, "all", "old"), (2, "all", "new")]

    asyncio.run(main())


def test_starts_over_a_cap_are_queued_in_order_and_none_is_lost(url: str) -> None:
    """They go on when the template is archived meanwhile, as instances that run do."""

    async def main() -> None:
        async with Holdfast(url) as app:
            await ground.offered(app, "line", {"x": []}, caps=TemplateCaps(max_concurrency=1))
            ground.hold("x")
            runs = [await app.templates.start("line", id=f"run {number}", by="admin") for number in range(4)]
            await ground.begun["x"].wait()
            states = [(await app.templates.instance(run.id)).status for run in runs]
            assert states == ["running", "queued", "queued", "queued"]
            assert [each.id async for each in app.templates.instances("line", state="running")] == ["run 0"]
            await app.templates.archive("line", by="god")
            ground.release("x")
            for run in runs:
                await run.result(30)
            actions = [each.instance for each in await ground.story(app) if each.action == "start_workflow"]
            assert actions == [run.id for run in runs]

    asyncio.run(main())


async def test_a_rate_lets_the_next_begin_a_minute_later(holdfast_app: Holdfast) -> None:
    app = holdfast_app
    await ground.offered(app, "line", {"x": []}, caps=TemplateCaps(max_runs_per_min=2))
    runs = [await app.templates.start("line", by="admin") for _ in range(5)]
    begun = app.clock.now()
    for run in runs:
        await run.result(600)
    minutes = [(row.begun_at or 0) - begun for row in await app.store.get([run.key for run in runs])]
    assert sorted(round(each / 60e6, 3) for each in minutes) == [0, 0, 1, 1, 2]


async def test_a_tenants_quota_and_a_workspaces_limit_hold_for_instances(holdfast_app: Holdfast) -> None:
    """Set by people, they are read by the next claim; taken away, what waits begins."""
    app = holdfast_app
    await app.tenants.create("acme", limits=TenantQuota(max_concurrency=2))
    await app.workspaces.create("north", tenant="acme")
    await app.workspaces.limit("north", max_concurrency=1, tenant="acme", by="root")
    await app.templates.create("line", source=ground.graph({"x": []}, name="line"), tenant="acme")
    await app.templates.activate("line", tenant="acme")
    ground.hold("x")
    for run, workspace in (("n1", "north"), ("n2", "north"), ("s1", ""), ("s2", "")):
        await app.templates.start("line", id=run, workspace=workspace, tenant="acme")
    await asyncio.sleep(5)

    async def running() -> set[str]:
        return {each.id async for each in app.templates.instances("line", state="running", tenant="acme")}

    assert await running() == {"n1", "s1"}
    await app.tenants.change("acme", limits=TenantQuota())
    await asyncio.sleep(5)
    assert await running() == {"n1", "s1", "s2"}
    await app.workspaces.limit("north", tenant="acme", by="root")
    await asyncio.sleep(5)
    assert await running() == {"n1", "n2", "s1", "s2"}
    ground.release("x")


async def test_a_page_of_instances_compiles_their_definition_once(holdfast_app: Holdfast) -> None:
    """However often it is looked at; another version is compiled for itself."""
    app = holdfast_app
    await ground.offered(app, "line", {"x": []})
    for _ in range(3):
        await (await app.templates.start("line", by="admin")).result(60)
    compiled.cache_clear()
    for _ in range(2):
        shown = [each async for each in app.templates.instances("line")]
        assert [each.step_states for each in shown] == [{"all": "success", "x": "success"}] * 3
    assert compiled.cache_info().misses == 1
    await app.templates.new_version("line", source=ground.graph({"z": []}, name="line_graph", version=2))
    await (await app.templates.start("line", by="admin")).result(60)
    assert [list(each.step_states) async for each in app.templates.instances("line")] == [
        ["all", "z"],
        *[["all", "x"]] * 3,
    ]
    assert compiled.cache_info().misses == 2


@pytest.mark.parametrize("several", [1, 20])
def test_a_plain_start_keeps_to_a_cap_from_its_commit_on(url: str, several: int) -> None:
    """The worker has not claimed since, and knows nothing of the cap: not one run begins that it does not allow."""

    async def main() -> None:
        async with Holdfast(url, workflows=[greeting]) as app:
            await app.tenants.create("acme")
            await (await app.start(greeting, tenant="acme")).result(30)
            assert app.worker is not None
            await app.worker.claimer.stop()  # it does not look again before the runs are started
            await app.tenants.change("acme", limits=TenantQuota(max_concurrency=0))
            assert not app.worker.claimer.limited
            runs = await asyncio.gather(
                *(app.start(greeting, id=f"run {number}", tenant="acme") for number in range(several))
            )
            assert [(await run.info()).status for run in runs] == ["queued"] * several
            assert (await (await app.start(greeting, tenant="bolt")).result(30)) == "hello you"
            app.worker.claimer.start()
            await app.tenants.change("acme", limits=TenantQuota())
            assert [await run.result(30) for run in runs] == ["hello you"] * several

    asyncio.run(main())


async def test_steps_show_how_they_stand(holdfast_app: Holdfast) -> None:
    """Pending until what they need is done, retrying until the retry's time, as they were once it is cancelled."""
    app = holdfast_app
    await ground.offered(app, "line", {"x": [], "y": ["x"], "w": []})
    ground.hold("w")
    ground.failures["x"] = 1
    run = await app.templates.start("line", id="one", by="admin")
    await ground.begun["w"].wait()
    await asyncio.sleep(0.5)
    shown = await app.templates.instance("one")
    assert (shown.status, shown.result, shown.started_by) == ("running", "in_progress", "admin")
    assert shown.step_states == {"all": "running", "w": "running", "x": "retrying", "y": "pending"}
    assert shown.retry_counts == {"all": 0, "w": 0, "x": 1, "y": 0}
    assert {step.name: step.needs for step in shown.steps} == {"all": (), "w": (), "x": (), "y": ("x",)}
    await asyncio.sleep(1)
    stood = {"all": "running", "w": "running", "x": "success", "y": "success"}
    assert (await app.templates.instance("one")).step_states == stood
    await run.cancel("enough", by="admin")
    assert (await app.templates.instance("one")).status == "cancelled"
    with pytest.raises(RunCancelled):
        await run.result(60)
    over = await app.templates.instance("one")
    assert (over.status, over.result) == ("cancelled", "cancelled")
    assert over.step_states == stood


async def test_what_a_failed_step_needs_stays_pending_and_what_is_passed_over_is_skipped(
    holdfast_app: Holdfast,
) -> None:
    app = holdfast_app
    await ground.offered(app, "line", {"x": [], "y": ["x"], "w": []}, attempts=1)
    ground.failures["x"] = 1
    failed = await app.templates.start("line", id="failed")
    with pytest.raises(RunFailed):
        await failed.result(60)
    shown = await app.templates.instance("failed")
    assert (shown.status, shown.result) == ("failed", "failure")
    assert shown.step_states == {"all": "failed", "w": "success", "x": "failed", "y": "pending"}
    chosen = {
        "holdfast": "definition/1",
        "name": "chosen",
        "version": 1,
        "steps": [
            {"never": {"step": "ground.work", "when": "=1 > 2"}},
            {"refused": {"step": "ground.refuse", "on": {"failure": []}}},
            {"twice": {"repeat": {"times": 2}, "do": [{"again": {"step": "ground.work"}}]}},
            {"which": {"switch": [{"when": "=1 > 2", "do": [{"other": {"step": "ground.work"}}]}]}},
        ],
    }
    await app.templates.create("chosen", source=chosen)
    await app.templates.activate("chosen")
    await (await app.templates.start("chosen", id="passed")).result(60)
    shown = await app.templates.instance("passed")
    assert shown.step_states == {
        "never": "skipped",
        "refused": "skipped",
        "twice": "success",
        "again": "success",
        "which": "success",
        "other": "skipped",
        "again#2": "success",
    }


async def test_an_instance_of_a_python_workflow_shows_the_steps_that_it_has_begun(holdfast_app: Holdfast) -> None:
    app = holdfast_app
    await app.templates.create("greet", "greeting")
    await app.templates.activate("greet")
    run = await app.templates.start("greet", {"often": 2}, id="one")
    assert await run.result(60) == "hello you"
    shown = await app.templates.instance("one")
    assert shown.step_states == {"ground.work": "success", "ground.work#2": "success"}
    plain = await app.start(greeting)
    with pytest.raises(TemplateNotFound, match="not started by a template"):
        await app.templates.instance(plain.id)


async def test_what_cannot_be_meant_is_refused_with_what_to_do(holdfast_app: Holdfast) -> None:
    templates = holdfast_app.templates
    wrong: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (InvalidRequest, "needs a program", {}),
        (WorkflowUnknown, "publish the definition", {"program": "missing@2"}),
        (WorkflowUnknown, "import the module", {"program": "missing"}),
        (InvalidRequest, "not both", {"program": greeting, "source": ground.graph({"x": []})}),
        (InvalidRequest, "manual, scheduled, event", {"program": greeting, "trigger": "other"}),
        (InvalidRequest, "needs route=", {"program": greeting, "trigger": "event"}),
        (InvalidRequest, "the trigger is manual", {"program": greeting, "trigger": "manual", "route": EventRoute("e")}),
        (InvalidRequest, "filter", {"program": greeting, "route": EventRoute("e", "event.nothing > 1")}),
        (InvalidRequest, "filter", {"program": greeting, "route": EventRoute("e", "event.data.x >")}),
        (InvalidRequest, "input", {"program": greeting, "route": EventRoute("e", "", "other.data")}),
        (InvalidRequest, "is a name", {"program": greeting, "route": EventRoute("")}),
        (InvalidRequest, "caps are", {"program": greeting, "caps": TemplateCaps(-1)}),
        (InvalidRequest, "plain JSON", {"program": greeting, "input": object()}),
        (InvalidRequest, "name is empty", {"program": greeting, "name": " "}),
    ]
    for error, text, said in wrong:
        with pytest.raises(error, match=text):
            await templates.create("wrong", **said)
    with pytest.raises(InvalidRequest, match="id"):
        await templates.create("a~b", greeting)
    with pytest.raises(TemplateNotFound, match="'wrong'"):
        await templates.show("wrong")
    await templates.create("greet", greeting)
    with pytest.raises(TemplateConflict, match=r"exists .* and is draft"):
        await templates.create("greet", greeting)
    await templates.activate("greet")
    with pytest.raises(InvalidArguments):
        await templates.start("greet", {"often": "no"})
    with pytest.raises(InvalidRequest, match="'template' is for instances"):
        await holdfast_app.start(greeting, attributes={"template": "greet"})
    with pytest.raises(InvalidRequest, match="instance's state"):
        [each async for each in templates.instances("greet", state="lost")]
    with pytest.raises(InvalidRequest, match="template's status"):
        [each async for each in templates.list(status="lost")]  # type: ignore[arg-type]


async def test_a_start_is_held_against_the_form_of_its_definition(holdfast_app: Holdfast) -> None:
    """Nothing is started where the input does not fit."""
    document = ground.graph({"x": []}, name="bill")
    document["start"] = {"type": "object", "required": ["to"], "properties": {"to": {"type": "string"}}}
    await holdfast_app.templates.create("bill", source=document)
    await holdfast_app.templates.activate("bill")
    with pytest.raises(InvalidArguments, match="to"):
        await holdfast_app.templates.start("bill", {"other": 1})
    await (await holdfast_app.templates.start("bill", {"to": "Bo"})).result(60)


async def test_a_fork_is_no_instance(holdfast_app: Holdfast) -> None:
    """It is a run of its own: nobody started it by the template, and no cap of it counts."""
    app = holdfast_app
    await app.templates.create("greet", greeting)
    await app.templates.activate("greet")
    run = await app.templates.start("greet", id="one")
    await run.result(60)
    fork = await run.fork(2, by="admin")
    assert "template" not in (await fork.info()).attributes


async def test_a_retried_instance_goes_on(holdfast_app: Holdfast) -> None:
    """What it did before is told once, and what it does again with its generation."""
    app = holdfast_app
    await ground.offered(app, "line", {"x": [], "y": ["x"]}, attempts=1)
    ground.failures["y"] = 1
    run = await app.templates.start("line", id="one", by="admin")
    with pytest.raises(RunFailed):
        await run.result(60)
    await run.retry(by="admin")
    await run.result(60)
    assert (await app.templates.instance("one")).step_states == {"all": "success", "x": "success", "y": "success"}
    actions = [(each.action, each.step, each.generation) for each in await ground.story(app) if each.instance == "one"]
    assert actions[-7:] == [
        ("fail_workflow", None, 0),
        ("retry_workflow", None, 0),
        ("execute_step", "all", 1),
        ("execute_step", "y", 1),
        ("complete_step", "y", 1),
        ("complete_step", "all", 1),
        ("complete_workflow", None, 1),
    ]
    assert [each[:2] for each in actions].count(("execute_step", "x")) == 1


def test_templates_without_an_event_loop() -> None:
    with SyncHoldfast(MemoryStore()) as app:
        app.templates.create("greet", greeting, route=EventRoute("met", "", "{'name': event.data.who}"), by="god")
        app.templates.activate("greet", by="god")
        assert app.templates.start("greet", {"name": "Bo"}).result(30) == "hello Bo"
        emitted = app.emit("met", {"who": "Al"}, id="e1")
        assert app.run(emitted.started[0]).result(30) == "hello Al"
        assert len(list(app.templates.instances("greet"))) == 2
        assert next(iter(app.audit.export())).action == "create_template"
