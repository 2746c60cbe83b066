"""Templates against a plain model: whatever people do in whatever order, both allow and refuse the same.

The model is a dictionary of statuses and a list of instances in the order of their starts. Steps do not end before the
end of the test, so an instance that has begun is under way until it is cancelled.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Holdfast
from holdfast.errors import RunCancelled, RunEnded, TemplateConflict
from holdfast.templates.template import TRANSITIONS, TemplateCaps
from holdfast.testing.engine import virtual_engine
from holdfast.testing.virtual import run_virtually
from tests.scope import volume
from tests.unit.templates import ground

CAPS = {"a": 1, "b": 2, "c": None}
ACTS = ("activate", "pause", "resume", "archive", "new version", "start", "cancel")


class Deed(NamedTuple):
    act: str
    template: str
    instance: int


class Model:
    """What must come of it."""

    def __init__(self) -> None:
        self.status = dict.fromkeys(CAPS, "draft")
        self.started: list[tuple[str, str]] = []  # instance and template, in order
        self.cancelled: set[str] = set()

    def does(self, deed: Deed) -> bool:
        """Whether the deed is allowed; it is done then."""
        if deed.act == "start":
            allowed = self.status[deed.template] == "active"
            if allowed:
                self.started.append((f"run {len(self.started)}", deed.template))
            return allowed
        if deed.act == "cancel":
            chosen = self.chosen(deed)
            allowed = chosen is not None and chosen not in self.cancelled
            if chosen is not None:
                self.cancelled.add(chosen)
            return allowed
        place: Any = (self.status[deed.template], deed.act)
        if place not in TRANSITIONS:
            return False
        self.status[deed.template] = TRANSITIONS[place]
        return True

    def chosen(self, deed: Deed) -> str | None:
        return None if not self.started else self.started[deed.instance % len(self.started)][0]

    def states(self) -> dict[str, str]:
        """The state of each instance: those of a template begin in order, while its cap has a place."""
        found: dict[str, str] = {}
        for template, cap in CAPS.items():
            free = 10**9 if cap is None else cap
            for instance, _ in [each for each in self.started if each[1] == template]:
                if instance in self.cancelled:
                    found[instance] = "cancelled"
                    continue
                found[instance] = "running" if free > 0 else "queued"
                free -= 1
        return found


async def did(app: Holdfast, deed: Deed, model: Model) -> bool:
    """Do it on the engine, before the model does."""
    try:
        if deed.act == "start":
            await app.templates.start(deed.template, id=f"run {len(model.started)}", by="admin")
        elif deed.act == "cancel":
            chosen = model.chosen(deed)
            if chosen is None or chosen in model.cancelled:
                return False
            run = app.run(chosen)
            await run.cancel(by="admin")
        elif deed.act == "new version":
            await app.templates.new_version(deed.template, name="changed", by="god")
        else:
            await getattr(app.templates, deed.act)(deed.template, by="god")
    except (TemplateConflict, RunEnded):
        return False
    return True


async def settled(app: Holdfast) -> None:
    """Let the engine do all that it can now."""
    await asyncio.sleep(5)


async def play(deeds: list[Deed]) -> None:
    ground.failures.clear()
    ground.held.clear()
    for name in CAPS:
        ground.hold(name)
    model = Model()
    async with virtual_engine() as app:
        for name, cap in CAPS.items():
            caps = TemplateCaps(max_concurrency=cap)
            await app.templates.create(name, source=ground.graph({name: []}, name=f"{name}_graph"), caps=caps, by="god")
        for deed in deeds:
            was_done = await did(app, deed, model)
            assert model.does(deed) == was_done, deed
            await settled(app)
            shown = {each.id: each.status for name in CAPS async for each in app.templates.instances(name)}
            assert shown == model.states()
        for name in list(ground.held):
            ground.release(name)
        for instance, _ in model.started:
            try:
                await app.run(instance).result(600)
                assert instance not in model.cancelled
            except RunCancelled:
                assert instance in model.cancelled
        await judged(app, model)


async def judged(app: Holdfast, model: Model) -> None:
    """The story tells every instance from its start to its end, in the order in which each template started them."""
    story = await ground.story(app)
    for name in CAPS:
        started = [each.instance for each in story if each.action == "start_workflow" and each.template == name]
        assert sorted(started) == sorted(instance for instance, template in model.started if template == name)
    ends = {each.instance: each.action for each in story if each.action in ("complete_workflow", "cancel_workflow")}
    expected = {
        instance: "cancel_workflow" if instance in model.cancelled else "complete_workflow"
        for instance, _ in model.started
    }
    assert ends == expected


deeds = st.lists(st.builds(Deed, st.sampled_from(ACTS), st.sampled_from(sorted(CAPS)), st.integers(0, 9)), max_size=14)
prologue = [Deed("activate", name, 0) for name in CAPS]


@settings(max_examples=volume(20, 40), deadline=None)
@given(deeds, st.booleans())
def test_templates_do_as_a_plain_model_does(given_deeds: list[Deed], activated: bool) -> None:
    """Pauses, archives, starts, cancellations and caps in any order: no start is lost, and none begins over a cap."""
    run_virtually(play(prologue * activated + given_deeds))
