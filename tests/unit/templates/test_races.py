"""What was judged must still hold in the commit: of a template that was changed meanwhile, nothing is started."""

from __future__ import annotations

import pytest

from holdfast import Holdfast, Trigger
from holdfast.client.templates.instance_starter import InstanceStarter
from holdfast.errors import RunNotFound
from holdfast.store import protocol as p
from holdfast.templates.template import TEMPLATE
from tests.unit.templates import ground


async def test_a_start_that_was_judged_before_a_pause_is_judged_again(holdfast_app: Holdfast) -> None:
    """Nothing is started, and nothing is noted."""
    app = holdfast_app
    await ground.offered(app, "line", {"x": []})
    row = await app.store.item(p.ItemKey("default", TEMPLATE, "line"))
    assert row is not None
    starter = InstanceStarter(app)
    start = await starter.prepare(row, None, "one", Trigger("manual", "line"), "", "ann")
    await app.templates.pause("line", by="god")
    assert await starter.commit(row, start, "ann") == "again"
    with pytest.raises(RunNotFound):
        await app.run("one").info()
    assert [action.action for action in await ground.story(app)][-1] == "pause_template"
