"""The poster: every open approval of a tenant that has a channel gets one card, which is edited as the task changes.

Any process may have one, and there is no leader: a card is claimed by its record before Slack is called. It looks when
something was committed, here or by a neighbour, and every few seconds, because hints can be lost. It reads the open
approvals and the records of live cards, so a look costs what is open, not what is over.

While Slack does not answer, or asks to wait, nothing else is tried. A channel that Slack refuses is set aside for a
while, and so is a card whose content it refuses; the others go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable
from typing import TYPE_CHECKING, Final

from holdfast.client.items import PAGE, all_items
from holdfast.client.views.tasks import task_info
from holdfast.people import slack
from holdfast.runs.role import Role
from holdfast.slack import records
from holdfast.slack.cards import card_of, gone_card
from holdfast.slack.records import SlackCard
from holdfast.slack.web_api import SlackApi, SlackBusy, SlackDown, SlackRefused
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

log = logging.getLogger("holdfast.slack")

LOOK_SECONDS: Final = 5.0
GATHER_SECONDS: Final = 0.25
"""Changes are gathered for so long before they are looked at."""
SHORTEST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 60.0
ASIDE_SECONDS: Final = 60.0
"""After this time what Slack refused is tried again."""
STOP_SECONDS: Final = 5.0
"""A stop waits so long for the call that is under way, so that its message is recorded."""

_CONTENT: Final = frozenset(
    {"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "msg_too_long", "no_text"}
)
"""Slack's words where it refuses a message for what is in it. All others are about the channel or the token."""
_LOST: Final = frozenset({"cant_update_message", "edit_window_closed", "message_not_found"})
"""Slack's words where a message cannot be edited any more: somebody deleted it, for example."""


