"""Events: each template that hears one starts an instance, once for each event id, whatever dies in between."""

from __future__ import annotations

import asyncio
from time import process_time
from typing import Any

import pytest

from holdfast import Holdfast, workflow
from holdfast.client.operators import operator_note
from holdfast.client.templates.emitter import FINISH_SECONDS
from holdfast.errors import EventConflict, InvalidRequest
from holdfast.runs.birth import Trigger
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.templates.routes import EVENT
from holdfast.templates.template import EventRoute
from tests.unit.templates import ground
from tests.unit.worker.ground import Line


@workflow
async def heard(total: float = 0.0, who: str = "") -> str:
    return f"{who} {total}"


async def listening(app: Holdfast, id: str, filter: str = "", input: str = "event.data") -> None:
    await app.templates.create(id, heard, route=EventRoute("order.paid", filter, input), by="god")
    await app.templates.activate(id, by="god")


def test_an_event_starts_an_instance_of_each_template_that_hears_it(url: str) -> None:
    """By name and filter, with the input that the route makes; emitted again it starts nothing."""

    async def main() -> None:
        async with Holdfast(url) as app:
            await listening(app, "large", "event.data.total > 100.0", '{"who": event.id, "total": event.data.total}')
            await listening(app, "all")
            order: dict[str, Any] = {"total": 250.0, "who": "Bo"}
            emitted = await app.emit("order.paid", order, id="e~1", workspace="north", by="admin")
            assert sorted(each.template for each in emitted.starts) == ["all", "large"]
            assert (emitted.heard, emitted.repeated, emitted.problems) == (True, False, {})
            results = {each.template: await app.run(each.run).result(30) for each in emitted.starts}
            assert results == {"all": "Bo 250.0", "large": "e~1 250.0"}
            info = await app.run(emitted.started[0]).info()
            assert info.trigger is not None
            assert (info.trigger.type, info.trigger.ref, info.actor, info.workspace) == (
                "event",
                "e~1",
                "admin",
                "north",
            )
            again = await app.emit("order.paid", order, id="e~1", by="admin")
            assert (again.repeated, again.started) == (True, emitted.started)
            small = await app.emit("order.paid", {"total": 1.0}, id="e2")
            assert [each.template for each in small.starts] == ["all"]
            with pytest.raises(EventConflict, match="e2"):
                await app.emit("order.paid", {"total": 2.0}, id="e2")
            assert len([run async for run in app.list()]) == 3

    asyncio.run(main())


async def test_an_event_that_nobody_hears_is_said_to_be_unheard(holdfast_app: Holdfast) -> None:
    """And is remembered: a template that is made later does not hear it."""
    app = holdfast_app
    assert not (await app.emit("order.paid", {}, id="e1")).heard
    await listening(app, "all")
    again = await app.emit("order.paid", {}, id="e1")
    assert (again.heard, again.repeated) == (False, True)
    await app.templates.pause("all")
    assert not (await app.emit("order.paid", {}, id="e2")).heard
    await app.templates.resume("all")
    assert (await app.emit("order.paid", {}, id="e3")).heard
    assert not (await app.emit("order.lost", {}, id="e4")).heard
    for name, id in (("", "e"), ("order", ""), ("order", "x" * 201), ("order", "a\n")):
        with pytest.raises(InvalidRequest, match="printable"):
            await app.emit(name, {}, id=id)


@pytest.mark.long
async def test_a_route_that_takes_too_long_starts_nothing_and_the_others_do(holdfast_app: Holdfast) -> None:
    """It is ended after its processor time, in another process."""
    app = holdfast_app
    await listening(app, "long", "event.data.l.all(x, !event.data.s.contains(event.data.t))")
    await listening(app, "good", "", '{"who": "Bo"}')
    heavy = {"l": list(range(1_900)), "s": "a" * 600_000, "t": "a" * 300_000 + "b"}
    began = process_time()
    emitted = await app.emit("order.paid", heavy, id="e1")
    assert process_time() - began < 1
    assert [each.template for each in emitted.starts if not each.problem] == ["good"]
    assert "takes too long, or too much memory" in emitted.problems["long"]


