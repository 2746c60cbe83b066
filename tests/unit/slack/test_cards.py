"""Cards: what they show, when they are edited, and that a task has one."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.responses import Response

from holdfast.slack import Slack, poster, records, web_api
from holdfast.slack.blocks import escaped
from holdfast.store.memory import MemoryStore
from tests.slack_stand_in import CHANNEL, OTHER, busy, words_of
from tests.unit.slack.scene import ANN, BOB, Scene, decided, is_decided, scene, value_of
from tests.unit.worker.ground import asking


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for hints to gather, nor long for Slack."""
    monkeypatch.setattr(poster, "GATHER_SECONDS", 0.0)
    monkeypatch.setattr(poster, "SHORTEST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(web_api, "SHORTEST_WAIT_SECONDS", 0.02)


def test_a_card_shows_what_would_be_done_and_why_and_masks_secrets() -> None:
    """Summary, proposed writes, rationale and hash are those of the task; a secret argument is in no part of it."""

    async def main() -> None:
        async with scene(asking(), console="https://hf.example/") as on:
            task = await on.app.tasks.get(await on.ask("r1", 7000, "<!channel> *rent* & more"), tenant="acme")
            card = await on.stand_in.card()
            words = words_of(card)
            for part in (task.summary, "bank · pay → DE1", "amount: 7000", task.proposal, task.id, "zoe", "r1"):
                assert part in words
            assert "Why you are asked" in words
            assert str(task.details["why"]) in words
            assert "hunter22" not in json.dumps(card)
            (code,) = [each for each in card["blocks"] if each["type"] == "rich_text"]
            assert "<!channel> *rent* & more" in words_of({"blocks": [code]})
            assert "<!channel>" not in words.replace(words_of({"blocks": [code]}), "").replace(task.summary, "")
            pressed = {"tenant": "acme", "task": task.id, "version": 1, "proposal": task.proposal}
            assert value_of(card) == pressed
            assert f"https://hf.example/tasks/{task.id}" in json.dumps(card)

    asyncio.run(main())


def test_what_is_too_long_for_slack_is_cut_and_the_card_says_so() -> None:
    """Block Kit's limits are kept whatever people write (the stand-in checks them), and nobody approves half unseen."""

    async def main() -> None:
        async with scene() as on:
            await on.ask("r" * 200, 7, "<&>" * 4000)
            assert "Not all of it fits here" in words_of(await on.stand_in.card())

    asyncio.run(main())


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [("<@U1> & >", 99, "&lt;@U1&gt; &amp; &gt;"), ("a\n*b*", 99, "a *b*"), ("&&&", 9, "&amp;…")],
)
def test_a_text_in_markup_cannot_mention_anybody_nor_leave_its_line(text: str, limit: int, shown: str) -> None:
    """An escape is never cut in two."""
    assert escaped(text, limit) == shown


def test_two_tenants_have_their_own_channels() -> None:
    """A tenant's card is in its own channel, and in no other; a tenant without a channel has none."""

    async def main() -> None:
        async with scene() as on:
            await on.app.slack.use(None, tenant="beta", by="root")
            await on.ask("r1", 1, "unseen", tenant="beta")
            await on.ask("r1", 2, "seen", tenant="acme")
            await on.stand_in.card("seen")
            assert on.stand_in.cards(OTHER) == []
            await on.app.slack.use(OTHER, tenant="beta", by="root")
            await on.stand_in.card("unseen", OTHER)
            assert len(on.stand_in.cards(CHANNEL)) == len(on.stand_in.cards(OTHER)) == 1

    asyncio.run(main())


def test_a_card_is_edited_when_the_task_is_decided_elsewhere() -> None:
    """By another client, by expiry, or with its run: the card says by whom and why, and has no buttons."""

    async def main() -> None:
        async with scene(asking(expires_in="1h")) as on:
            for run, word in (("a", "Approved"), ("b", "Cancelled"), ("c", "Expired")):
                task = await on.ask(run, 1, f"note-{run}")
                await on.stand_in.card(f"note-{run}")
                if run == "a":
                    await on.app.tasks.approve(task, by="bob", reason="known <payee>", tenant="acme")
                elif run == "b":
                    await on.app.run(run, tenant="acme").cancel(by="root")
                else:
                    on.clock.more_seconds = 3700
                    on.app.hint()
                found = await on.stand_in.until(
                    lambda run=run: [
                        each for each in on.stand_in.cards() if f"note-{run}" in words_of(each) and is_decided(each)
                    ]
                )
                assert f"*{word}*" in words_of(found[0])
                if run == "a":
                    assert "by bob" in words_of(found[0])
                    assert "known &lt;payee&gt;" in words_of(found[0])
            assert on.stand_in.calls["chat.postMessage"] == 3

    asyncio.run(main())


def test_a_deleted_message_is_posted_again_while_the_task_is_open() -> None:
    """Somebody deleted the card: with the next change of the task there is a new one."""

    async def main() -> None:
        async with scene(asking("high", two_person=True)) as on:
            await on.ask()
            first = await on.stand_in.card()
            del on.stand_in.messages[CHANNEL, first["ts"]]
            await on.approve({**first}, ANN)
            card = await on.stand_in.card("Approved* by ann")
            assert card["ts"] != first["ts"]
            await on.approve(card, BOB)
            await decided(on)

    asyncio.run(main())


