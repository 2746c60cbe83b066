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
from typing import TYPE_CHECKING, Final, NamedTuple

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
REST_FACTOR: Final = 9.0
"""After a look it rests for so many times as long as that took: however much is open, it has a tenth of the time."""
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


class _Due(NamedTuple):
    """A card that may have to be shown: of this task, by this record, and in which channel if it is new."""

    key: p.ItemKey
    task: p.TaskRow | None
    present: p.ItemRow | None
    channel: str

    @property
    def version(self) -> int:
        """The version of the task; 0 where it is in the store no more."""
        return 0 if self.task is None else self.task.version

    @property
    def is_over(self) -> bool:
        return self.task is None or self.task.status != "requested"

    @property
    def is_shown(self) -> bool:
        row = self.present
        return row is not None and row.status == records.OPEN and records.read_card(row).shown == self.version

    @property
    def place(self) -> str:
        """The channel in which it is, or will be."""
        return self.channel if self.present is None else records.read_card(self.present).channel

    @property
    def content(self) -> tuple[p.ItemKey, int]:
        """What it would show."""
        return self.key, self.version


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
        began = loop.time()
        due = await self._due()
        self._rests_until = loop.time() + min(LOOK_SECONDS, REST_FACTOR * (loop.time() - began))
        try:
            for each in due:
                await self._show(each)
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

    async def _due(self) -> list[_Due]:
        """The cards that do not show their task as it is. Records are read before tasks: what is claimed by the record
        that was read is never shown older than it was shown before."""
        cards, found = await self._live_cards(), []
        channels = {row.tenant: slack.read_channel(row) async for row in all_items(self._app, slack.CHANNEL)}
        async for task in self._open_approvals():
            if (channel := channels.get(task.tenant)) is not None:
                key = records.card_key(task.tenant, task.id)
                found.append(_Due(key, task, cards.pop(key, None), channel))
        for tenant in sorted({key.tenant for key in cards}):
            found += await self._others(tenant, {key.id: row for key, row in cards.items() if key.tenant == tenant})
        return [each for each in found if not each.is_shown and not self._is_aside(each.place, each.content)]

    async def _live_cards(self) -> dict[p.ItemKey, p.ItemRow]:
        """The records of cards that are not closed."""
        found = {}
        for status in (records.BUSY, records.OPEN):
            async for row in all_items(self._app, records.CARD, status=status):
                found[row.key] = row
        return found

    async def _open_approvals(self) -> AsyncIterator[p.TaskRow]:
        query, after = p.TaskQuery(None, "requested", kind="approval"), None
        while page := await self._app.store.tasks(query, PAGE, after):
            for task in page:
                yield task
            after = page[-1]

    async def _others(self, tenant: str, cards: dict[str, p.ItemRow]) -> list[_Due]:
        """Cards whose task is over, or whose tenant shows no new ones."""
        ids, found = sorted(cards), []
        for first in range(0, len(ids), PAGE):
            tasks = await self._app.store.tasks_by_id(tenant, ids[first : first + PAGE])
            for id in ids[first : first + PAGE]:
                row = cards[id]
                found.append(_Due(row.key, tasks.get(id), row, records.read_card(row).channel))
        return found

    # -- one card --------------------------------------------------------------------------------------------------

    async def _show(self, due: _Due) -> None:
        """Bring one card up to date. Raises SlackBusy, SlackDown."""
        if self._is_aside(due.place, due.content):
            return
        async with self._acting:
            claimed = await self._claimed(due)
            if claimed is None:
                return
            try:
                shown = await self._sent(records.read_card(claimed), due.task, due.channel)
            except SlackRefused as refused:
                self._set_aside(due.content if refused.word in _CONTENT else due.place)
                log.warning(
                    "task %s of tenant %s is not shown in %s: %s", due.key.id, due.key.tenant, due.place, refused
                )
                return
            self._mine.pop(due.key, None)
            await records.settle(self._app, claimed, shown, is_over=due.is_over)

    async def _claimed(self, due: _Due) -> p.ItemRow | None:
        """The claim on a card: the one that this process has still, or a new one; None where it is another's."""
        now, present, mine = self._app.clock.now(), due.present, self._mine.get(due.key)
        if mine is not None and present is not None and mine.version == present.version and (mine.due_at or 0) > now:
            return mine
        if not records.is_free(present, now):
            return None
        made = await records.claim(self._app, due.key, present, due.channel)
        if made is not None:
            self._mine[due.key] = made
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

    def _is_aside(self, *what: Hashable) -> bool:
        now = asyncio.get_running_loop().time()
        return any(now < self._aside.get(each, 0.0) for each in what)

    def _set_aside(self, what: Hashable) -> None:
        self._aside = {each: until for each, until in self._aside.items() if self._is_aside(each)}
        self._aside[what] = asyncio.get_running_loop().time() + ASIDE_SECONDS


_QUIET: Final = {"unfurl_links": False, "unfurl_media": False}