async def test_a_route_that_fails_for_an_event_says_why(holdfast_app: Holdfast) -> None:
    """The others start all the same, and nothing is tried again for ever."""
    app = holdfast_app
    await listening(app, "careless", "event.data.missing > 1.0")
    await listening(app, "misfit", "", '{"who": 5}')
    await listening(app, "good")
    emitted = await app.emit("order.paid", {"total": 1.0}, id="e1")
    assert [each.template for each in emitted.starts if not each.problem] == ["good"]
    assert set(emitted.problems) == {"careless", "misfit"}
    assert "missing" in emitted.problems["careless"]
    assert (await app.emit("order.paid", {"total": 1.0}, id="e1")).problems == emitted.problems


class _DyingLine(Line):
    """A way to a store on which only so many commits get through."""

    def __init__(self, store: p.Store, commits: int, *, answers: bool) -> None:
        super().__init__(store)
        self._left = commits
        self._answers = answers

    async def commit(self, batch: Any) -> Any:
        if self._left == 0:
            self.dead = True
        self._left -= 1
        await self._pass()
        answer = await self._store.commit(batch)
        if self._left == 0 and not self._answers:
            self.dead = True
        await self._pass()
        return answer


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("answers", [True, False])
def test_what_a_crash_left_undone_is_done_by_the_next_emit(count: int, answers: bool) -> None:
    """The process dies before or after each of its commits: then each template has started one instance."""

    async def main() -> None:
        for commits in range(count + 3):
            store = MemoryStore()
            async with Holdfast(store, worker=False) as app:
                for number in range(count):
                    await listening(app, f"t{number}")
                line = _DyingLine(store, commits, answers=answers)
                other = Holdfast(line, worker=False)  # type: ignore[arg-type]  # every operation is forwarded by name
                await other.open()
                dying = asyncio.ensure_future(other.emit("order.paid", {"total": 1.0}, id="e1", by="admin"))
                while not (dying.done() or line.dead):  # noqa: ASYNC110  # it tells nobody
                    await asyncio.sleep(0)
                emitted = await app.emit("order.paid", {"total": 1.0}, id="e1", by="admin")
                assert sorted(emitted.started) == sorted([run.id async for run in app.list()])
                assert len(emitted.started) == count
                starts = [
                    entry async for entry in app.audit.list() if (entry.record or {}).get("act") == "start_workflow"
                ]
                assert len(starts) == count
                dying.cancel()
                await asyncio.wait({dying})

    asyncio.run(main())


@pytest.mark.parametrize("commits", [1, 2, 3])
@pytest.mark.parametrize("answers", [True, False])
async def test_what_a_crash_left_undone_is_done_by_a_worker(
    commits: int, answers: bool, holdfast_app: Holdfast
) -> None:
    """Some time after it was accepted, once, in the name of whoever emitted it; nobody needs to emit it again."""
    app = holdfast_app
    for number in range(3):
        await listening(app, f"t{number}", input='{"who": event.data.who, "total": 1.0}')
    line = _DyingLine(app.store, commits, answers=answers)
    other = Holdfast(line, worker=False, clock=app.clock)  # type: ignore[arg-type]  # forwarded by name
    await other.open()
    emitting = other.emit("order.paid", {"who": "Bo"}, id="e1", workspace="north", by="admin")
    dying = asyncio.ensure_future(emitting)
    await asyncio.wait({dying}, timeout=5)
    assert not dying.done()
    before = [run.id async for run in app.list()]
    assert len(before) == commits - 1
    await asyncio.sleep(FINISH_SECONDS + 10)
    runs = [run async for run in app.list()]
    assert [(run.actor, run.workspace, run.status) for run in runs] == [("admin", "north", "completed")] * 3
    row = await app.store.item(p.ItemKey("default", "event", "e1"))
    assert row is not None
    assert (row.status, row.due_at, b"Bo" in row.body) == ("done", None, False)
    again = await app.emit("order.paid", {"who": "Bo"}, id="e1", by="admin")
    assert (again.repeated, len(again.started), len([run async for run in app.list()])) == (True, 3, 3)
    dying.cancel()
    await asyncio.wait({dying})