async def shown(on: Scene, task: str, status: str) -> None:
    """Wait until a card's record says this."""
    async with asyncio.timeout(60):
        while (row := await on.app.store.item(records.card_key("acme", task))) is None or row.status != status:
            await on.app.changed(0.05)


@pytest.mark.parametrize("trouble", ["busy", "down"])
def test_while_slack_is_down_or_asks_to_wait_nothing_is_lost(trouble: str) -> None:
    """The card comes when Slack answers again, once."""

    async def main() -> None:
        async with scene() as on:
            refusals = iter([busy(0) if trouble == "busy" else Response("no", 502) for _ in range(3)])

            async def before(method: str) -> Response | None:
                return next(refusals, None)

            on.stand_in.before = before
            task = await on.ask()
            await on.stand_in.card()
            assert next(refusals, None) is None
            assert len(on.stand_in.cards()) == 1
            assert len(await on.acts("claim_slack_card")) == 1  # the claim lasts through the waits
            await on.approve(await on.stand_in.card())
            await decided(on)
            assert await on.result() == "paid 7"
            assert (await on.app.tasks.get(task, tenant="acme")).status == "approved"

    asyncio.run(main())


def test_two_processes_post_one_card() -> None:
    """Of two posters one claims the card, whoever looks first."""

    async def main() -> None:
        async with scene() as on:
            second = Slack(on.app, on.stand_in.settings())
            second.start()
            try:
                for number in range(5):
                    await on.ask(f"r{number}", number, f"note-{number}")
                for number in range(5):
                    await on.stand_in.card(f"note-{number}")
            finally:
                await second.stop()
            assert on.stand_in.calls["chat.postMessage"] == 5

    asyncio.run(main())


@pytest.mark.parametrize("first", [0, 1])
def test_after_a_crash_between_post_and_record_a_task_has_a_second_card_and_both_work(first: int) -> None:
    """Nobody posts again before the claim is over. The forgotten card can be pressed, before or after the other one
    was, and is edited then, too."""

    async def main() -> None:
        async with scene(starts=False) as on:
            arrived, released = asyncio.Event(), asyncio.Event()

            async def after(method: str) -> Response | None:
                arrived.set()
                await released.wait()
                return None

            on.stand_in.after = after
            dying = Slack(on.app, on.stand_in.settings())
            dying.start()
            task = await on.ask()
            await arrived.wait()
            assert dying.poster._task is not None
            dying.poster._task.cancel()  # as if the process were killed: nothing is recorded
            await asyncio.wait([dying.poster._task])
            released.set()
            on.stand_in.after = None
            await shown(on, task, records.BUSY)
            assert await on.slack.poster.round() == poster.LOOK_SECONDS
            assert on.stand_in.calls["chat.postMessage"] == 1
            on.clock.more_seconds = records.CLAIM_SECONDS + 1
            on.slack.start()
            await on.stand_in.until(lambda: len(on.stand_in.cards()) == 2)
            cards = on.stand_in.cards()
            await on.approve(cards[first], now=on.clock.now() / 1e6)
            await decided(on)
            await on.approve(cards[0], now=on.clock.now() / 1e6)
            await on.stand_in.until(lambda: all(map(is_decided, on.stand_in.cards())))
            await dying.stop()

    asyncio.run(main())


def test_a_channel_that_slack_refuses_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    """The log says which, and why; the other tenant's card is posted."""

    async def main() -> None:
        async with scene() as on:
            on.stand_in.channels.discard(CHANNEL)
            await on.ask("r1", 1, "a", tenant="acme")
            await on.ask("r2", 2, "b", tenant="acme")
            await on.ask("r1", 3, "c", tenant="beta")
            await on.stand_in.card("c", OTHER)
            refused = [each.message for each in caplog.records if "channel_not_found" in each.message]
            assert len(refused) == 1
            assert CHANNEL in refused[0]

    asyncio.run(main())


def test_no_card_is_forgotten_over_a_restart() -> None:
    """A task that was decided while no process showed cards is edited by the next one."""

    async def main() -> None:
        async with scene(starts=False) as on:
            first = Slack(on.app, on.stand_in.settings())
            first.start()
            task = await on.ask()
            await on.stand_in.card()
            await shown(on, task, records.OPEN)
            await first.stop()
            await on.app.tasks.reject(task, by="bob", reason="no", tenant="acme")
            on.slack.start()
            card = await decided(on)
            assert "*Rejected* by bob" in words_of(card)
            assert "no" in words_of(card)

    asyncio.run(main())


def test_a_card_whose_task_was_deleted_says_so() -> None:
    """Retention may delete a decided task while no process shows cards: its card must not ask for ever."""

    async def main() -> None:
        async with scene() as on:
            task = await on.ask()
            await on.stand_in.card()
            await shown(on, task, records.OPEN)
            await on.slack.poster.stop()
            store = on.app.store
            assert isinstance(store, MemoryStore)
            del store._tables.tasks["acme", task]
            on.slack.poster.start()
            assert words_of(await decided(on)) == "This approval is over. Its run was deleted."
            await shown(on, task, records.CLOSED)

    asyncio.run(main())


def test_a_look_reads_no_card_that_is_closed() -> None:
    """So it costs what is open, however many were decided."""

    async def main() -> None:
        async with scene() as on:
            task = await on.ask()
            await on.approve(await on.stand_in.card())
            await decided(on)
            await shown(on, task, records.CLOSED)
            live: dict[Any, Any] = await on.slack.poster._live_cards()
            assert live == {}

    asyncio.run(main())
