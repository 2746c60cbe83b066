"""Transport calls pass the whole gate: they are judged, approved, done once, receipted, and asked about."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cbor2
import pytest

from holdfast import RunFailed
from holdfast.audit import records as r
from holdfast.client.views.journal import entry_record, journal_entry
from holdfast.gate.effects import Effects
from holdfast.journal.error_classes import error_members
from holdfast.journal.payload import Payload
from holdfast.transports import table
from holdfast.transports.http import sender
from tests.unit.transports.governed import CONNECTORS, calling
from tests.unit.transports.server import Reply, Request, Server, data
from tests.unit.worker.ground import FREE, Ground, asked, asking, kill, notes, policy_of, receipts, until
from tests.unit.worker.paying import failure_of


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    """In real time: the server is real."""
    return Ground(tmp_path / "store.db")


@pytest.fixture(autouse=True)
def connectors(server: Server) -> Iterator[None]:
    CONNECTORS["bureau"] = {
        "base": server.url,
        "auth": {"bearer": "TOKEN"},
        "operations": {
            "report": {"get": "/r/{id}", "risk": "high"},
            "order": {"post": "/o"},
            "again": {"put": "/o/{id}", "safe_to_retry": True},
        },
    }
    yield
    CONNECTORS.clear()


def test_a_call_is_judged_approved_done_and_receipted(ground: Ground, server: Server) -> None:
    """By what it declares; people approve what is sent."""
    server.behaviour = lambda _: data({"id": 9})

    async def main(ground: Ground) -> None:
        policy = asking(when='action.connector == "127.0.0.1" && action.operation == "post" && action.writes')
        async with ground.engine(calling, policy=policy) as app:
            request = {"post": f"{server.url}/orders?x=1", "json": {"sum": 7}, "key": "order-7"}
            run = await app.start(calling, request, id="one", actor="ann")
            task = await asked(app, "one")
            assert not server.seen
            assert task.summary == f"http:127.0.0.1/post: 127.0.0.1 post on {server.url}/orders"
            assert cbor2.loads(task.details)["fields"]["json"] == {"sum": 7}
            await app.tasks.approve(task.id, by="bob")
            assert await run.result(60) == {"id": 9}
            (row,) = await receipts(app, "one")
            assert (row.state, row.key, row.risk, row.writes, row.target) == (
                "succeeded",
                "order-7",
                "med",
                True,
                f"{server.url}/orders",
            )

    ground.play(main)
    assert [request.headers["idempotency-key"] for request in server.seen] == ["order-7"]


@pytest.mark.parametrize(
    ("allowlist", "allowed"), [(["127.0.0.1/*"], True), (["127.0.0.1/get"], True), (["127.0.0.1/post", "a/*"], False)]
)
def test_the_policys_allowlist_is_one_of_hosts_and_methods(
    ground: Ground, server: Server, allowlist: list[str], allowed: bool
) -> None:
    """A request of its own has the host as connector, and the method as operation."""

    async def main(ground: Ground) -> None:
        async with ground.engine(calling, policy=policy_of({}, allowlist=allowlist)) as app:
            run = await app.start(calling, {"get": f"{server.url}/"}, id="one")
            if allowed:
                await run.result(60)
            else:
                with pytest.raises(RunFailed, match="allowlist"):
                    await run.result(60)

    ground.play(main)
    assert bool(server.seen) is allowed


def test_an_operation_is_judged_by_its_own_words(
    ground: Ground, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connector, its name and its risk."""
    monkeypatch.setenv("HOLDFAST_SECRET_TOKEN", "s3cret")
    when = 'action.connector == "bureau" && action.operation == "report" && action.risk == "high" && !action.writes'

    async def main(ground: Ground) -> None:
        async with ground.engine(calling, policy=policy_of({"when": when})) as app:
            given = await (await app.start(calling, {"call": "bureau.report", "with": {"id": 7}}, id="one")).result(60)
            assert given["path"] == "/r/7"

    ground.play(main)


def test_a_call_that_fails_for_now_is_tried_again(ground: Ground, server: Server) -> None:
    """Not before the time that the other side asked for."""
    at: list[float] = []

    def behave(request: Request) -> Reply:
        at.append(time.monotonic())
        return Reply(503, b"", {"Retry-After": "0.3"}) if len(at) == 1 else data("done")

    server.behaviour = behave

    async def main(ground: Ground) -> None:
        async with ground.engine(calling) as app:
            run = await app.start(calling, {"get": f"{server.url}/"}, attempts=3, id="one")
            assert await run.result(60) == "done"
            assert [row.state for row in await notes(app, r.Receipted, "one")] == ["failed", "succeeded"]

    ground.play(main)
    assert at[1] - at[0] >= 0.3


