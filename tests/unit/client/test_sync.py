"""The client without ``await``."""

from __future__ import annotations

import asyncio
import inspect
import threading
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from holdfast import RunFailed, receive, step, workflow
from holdfast.client.sync.engine import SyncHoldfast
from holdfast.errors import InvalidRequest, RunEnded, RunNotFound, UnsupportedStore


@step(name="sync_double")
async def double(number: int) -> int:
    return 2 * number


@workflow(name="sync_sum")
async def total(number: int) -> int:
    more: int = await receive("more", int)
    return await double(number) + more


@workflow(name="sync_failing")
async def failing() -> None:
    raise ValueError("no")


def test_a_run_is_started_signalled_and_awaited_without_a_loop() -> None:
    """What the async client can do, the sync one can, through the same code."""
    with SyncHoldfast("memory://", workflows=[total, failing]) as app:
        run = app.start(total, 4, id="one", attributes={"customer": "7"})
        run.signal("more", 1)
        assert run.result(timeout=60) == 9
        assert (run.id, run.tenant, run.status(), run.info().workflow) == ("one", "default", "completed", "sync_sum")
        assert "completed" in run.explain()
        assert run.verify().good
        assert [entry.event for entry in run.journal()][-1] == "ExecutionCompleted"
        assert list(run.tail()) == list(run.journal())
        assert [found.id for found in app.list(attributes={"customer": "7"})] == ["one"]
        assert list(run.children()) == []


def test_errors_come_out_as_they_are() -> None:
    """No wrapper hides what went wrong."""
    with SyncHoldfast("memory://", workflows=[total, failing]) as app:
        run = app.start(failing, id="two")
        with pytest.raises(RunFailed, match="ValueError: no"):
            run.result()
        with pytest.raises(RunEnded):
            run.cancel()
        with pytest.raises(RunNotFound):
            app.run("nope").status()
        run.retry()
        with pytest.raises(RunFailed):
            run.result()


def test_pause_resume_cancel_and_fork_reach_the_run() -> None:
    """Steering works on a run that waits."""
    with SyncHoldfast("memory://", worker=False) as app:
        run = app.start(total, 1)
        run.pause("a while")
        assert run.info().pause_reason == "paused by request: a while"
        run.resume()
        assert run.status() == "queued"
        assert run.fork(1, id="twin").id == "twin"
        run.cancel()
        with pytest.raises(TimeoutError):
            run.result(timeout=0.01)


def test_it_works_where_a_loop_is_already_running() -> None:
    """A notebook's cell runs inside a loop; that must not matter."""

    async def cell() -> int:
        with SyncHoldfast("memory://", workflows=[total]) as app:
            run = app.start(total, 4)
            run.signal("more", 2)
            return run.result(timeout=60)

    assert asyncio.run(cell()) == 10


def test_several_threads_may_share_one() -> None:
    """A web framework calls from its own threads."""
    results: list[int] = []
    with SyncHoldfast("memory://", workflows=[total]) as app:

        def serve(number: int) -> None:
            run = app.start(total, number)
            run.signal("more", 0)
            results.append(run.result(timeout=60))

        threads = [threading.Thread(target=serve, args=(number,)) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(results) == [0, 2, 4, 6, 8]


def test_it_opens_and_closes_twice_without_harm_and_leaves_no_thread(tmp_path: Path) -> None:
    """Closing gives everything back; a failed opening, too."""
    app = SyncHoldfast(f"sqlite:///{tmp_path / 'sync.db'}", worker=False)
    app.close()
    app.open()
    app.open()
    app.close()
    app.close()
    with pytest.raises(InvalidRequest, match="not open"):
        app.run("one")
    with pytest.raises(UnsupportedStore):
        SyncHoldfast(f"sqlite:///{tmp_path / 'none.db'}").open(migrate=False)
    with pytest.raises(UnsupportedStore):
        SyncHoldfast("nothing://").open()
    assert not [thread for thread in threading.enumerate() if thread.name == "holdfast-sync"]


def test_the_engines_own_thread_is_refused_instead_of_hanging() -> None:
    """A step that waits for its own engine would wait for ever."""

    @step(name="sync_reentrant")
    async def reentrant() -> str:
        return app.run("one").status()

    @workflow(name="sync_caller")
    async def caller() -> str:
        return await reentrant()

    app = SyncHoldfast("memory://", workflows=[caller])
    with app, pytest.raises(RunFailed, match="would wait for itself"):
        app.start(caller, id="one").result(timeout=60)


def test_what_outlives_the_client_is_refused_and_does_no_harm() -> None:
    """A handle or a half-read listing that is kept past the end says so, or ends quietly."""
    with SyncHoldfast("memory://", worker=False) as app:
        run = app.start(total, 1)
        app.start(total, 2)
        listing = app.list()
        next(listing)
    listing.close()
    with pytest.raises(InvalidRequest, match="closed"):
        run.status()


def test_closing_lets_go_of_a_thread_that_waits_for_a_result() -> None:
    """Nobody waits for ever for an engine that is gone."""
    ended: list[BaseException] = []
    waiting = threading.Event()
    app = SyncHoldfast("memory://", worker=False)
    app.open()
    run = app.start(total, 1)

    def wait() -> None:
        waiting.set()
        try:
            run.result()
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait(60)
    app.close()
    thread.join(60)
    assert not thread.is_alive()
    assert isinstance(ended[0], (CancelledError, InvalidRequest))


def test_every_part_has_every_operation_of_its_asynchronous_one() -> None:
    """A method that is added to one is missed in the other here."""
    with SyncHoldfast("memory://", worker=False) as app:
        app.tenants.create("default", by="root")
        app.users.create("ann", level=2, by="root")
        assert app.slack.map("U0001", "ann", by="root").user == "ann"
        assert app.slack.use("C0001", by="root").channel == "C0001"
        assert [each.account for each in app.slack.show().accounts] == ["U0001"]
        assert app.slack.unmap("U0001", by="root").user is None
        names = [name for name, member in inspect.getmembers(type(app)) if isinstance(member, property)]
        parts = [part for name in names if hasattr(part := getattr(app, name), "_part")]
        assert len(parts) >= 13
        for part in parts:
            kind = type(part._part)
            wanted = {name for name, method in inspect.getmembers(kind) if hasattr(method, "operation")} - {"give"}
            assert {name for name in wanted if not hasattr(part, name)} == set(), kind.__name__