class CardPoster(Role):
    """Posts and edits the cards of approvals."""

    name = "slack-poster"

    def __init__(self, app: Holdfast, api: SlackApi, console: str | None) -> None:
        super().__init__()
        self._app = app
        self._api = api
        self._console = console
        self._mine: dict[p.ItemKey, p.ItemRow] = {}  # claims of this process whose cards are not shown yet
        self._aside: dict[Hashable, float] = {}  # a channel, or a task at a version, and when it is tried again
        self._pause = SHORTEST_PAUSE_SECONDS
        self._rests_until = 0.0
        self._acting = asyncio.Lock()
        self._unlisten: Callable[[], None] | None = None

    def start(self) -> None:
        super().start()
        if self._unlisten is None:
            self._unlisten = self._app.neighbours.add_listener(lambda: self.wake_within(GATHER_SECONDS))

    async def stop(self) -> None:
        """Let the call that is under way end, for a short while, and stop."""
        if self._unlisten is not None:
            self._unlisten()
            self._unlisten = None
        try:
            async with asyncio.timeout(STOP_SECONDS), self._acting:
                await super().stop()
        except TimeoutError:
            await super().stop()

    async def round(self) -> float | None:
        """Show what has changed; gives the seconds until the next look."""
        loop = asyncio.get_running_loop()
        if (rest := self._rests_until - loop.time()) > 0:
            return rest
        try:
            await self._show_all()
            self._pause = SHORTEST_PAUSE_SECONDS
        except SlackBusy as busy:
            return self._halt(busy.seconds, str(busy))
        except SlackDown as down:
            seconds, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE_SECONDS)
            return self._halt(seconds, str(down))
        return LOOK_SECONDS

    def _halt(self, seconds: float, why: str) -> float:
        log.warning("no cards for %g s: %s", seconds, why)
        self._rests_until = asyncio.get_running_loop().time() + seconds
        return seconds

    # -- what is to be shown ---------------------------------------------------------------------------------------

    async def _show_all(self) -> None:
        cards = await self._live_cards()
        async for row in all_items(self._app, slack.CHANNEL, status=slack.USED):
            channel = slack.read_channel(row)
            assert channel is not None
            async for task in self._open_approvals(row.tenant):
                card = cards.pop(records.card_key(task.tenant, task.id), None)
                await self._show(records.card_key(task.tenant, task.id), task, card, channel)
        for tenant in sorted({key.tenant for key in cards}):
            await self._show_others(tenant, {key.id: row for key, row in cards.items() if key.tenant == tenant})

    async def _live_cards(self) -> dict[p.ItemKey, p.ItemRow]:
        """The records of cards that are not closed."""
        found = {}
        for status in (records.BUSY, records.OPEN):
            async for row in all_items(self._app, records.CARD, status=status):
                found[row.key] = row
        return found

    async def _open_approvals(self, tenant: str) -> AsyncIterator[p.TaskRow]:
        query, after = p.TaskQuery(tenant, "requested", kind="approval"), None
        while page := await self._app.store.tasks(query, PAGE, after):
            for task in page:
                yield task
            after = page[-1]

    async def _show_others(self, tenant: str, cards: dict[str, p.ItemRow]) -> None:
        """Cards whose task is over, or whose tenant shows no new ones."""
        ids = sorted(cards)
        for first in range(0, len(ids), PAGE):
            tasks = await self._app.store.tasks_by_id(tenant, ids[first : first + PAGE])
            for id in ids[first : first + PAGE]:
                await self._show(cards[id].key, tasks.get(id), cards[id], records.read_card(cards[id]).channel)

    # -- one card --------------------------------------------------------------------------------------------------

    async def _show(self, key: p.ItemKey, task: p.TaskRow | None, present: p.ItemRow | None, channel: str) -> None:
        """Bring one card up to date. Raises SlackBusy, SlackDown."""
        version = 0 if task is None else task.version
        if present is not None and present.status == records.OPEN and records.read_card(present).shown == version:
            return
        place = channel if present is None else records.read_card(present).channel
        if self._is_aside(place) or self._is_aside((key, version)):
            return
        async with self._acting:
            claimed = await self._claimed(key, present, channel)
            if claimed is None:
                return
            try:
                shown = await self._sent(records.read_card(claimed), task, channel)
            except SlackRefused as refused:
                self._set_aside((key, version) if refused.word in _CONTENT else place)
                log.warning("task %s of tenant %s is not shown in %s: %s", key.id, key.tenant, place, refused)
                return
            self._mine.pop(key, None)
            is_over = task is None or task.status != "requested"
            await records.settle(self._app, claimed, shown, is_over=is_over)

    async def _claimed(self, key: p.ItemKey, present: p.ItemRow | None, channel: str) -> p.ItemRow | None:
        """The claim on a card: the one that this process has still, or a new one; None where it is another's."""
        now = self._app.clock.now()
        mine = self._mine.get(key)
        if mine is not None and present is not None and mine.version == present.version and (mine.due_at or 0) > now:
            return mine
        if not records.is_free(present, now):
            return None
        made = await records.claim(self._app, key, present, channel)
        if made is not None:
            self._mine[key] = made
        return made

    async def _sent(self, card: SlackCard, task: p.TaskRow | None, channel: str) -> SlackCard:
        """Edit the message, or post one where there is none; gives what is shown where. Raises SlackTrouble."""
        message = gone_card() if task is None else card_of(task_info(task), self._console)
        shown = 0 if task is None else task.version
        if card.ts:
            try:
                await self._api.call("chat.update", {**message.content, "channel": card.channel, "ts": card.ts})
                return SlackCard(card.channel, card.ts, shown)
            except SlackRefused as refused:
                if refused.word not in _LOST:
                    raise
        if task is None or task.status != "requested":
            return SlackCard(card.channel, card.ts, shown)  # nobody needs a new message for what is over
        posted = await self._api.call("chat.postMessage", {**message.content, "channel": channel, **_QUIET})
        return SlackCard(str(posted.get("channel") or channel), str(posted.get("ts", "")), shown)

    def _is_aside(self, what: Hashable) -> bool:
        return asyncio.get_running_loop().time() < self._aside.get(what, 0.0)

    def _set_aside(self, what: Hashable) -> None:
        self._aside = {each: until for each, until in self._aside.items() if self._is_aside(each)}
        self._aside[what] = asyncio.get_running_loop().time() + ASIDE_SECONDS


_QUIET: Final = {"unfurl_links": False, "unfurl_media": False}
