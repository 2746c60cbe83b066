"""Presses: each is judged by the engine as an act of its user, and comes from Slack or is refused."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import httpx
import pytest
from starlette.responses import Response

from holdfast.errors import NotPermitted, RunFailed
from holdfast.server import Server
from holdfast.slack import Slack, poster, socket_mode
from holdfast.slack.binding import client_of
from holdfast.slack.cards import APPROVE, REJECT
from tests.serving import served
from tests.slack_stand_in import APP_TOKEN, OTHER, proof_of, signed, words_of
from tests.unit.slack.scene import ANN, BOB, CEC, EVE, Scene, decided, is_decided, scene
from tests.unit.worker.ground import asking


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for hints to gather."""
    monkeypatch.setattr(poster, "GATHER_SECONDS", 0.0)


def test_approving_in_slack_lets_the_run_go_on(url: str) -> None:
    """The user of the account approved it, by the audit, too; the card says who and when. On every store."""

    async def main() -> None:
        async with scene(url=url) as on:
            task = await on.ask()
            assert (await on.approve(await on.stand_in.card())).status_code == 200
            assert await on.result() == "paid 7"
            info = await on.app.tasks.get(task, tenant="acme")
            assert [(said.who, said.verdict) for said in info.answers] == [("ann", "approved")]
            card = await decided(on)
            assert "*Approved* by ann" in words_of(card)
            assert "<!date^" in words_of(card)
            entries = [each.record async for each in on.app.audit.list(tenant="acme")]
            assert any(each is not None and each.get("task") == task and each.get("who") == "ann" for each in entries)
            assert (await on.app.audit.verify(tenant="acme")).good

    asyncio.run(main())


def test_rejecting_asks_for_a_reason_and_fails_the_call() -> None:
    """A form without a reason is not taken; with one the reason is on the card and in the task."""

    async def main() -> None:
        async with scene() as on:
            task = await on.ask()
            card = await on.stand_in.card()
            refused = await on.reject(card, "   ")
            assert "Say why" in refused.json()["errors"]["holdfast_reason"]
            done = await on.reject(card, "wrong <account>")
            assert (done.status_code, done.content) == (200, b"")
            with pytest.raises(RunFailed, match="ApprovalRejected"):
                await on.result()
            assert (await on.app.tasks.get(task, tenant="acme")).answers[-1].reason == "wrong <account>"
            assert "*Rejected* by ann" in words_of(await decided(on))
            assert "wrong &lt;account&gt;" in words_of(await decided(on))
            late = await on.stand_in.send(on.address, on.stand_in.submission_of("again", ANN))
            assert "is rejected by ann" in late.json()["errors"]["holdfast_reason"]

    asyncio.run(main())


def test_two_persons_approve_and_the_card_shows_the_first() -> None:
    """The same person twice is refused by the engine; the second, different one is enough."""

    async def main() -> None:
        async with scene(asking("high", two_person=True)) as on:
            await on.ask()
            await on.approve(await on.stand_in.card())
            assert "A second person" in await on.told(ANN)
            card = await on.stand_in.card("Approved* by ann")
            assert "Two people must approve it" in words_of(card)
            assert not is_decided(card)
            await on.approve(card, ANN)
            assert "approved task" in await on.told(ANN)
            await on.approve(card, BOB)
            assert await on.result() == "paid 7"
            card = await decided(on)
            assert "by ann" in words_of(card)
            assert "by bob" in words_of(card)

    asyncio.run(main())


def test_an_account_that_stands_for_nobody_is_refused_in_private_and_noted() -> None:
    """Nothing is guessed: not by the tenant of another mapping, not after the mapping was taken away."""

    async def main() -> None:
        async with scene() as on:
            task = await on.ask()
            await on.ask("r1", 8, "other", tenant="beta")
            card = await on.stand_in.card()
            await on.approve(card, EVE)
            assert f"holdfast slack map {EVE} NAME --tenant acme" in await on.told(EVE)
            (note,) = await on.acts("refuse")
            assert (note["who"], note["details"]) == (f"~slack:{EVE}", {"operation": "tasks.answer", "task": task})
            await on.approve(await on.stand_in.card("other", OTHER), ANN)
            assert "stands for no user" in await on.told(ANN)
            await on.app.slack.unmap(ANN, tenant="acme", by="root")
            await on.approve(card, ANN)
            assert "stands for no user" in await on.told(ANN)
            assert (await on.app.tasks.get(task, tenant="acme")).status == "requested"

    asyncio.run(main())