@pytest.mark.parametrize(
    ("status", "on", "tries"),
    [(404, [], 1), (503, [], 3), (503, ["timeout"], 1), (503, ["transport"], 3), (401, ["authorisation"], 1)],
)
def test_the_class_of_an_error_decides_about_another_attempt(
    ground: Ground, server: Server, status: int, on: list[str], tries: int
) -> None:
    """As far as another attempt may mend it at all."""
    server.behaviour = lambda _: data({"why": "no"}, status)

    async def main(ground: Ground) -> None:
        async with ground.engine(calling) as app:
            await app.start(calling, {"get": f"{server.url}/x"}, attempts=3, on=on, id="one")
            failure = await failure_of(app, "one")
            assert error_members(failure)["status"] == status
            assert error_members(failure)["body"] == {"why": "no"}

    ground.play(main)
    assert len(server.seen) == tries


@pytest.mark.parametrize("reply", [Reply(None), Reply(503)], ids=["silence", "503"])
def test_a_write_of_unknown_outcome_is_asked_about_and_not_repeated(
    ground: Ground, server: Server, reply: Reply
) -> None:
    """Whatever its retry policy: as with actions."""
    server.behaviour = lambda _: reply

    async def main(ground: Ground) -> None:
        async with ground.engine(calling) as app:
            run = await app.start(calling, {"post": f"{server.url}/"}, attempts=5, id="one")
            task = await asked(app, "one")
            assert task.kind == "outcome"
            await app.tasks.happened(task.id, by="bob", result={"id": 3})
            assert await run.result(60) == {"id": 3}

    ground.play(main)
    assert len(server.seen) == 1


def test_a_write_that_was_never_sent_is_tried_again(ground: Ground, server: Server) -> None:
    """No connection, no act: nobody is asked."""
    server.close()

    async def main(ground: Ground) -> None:
        async with ground.engine(calling) as app:
            await app.start(calling, {"post": f"{server.url}/"}, attempts=3, id="one")
            failure = await failure_of(app, "one")
            assert failure.type == "holdfast.errors:ConnectionFailed"
            assert [row.state for row in await notes(app, r.Receipted, "one")] == ["failed"] * 3

    ground.play(main)
    server.__init__()  # type: ignore[misc]  # the fixture closes it once more


