"""Instances of a template in pages: none twice, none left out."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Holdfast, SyncHoldfast
from holdfast.errors import InvalidRequest, RunCancelled, TemplateNotFound
from holdfast.store.memory import MemoryStore
from holdfast.templates.template import TemplateCaps
from tests.unit.templates import ground


@pytest.fixture(autouse=True)
def nothing_is_held() -> None:
    ground.failures.clear()
    ground.held.clear()


def test_instances_are_read_in_pages(url: str) -> None:
    """No instance is shown twice or left out, in whatever state; the pages are the list."""

    async def main() -> None:
        async with Holdfast(url) as app:
            await ground.offered(app, "line", {"x": []}, caps=TemplateCaps(max_concurrency=2))
            ground.hold("x")
            for number in range(5):
                await app.templates.start("line", id=f"run {number}", by="admin")
            await ground.begun["x"].wait()
            whole = [each.id async for each in app.templates.instances("line")]
            assert sorted(whole) == [f"run {number}" for number in range(5)]
            pages = [await app.templates.instances_page("line", limit=2)]
            while pages[-1].next is not None:
                pages.append(await app.templates.instances_page("line", limit=2, after=pages[-1].next))
            assert [len(page.items) for page in pages] == [2, 2, 1]
            assert [each.id for page in pages for each in page.items] == whole
            rest = [each.id async for each in app.templates.instances("line", limit=2, after=pages[0].next)]
            assert rest == whole[2:4]
            queued = await app.templates.instances_page("line", state="queued", limit=10)
            assert ([each.status for each in queued.items], queued.next) == (["queued"] * 3, None)
            with pytest.raises(InvalidRequest, match="one item at least"):
                await app.templates.instances_page("line", limit=0)
            with pytest.raises(TemplateNotFound):
                await app.templates.instances_page("other")
            ground.release("x")

    asyncio.run(main())


def test_an_instance_that_is_cancelled_in_the_queue_is_found_as_cancelled(url: str) -> None:
    """From the request on, although it still waits for its place; and by no other state."""

    async def main() -> None:
        async with Holdfast(url) as app:
            await ground.offered(app, "line", {"x": []}, caps=TemplateCaps(max_concurrency=1))
            ground.hold("x")
            runs = [await app.templates.start("line", id=f"run {number}", by="admin") for number in range(3)]
            await ground.begun["x"].wait()
            await runs[1].cancel("not needed", by="admin")
            found = {
                state: [each.id async for each in app.templates.instances("line", state=state)]
                for state in ("queued", "running", "cancelled")
            }
            assert found == {"queued": ["run 2"], "running": ["run 0"], "cancelled": ["run 1"]}
            ground.release("x")
            for run in (runs[0], runs[2]):
                await run.result(30)
            with pytest.raises(RunCancelled):
                await runs[1].result(30)

    asyncio.run(main())


def test_pages_without_an_event_loop() -> None:
    """The same for code that does not wait."""
    with SyncHoldfast(MemoryStore(), worker=False) as app:
        app.definitions.publish(ground.graph({"x": []}, name="bill"))
        app.templates.create("bill", "bill", by="god")
        app.templates.activate("bill", by="god")
        for name in ("one", "two"):
            app.templates.start("bill", id=name)
        page = app.templates.instances_page("bill", limit=1)
        rest = [each.id for each in app.templates.instances("bill", after=page.next)]
        assert sorted([page.items[0].id, *rest]) == ["one", "two"]