async def refused(on: Scene, account: str) -> str:
    """What somebody is told who presses the only card, which stays open."""
    card = await on.stand_in.card()
    assert (await on.approve(card, account)).status_code == 200
    text = await on.told(account)
    task = await anext(on.app.tasks.list(tenant="acme"))
    assert task.status == "requested"
    assert not is_decided(card)
    return text


def test_level_starter_demotion_and_expiry_are_judged_by_the_engine() -> None:
    """As it is at the moment of the press, whatever the card showed."""

    async def main() -> None:
        async with scene(asking("high", expires_in="1h")) as on:
            await on.ask("r1", actor="bob")
            assert "level 1" in await refused(on, CEC)
            assert "bob started the run" in await refused(on, BOB)
            await on.app.users.set_level("ann", 1, tenant="acme", by="root")
            assert "level 1" in await refused(on, ANN)
            assert {note["who"] for note in await on.acts("refuse")} == {"cec", "ann"}
            await on.app.users.set_level("ann", 2, tenant="acme", by="root")
            await on.app.users.disable("ann", tenant="acme", by="root")
            assert "disabled" in await refused(on, ANN)
            await on.app.users.enable("ann", tenant="acme", by="root")
            on.slack.poster._rests_until = float("inf")  # the card stays as it is
            on.clock.more_seconds = 3700
            card = await on.stand_in.card()
            await on.approve(card, ANN, now=on.clock.now() / 1e6)
            assert "expired" in await on.told(ANN)

    asyncio.run(main())


def test_a_mapping_that_changes_during_an_answer_has_not_answered(url: str) -> None:
    """The answer is committed on condition of the mapping by which it was judged."""

    async def main() -> None:
        async with scene(url=url) as on:
            task = await on.ask()
            client = await client_of(on.app, "acme", ANN)
            assert client is not None
            commit = on.app.committer.commit
            found = await on.app.tasks.get(task, tenant="acme")

            async def unmapped_meanwhile(change: object) -> object:
                on.app.committer.commit = commit  # type: ignore[method-assign]
                await on.app.slack.unmap(ANN, tenant="acme", by="root")
                return await commit(change)  # type: ignore[arg-type]

            on.app.committer.commit = unmapped_meanwhile  # type: ignore[assignment,method-assign]
            with pytest.raises(NotPermitted, match="does not stand for ann"):
                await client.tasks.approve(task, proposal=found.proposal)
            assert (await on.app.tasks.get(task, tenant="acme")).answers == ()

    asyncio.run(main())


def test_a_press_over_another_proposal_is_refused() -> None:
    """An answer is over exactly what the card showed."""

    async def main() -> None:
        async with scene() as on:
            task = await on.ask()
            payload = on.stand_in.press_of(await on.stand_in.card(), APPROVE, ANN)
            value = json.loads(payload["actions"][0]["value"])
            payload["actions"][0]["value"] = json.dumps({**value, "proposal": "00" * 32})
            await on.stand_in.send(on.address, payload)
            assert "has changed since you saw it" in await on.told(ANN)
            assert (await on.app.tasks.get(task, tenant="acme")).status == "requested"

    asyncio.run(main())


def test_only_what_slack_signed_a_moment_ago_is_taken() -> None:
    """A wrong secret, an old or future time, another body, no signature: 401, and nothing happened. A copy of a good
    request changes nothing."""

    async def main() -> None:
        async with scene() as on, httpx.AsyncClient(base_url=on.address, trust_env=False) as http:
            task = await on.ask()
            card = await on.stand_in.card()
            payload = on.stand_in.press_of(card, APPROVE, ANN)
            for how in ({"secret": "wrong"}, {"age_seconds": 301}, {"age_seconds": -301}):
                answer = await on.stand_in.send(on.address, payload, **how)
                assert (answer.status_code, answer.json()["code"]) == (401, "not_authenticated")
            body, headers = signed(payload)
            assert (await http.post("/slack/actions", content=body + b" ", headers=headers)).status_code == 401
            for stamp in ("x", "²", "9" * 40, "-5"):
                odd = {**headers, "X-Slack-Request-Timestamp": stamp.encode()}
                assert (await http.post("/slack/actions", content=body, headers=odd)).status_code == 401
            del headers["X-Slack-Signature"]
            assert (await http.post("/slack/actions", content=body, headers=headers)).status_code == 401
            assert (await on.app.tasks.get(task, tenant="acme")).answers == ()
            body, headers = signed(payload)
            for _ in range(2):
                assert (await http.post("/slack/actions", content=body, headers=headers)).status_code == 200
            assert "is approved by ann" in await on.told(ANN)
            assert len((await on.app.tasks.get(task, tenant="acme")).answers) == 1
            assert await on.result() == "paid 7"

    asyncio.run(main())