async def test_an_event_of_somebody_who_was_demoted_is_not_finished_in_their_name(holdfast_app: Holdfast) -> None:
    """What was started before stays; the rest says why it was not started, and the event is done."""
    app = holdfast_app
    await app.tenants.create("default")
    await app.users.create("admin", level=4)
    for number in range(3):
        await listening(app, f"t{number}")
    line = _DyingLine(app.store, 2, answers=True)
    other = Holdfast(line, worker=False, clock=app.clock)  # type: ignore[arg-type]  # forwarded by name
    await other.open()
    dying = asyncio.ensure_future(other.emit("order.paid", {"total": 1.0}, id="e1", by="admin"))
    await asyncio.wait({dying}, timeout=5)
    await app.users.set_level("admin", 3)
    await asyncio.sleep(FINISH_SECONDS + 10)
    assert len([run async for run in app.list()]) == 1
    again = await app.emit("order.paid", {"total": 1.0}, id="e1", by="god")
    assert (len(again.started), len(again.problems)) == (1, 2)
    assert all("admin has level 3" in problem for problem in again.problems.values())
    dying.cancel()
    await asyncio.wait({dying})


async def test_an_open_event_that_cannot_be_read_keeps_no_other_waiting(holdfast_app: Holdfast) -> None:
    app = holdfast_app
    await listening(app, "t1")
    await listening(app, "t2")
    now = app.clock.now()
    note = operator_note(app, "default", "accept_event", "admin", None)
    put = p.PutItem(p.ItemRow("default", "event", "altered", 1, b"{", "open", now + 1, now))
    await app.committer.commit(p.Operate(note, (put,)))
    line = _DyingLine(app.store, 1, answers=True)
    other = Holdfast(line, worker=False, clock=app.clock)  # type: ignore[arg-type]  # forwarded by name
    await other.open()
    dying = asyncio.ensure_future(other.emit("order.paid", {"total": 1.0}, id="e1", by="admin"))
    await asyncio.sleep(FINISH_SECONDS + 10)
    assert len([run async for run in app.list()]) == 2
    dying.cancel()
    await asyncio.wait({dying})


async def test_templates_and_events_with_colons_are_told_apart(holdfast_app: Holdfast) -> None:
    """Each template and each event has an instance of its own, however their names are put together."""
    app = holdfast_app
    for id in ("a", "a:event:b"):
        await listening(app, id, f"event.data.who == '{id}'")
    first = await app.emit("order.paid", {"who": "a"}, id="b:event:c")
    second = await app.emit("order.paid", {"who": "a:event:b"}, id="c")
    assert (len(first.started), len(second.started), first.problems, second.problems) == (1, 1, {}, {})
    assert first.started != second.started


@pytest.mark.parametrize("count", [1, 2])
async def test_an_event_whose_runs_id_is_taken_says_so_and_is_done(holdfast_app: Holdfast, count: int) -> None:
    """By a run that is no instance of the template: emitting it again would change nothing."""
    app = holdfast_app
    for number in range(count):
        await listening(app, f"t{number}")
    await app.start(heard, id=Trigger(EVENT, "e1").run_id("t0"))
    first = await app.emit("order.paid", {"total": 1.0}, id="e1")
    again = await app.emit("order.paid", {"total": 1.0}, id="e1")
    assert (len(first.started), list(first.problems)) == (count - 1, ["t0"])
    assert (again.repeated, again.starts) == (True, first.starts)


async def test_two_who_emit_one_event_at_once_start_it_once(holdfast_app: Holdfast) -> None:
    app = holdfast_app
    for number in range(3):
        await listening(app, f"t{number}")
    several = await asyncio.gather(*(app.emit("order.paid", {"total": 1.0}, id="e1") for _ in range(4)))
    assert len({each.started for each in several}) == 1
    assert len([run async for run in app.list()]) == 3
    actions = [each.action for each in await ground.story(app)]
    assert actions.count("start_workflow") == 3