def test_a_write_that_is_safe_to_retry_is_tried_again_with_the_same_key(
    ground: Ground, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By it the other side knows what it has done."""
    monkeypatch.setenv("HOLDFAST_SECRET_TOKEN", "s3cret")
    server.behaviour = lambda _: Reply(None) if len(server.seen) == 1 else data("done")

    async def main(ground: Ground) -> None:
        async with ground.engine(calling) as app:
            run = await app.start(calling, {"call": "bureau.again", "with": {"id": 1}}, attempts=2, id="one")
            assert await run.result(60) == "done"

    ground.play(main)
    keys = {request.headers["idempotency-key"] for request in server.seen}
    assert (len(server.seen), len(keys)) == (2, 1)


def test_an_answer_that_cannot_be_kept_does_not_undo_the_act(ground: Ground, server: Server) -> None:
    """The receipt says that it was done: nobody does it again."""
    server.behaviour = lambda _: Reply(200, b"{", {"Content-Type": "application/json"})

    async def main(ground: Ground) -> None:
        async with ground.engine(calling) as app:
            await app.start(calling, {"post": f"{server.url}/"}, attempts=5, id="one")
            failure = await failure_of(app, "one")
            assert failure.type == "holdfast.errors:AnswerUnusable"
            (row,) = await receipts(app, "one")
            assert row.state == "succeeded"

    ground.play(main)
    assert len(server.seen) == 1


def test_a_worker_that_dies_between_the_answer_and_the_commit_leaves_the_write_open(
    ground: Ground, server: Server
) -> None:
    """The next one asks a person, and does it once more only where they say that it did not happen."""
    answered = threading.Event()
    server.behaviour = lambda _: data("done")

    async def main(ground: Ground) -> None:
        async with ground.engine(calling) as first:

            def die(_: Request) -> Reply:
                kill(first)
                answered.set()
                return data("done")

            server.behaviour = die
            await first.start(calling, {"post": f"{server.url}/", "key": "k"}, id="one")
            await until(first, answered.is_set)
        server.behaviour = lambda _: data("done once more")
        async with ground.engine(calling) as second:
            task = await asked(second, "one")
            assert len(server.seen) == 1
            await second.tasks.did_not_happen(task.id, by="bob")
            assert await second.run("one").result(60) == "done once more"

    ground.play(main)
    assert [request.headers["idempotency-key"] for request in server.seen] == ["k", "k"]


def test_a_worker_that_dies_in_a_read_is_followed_by_one_that_reads_again(ground: Ground, server: Server) -> None:
    """Reading twice does no harm: nobody is asked."""
    answered = threading.Event()

    async def main(ground: Ground) -> None:
        async with ground.engine(calling) as first:

            def die(_: Request) -> Reply:
                kill(first)
                answered.set()
                return data(1)

            server.behaviour = die
            await first.start(calling, {"get": f"{server.url}/"}, id="one")
            await until(first, answered.is_set)
        server.behaviour = lambda _: data(2)
        async with ground.engine(calling) as second:
            assert await second.run("one").result(60) == 2

    ground.play(main)


@pytest.mark.parametrize("status", [200, 404, 503])
def test_no_secret_is_in_anything_that_is_kept(
    ground: Ground, server: Server, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """Journal, receipts, tasks and audit, of a server that says back all that it was sent."""
    monkeypatch.setenv("HOLDFAST_SECRET_TOKEN", "s3cret-value")
    server.behaviour = lambda request: data(request.headers, status, X_Echo=request.headers["authorization"])
    kept: list[bytes] = []

    async def main(ground: Ground) -> None:
        async with ground.engine(calling) as app:
            run = await app.start(
                calling, {"call": "bureau.order", "give": "response", "with": {"a": 1}}, attempts=2, id="one"
            )
            if status == 503:
                await app.tasks.give_up((await asked(app, "one")).id, by="bob", reason="enough")
            if status == 200:
                assert (await run.result(60))["headers"]["x-echo"] == "Bearer [secret]"
            else:
                await failure_of(app, "one")
            bundle = await app.run("one").evidence(values=True)
            kept.append(bundle.data)

    ground.play(main)
    assert "s3cret-value" in str(server.seen)
    kept.append(b"".join(file.read_bytes() for file in Path(str(ground._path)).parent.iterdir()))
    for place in kept:
        assert b"bureau" in place
        assert b"s3cret-value" not in place
    assert status == 503 or b"[secret]" in kept[-1]  # of one that was given up nothing is quoted


def test_a_value_that_a_request_brings_along_is_masked_in_views(ground: Ground, server: Server) -> None:
    """The journal has it, because the attempt gets it from there; no view shows it."""
    auth = {"basic": {"username": "ann", "password": {"value": "p4ss-word"}}}

    async def main(ground: Ground) -> None:
        async with ground.engine(calling) as app:
            await app.start(calling, {"get": f"{server.url}/", "auth": auth}, id="one")
            await app.run("one").result(60)
            scheduled = [entry async for entry in app.run("one").journal() if "Scheduled" in type(entry.event).__name__]
            (row,) = await receipts(app, "one")
            assert "p4ss-word" not in json.dumps([entry_record(journal_entry(entry)) for entry in scheduled])
            assert "p4ss-word" not in str(cbor2.loads(row.request))

    ground.play(main)


def test_a_call_of_a_transport_that_is_not_known_is_refused(ground: Ground) -> None:
    """The run says so; the code that knows it may be deployed, and the run retried."""
    effects = Effects({}, table.knows, table.effect_of)
    assert effects.find("nothing:here/get", Payload(b"")) is None
    assert (effects.has("nothing:here/get"), effects.has("http:a/get"), effects.has("plain")) == (False, True, False)


@pytest.mark.parametrize("input", [b"", b"\xf6", cbor2.dumps([[], {}]), cbor2.dumps([[], {"newer": 1}])])
def test_a_recorded_call_that_cannot_be_read_is_the_riskiest_and_is_not_made(input: bytes) -> None:
    """The gate refuses it when it is to propose."""
    effect = table.effect_of("http:a/get", Payload(input))
    assert effect is not None
    assert (effect.writes, effect.risk, effect.safe_to_retry) == (True, "high", False)
    with pytest.raises(Exception, match="cannot be read"):
        effect.propose(Payload(input), "f00d.1")


def test_the_last_worker_of_a_loop_closes_the_connections(ground: Ground, server: Server) -> None:
    """And the first one does not, while another works."""

    async def main(ground: Ground) -> None:
        async with ground.engine(calling, policy=FREE) as first:
            async with ground.engine(calling, policy=FREE):
                await (await first.start(calling, {"get": f"{server.url}/"})).result(60)
            await (await first.start(calling, {"get": f"{server.url}/"})).result(60)
            assert asyncio.get_running_loop() in sender._pools
        assert asyncio.get_running_loop() not in sender._pools

    ground.play(main)
    assert len(server.connections) == 1


def test_what_a_call_gives_is_plain_data(ground: Ground, server: Server) -> None:
    """Also bytes, for what is no text."""
    server.behaviour = lambda _: Reply(200, b"\xff\x00", {"Content-Type": "image/png"})

    async def main(ground: Ground) -> Any:
        async with ground.engine(calling) as app:
            return await (await app.start(calling, {"get": f"{server.url}/"})).result(60)

    assert ground.play(main) == b"\xff\x00"