NOT_OURS: list[dict[str, Any]] = [
    {},
    {"type": "block_actions", "user": {"id": ANN}, "actions": []},
    {"type": "block_actions", "user": {"id": ANN}, "actions": [{"action_id": "holdfast_open"}]},
    {"type": "block_actions", "user": {"id": ANN}, "actions": [{"action_id": APPROVE, "value": "{"}]},
    {"type": "block_actions", "user": None, "actions": [{"action_id": APPROVE, "value": 7}]},
    {"type": "view_submission", "user": {"id": ANN}, "view": {"callback_id": "holdfast_reject"}},
    {"type": "shortcut", "user": {"id": ANN}},
]


def test_a_signed_request_that_is_not_ours_is_ignored_and_a_broken_one_is_malformed() -> None:
    """Slack sends what other parts of its app do, too. What it cannot have sent is a problem, not an error of ours."""

    async def main() -> None:
        async with scene(starts=False) as on, httpx.AsyncClient(base_url=on.address, trust_env=False) as http:
            for payload in NOT_OURS:
                body, headers = signed(payload)
                answer = await http.post("/slack/actions", content=body, headers=headers)
                assert (answer.status_code, answer.content) == (200, b"")
            for body in (b"", b"payload=", b"payload=%5B%5D", b"\xff\xfe", b"a=1&payload={}&payload={}"):
                answer = await http.post("/slack/actions", content=body, headers=proof_of(body))
                assert (answer.status_code, answer.json()["code"]) == (400, "malformed_request")

    asyncio.run(main())


def test_without_a_secret_there_is_no_route_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody can press where nothing can be proved."""

    async def main() -> None:
        with caplog.at_level(logging.INFO, "holdfast.slack"):
            async with scene(signing_secret=None) as on:
                await on.ask()
                answer = await on.approve(await on.stand_in.card(), secret="")
                assert (answer.status_code, answer.json()["code"]) == (404, "route_not_found")
                lines = [each.message for each in caplog.records if "no signing secret" in each.message]
                assert len(lines) == 1
            async with served(on.app, server=Server(on.app, console=False)) as address:
                assert (await on.stand_in.send(address, {})).status_code == 404

    asyncio.run(main())


def test_a_server_that_only_shows_takes_no_press() -> None:
    """``--read-only`` refuses what would change something, whoever signed it."""

    async def main() -> None:
        async with scene(read_only=True, app_token=APP_TOKEN) as on:
            await on.ask()
            answer = await on.approve(await on.stand_in.card())
            assert (answer.status_code, answer.json()["code"]) == (403, "server_read_only")
            assert on.slack.socket is None

    asyncio.run(main())


def test_presses_come_through_socket_mode_without_any_route() -> None:
    """Delivered through a connection of ours, acknowledged by id; after a refresh there is a new connection."""

    async def main() -> None:
        async with scene(signing_secret=None, app_token=APP_TOKEN) as on:
            stand_in = on.stand_in
            await on.ask("r1", 1, "first")
            ack = await stand_in.deliver(stand_in.press_of(await stand_in.card("first"), APPROVE, ANN), "e1")
            assert ack == {"envelope_id": "e1"}
            assert await on.result("r1") == "paid 1"
            await stand_in.refresh()
            await stand_in.until(lambda: stand_in.calls["apps.connections.open"] == 2)
            await on.ask("r2", 2, "second")
            card = await stand_in.card("second")
            await stand_in.deliver(stand_in.press_of(card, REJECT, BOB), "e2")
            await stand_in.until(lambda: stand_in.views)
            ack = await stand_in.deliver(stand_in.submission_of(" ", BOB), "e3")
            assert ack["payload"]["response_action"] == "errors"
            assert await stand_in.deliver(stand_in.submission_of("no", BOB), "e4") == {"envelope_id": "e4"}
            with pytest.raises(RunFailed, match="ApprovalRejected"):
                await on.result("r2")

    asyncio.run(main())


def test_a_connection_that_fails_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slack may be away for a while: presses come when it is back."""
    monkeypatch.setattr(socket_mode, "SHORTEST_PAUSE_SECONDS", 0.01)

    async def main() -> None:
        async with scene(app_token=APP_TOKEN, starts=False) as on:
            answers = iter([Response("no", 503), Response("no", 503)])

            async def before(method: str) -> Response | None:
                return next(answers, None) if method == "apps.connections.open" else None

            on.stand_in.before = before
            slack = Slack(on.app, on.stand_in.settings(app_token=APP_TOKEN))
            slack.start()
            await on.stand_in.deliver({"type": "shortcut"})
            assert on.stand_in.calls["apps.connections.open"] == 3
            await slack.stop()
            await slack.stop()

    asyncio.run(main())
