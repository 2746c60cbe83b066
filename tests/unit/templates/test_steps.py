"""The steps of instances: every node of the definition, with what it needs and how it stands."""

from __future__ import annotations

from holdfast import Holdfast
from holdfast.programs.definition.compiler.compiler import compile_text
from holdfast.templates.steps import steps_of
from tests.unit.templates import ground

HEAD = "holdfast: definition/1\nname: kinds\nversion: 1\n"
KINDS = f"""\
{HEAD}tasks: {{t: {{title: t, form: {{type: object}}}}}}
state: {{x: {{type: integer}}}}
steps:
  - zero: {{set: {{state.x: 0}}}}
  - g:
      graph:
        ask: {{task: t}}
        sig: {{wait: s}}
        nap: {{sleep: 2s}}
        off: {{when: =state.x > 0, wait: never}}
        put: {{set: {{state.x: 1}}}}
        rep: {{needs: [put], repeat: {{times: 2}}, do: [{{inner: {{set: {{local.y: 1}}}}}}]}}
        last: {{needs: [ask, sig, nap, off, rep], step: ground.work}}
  - way:
      switch:
        - {{when: =state.x > 5, do: [{{never: {{set: {{state.x: 9}}}}}}]}}
        - {{else: [{{mild: {{set: {{state.x: 2}}}}}}]}}
  - race: {{pick: {{paid: {{wait: paid}}, late: {{sleep: 1h}}}}}}
  - risky: {{raise: {{code: NO}}, on: {{failure: [{{mend: {{set: {{state.x: 3}}}}}}]}}}}
  - done: {{end: =state.x}}
"""


def test_every_node_is_a_step_and_needs_what_stands_before_it() -> None:
    """By their own names, once each: what is inside a node needs what that node needs."""
    graph = ("ask", "sig", "nap", "off", "rep")
    found = dict(steps_of(compile_text(KINDS).definition))
    assert {name: tuple(sorted(needs)) for name, needs in found.items()} == {
        "zero": (),
        **dict.fromkeys(("g", "ask", "sig", "nap", "off", "put"), ("zero",)),
        "rep": ("put",),
        "inner": ("put",),
        "last": tuple(sorted(graph)),
        **dict.fromkeys(("way", "never", "mild"), ("g",)),
        **dict.fromkeys(("race", "paid", "late"), ("way",)),
        **dict.fromkeys(("risky", "mend"), ("race",)),
        "done": ("risky",),
    }


async def test_an_instance_shows_where_each_node_stands(holdfast_app: Holdfast) -> None:
    app = holdfast_app
    await app.templates.create("kinds", source=KINDS, by="god")
    await app.templates.activate("kinds", by="god")
    run = await app.templates.start("kinds", id="one", by="admin")
    await run.settled(60)
    instance = await app.templates.instance("one")
    waiting = {"g": "running", "ask": "running", "sig": "running", "nap": "running"}
    over = {"zero": "success", "put": "success", "rep": "success", "inner": "success", "inner#2": "success"}
    later = ("last", "way", "never", "mild", "race", "paid", "late", "risky", "mend", "done")
    assert instance.step_states == waiting | over | {"off": "skipped"} | dict.fromkeys(later, "pending")
    assert all(step.since is not None for step in instance.steps if step.state in ("running", "success"))
    await run.signal("s")
    async for task in app.tasks.list(run="one"):
        await app.tasks.complete(task.id, {}, by="admin")
    await run.signal("paid")
    assert await run.result(60) == 3
    instance = await app.templates.instance("one")
    gone = {"off", "never", "late", "risky"}
    assert instance.step_states == {name: "skipped" if name in gone else "success" for name in instance.step_states}
    assert set(instance.step_states) == set(dict(steps_of(compile_text(KINDS).definition))) | {"inner#2"}


async def test_the_story_tells_of_every_node_after_what_it_needs(holdfast_app: Holdfast) -> None:
    """Waits, assignments, loops and choices too; a loser of a race and a node whose condition is false do nothing."""
    app = holdfast_app
    await app.templates.create("kinds", source=KINDS, by="god")
    await app.templates.activate("kinds", by="god")
    run = await app.templates.start("kinds", id="one", by="admin")
    await run.settled(60)
    for name in ("s", "paid"):
        await run.signal(name)
    async for task in app.tasks.list(run="one"):
        await app.tasks.complete(task.id, {}, by="admin")
    await run.result(60)
    story = [(each.action, each.step) for each in await ground.story(app) if each.instance == "one" and each.step]
    needs, met = dict(steps_of(compile_text(KINDS).definition)), {"off"}
    for action, name in story:
        assert name is not None
        if action == "execute_step":
            assert set(needs.get(name, ())) <= met, name
        else:
            assert action == ("fail_step" if name == "risky" else "complete_step")
            met.add(name)
    begun = [name for action, name in story if action == "execute_step"]
    assert sorted(begun) == sorted({*needs, "inner#2"} - {"off", "never"})
    assert [at for at, (_, name) in enumerate(story) if name == "late"] == [
        at for at, each in enumerate(story) if each == ("execute_step", "late")
    ]
