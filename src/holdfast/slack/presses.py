"""Presses: what people do to cards, however Slack delivers it. Each is answered through a client bound to its user.

So level, groups, exclusion, two persons, expiry and a proposal that has changed are judged by the engine, as anywhere
else. Delivered twice, a press changes nothing: the engine refuses the second. Whoever is refused gets a message that
only they see. Slack is called in the background: it wants its answer within three seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.client.people.refusals import Refusals
from holdfast.client.views.tasks import task_info
from holdfast.errors import EngineError, HoldfastError
from holdfast.people import slack
from holdfast.people.caller import Caller
from holdfast.slack import blocks as b
from holdfast.slack.binding import client_of
from holdfast.slack.cards import APPROVE, REASON, REASON_LIMIT, REJECT, Pressed, card_of, reason_form
from holdfast.slack.records import card_key, read_card
from holdfast.slack.web_api import SlackApi, SlackTrouble

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

log = logging.getLogger("holdfast.slack")

STRANGER: Final = (
    "Your Slack account stands for no user of Holdfast here, so nothing was done. Ask a user of level 6 to run "
    "`holdfast slack map {account} NAME --tenant {tenant}`."
)
ELSEWHERE: Final = "This card is of another installation: its tenant has no channel here."

_decoder = msgspec.json.Decoder(Pressed)


class Press(msgspec.Struct, frozen=True):
    """Who pressed what."""

    account: str
    pressed: Pressed


class Presses:
    """Answers what Slack delivers."""

    def __init__(self, engine: Holdfast, api: SlackApi, console: str | None, changed: Callable[[], None]) -> None:
        self._engine = engine
        self._api = api
        self._console = console
        self._changed = changed
        self._under_way: set[asyncio.Task[None]] = set()

    async def take(self, payload: Mapping[str, Any]) -> dict[str, Any] | None:
        """Do what a payload asks; gives what Slack is answered with, if anything. What is not ours is ignored."""
        match payload:
            case {
                "type": "block_actions",
                "user": {"id": str(account)},
                "actions": [{"action_id": name, **action}, *_],
            }:
                if name in (APPROVE, REJECT) and (press := _press(account, action.get("value"), payload)) is not None:
                    if name == APPROVE:
                        await self._approve(press)
                    else:
                        await self._ask_reason(press, str(payload.get("trigger_id", "")))
            case {
                "type": "view_submission",
                "user": {"id": str(account)},
                "view": {"callback_id": "holdfast_reject", **view},
            }:
                if (press := _press(account, view.get("private_metadata"))) is not None:
                    return await self._reject(press, _reason_in(view))
        return None

    async def stop(self) -> None:
        """Let calls to Slack that are under way end, for a short while."""
        if self._under_way:
            _, late = await asyncio.wait(self._under_way, timeout=2)
            for task in late:
                task.cancel()

    # -- what people do --------------------------------------------------------------------------------------------

    async def _approve(self, press: Press) -> None:
        pressed = press.pressed
        try:
            client = await self._client(press)
            task = await client.tasks.approve(pressed.task, proposal=pressed.proposal)
        except (HoldfastError, _NotDone) as error:
            self._tell(press, _words(error))
        else:
            if task.status == "requested":
                self._tell(press, "You approved it. A second person must approve it, too.")
        await self._show(press)

    async def _ask_reason(self, press: Press, trigger: str) -> None:
        """Open the form that asks why. Whoever may not answer learns so before they write."""
        pressed = press.pressed
        try:
            client = await self._client(press)
            task = await client.tasks.get(pressed.task)
            refusal = await client.tasks.refusal(pressed.task)
        except (HoldfastError, _NotDone) as error:
            self._tell(press, _words(error))
            return
        if refusal is not None:
            self._tell(press, refusal)
        else:
            self._call("views.open", {"trigger_id": trigger, "view": reason_form(pressed, task.summary)})

    async def _reject(self, press: Press, reason: str) -> dict[str, Any] | None:
        """Reject. Where that is refused, the form stays open and says why."""
        pressed = press.pressed
        if not reason:
            return _problem("Say why: it is kept in the audit.")
        try:
            client = await self._client(press)
            await client.tasks.reject(pressed.task, reason=reason, proposal=pressed.proposal)
        except (HoldfastError, _NotDone) as error:
            return _problem(_words(error))
        await self._show(press)
        return None

    async def _client(self, press: Press) -> Holdfast:
        """A client for whoever pressed. Raises _NotDone where that is nobody, which is audited."""
        tenant = press.pressed.tenant
        if await self._engine.whole_store.item(slack.channel_key(tenant)) is None:
            raise _NotDone(ELSEWHERE)
        client = await client_of(self._engine, tenant, press.account)
        if client is None:
            stranger = Caller(tenant, f"~slack:{press.account}", 0)  # no user has such a name
            why, details = "the Slack account stands for no user", {"task": press.pressed.task}
            await Refusals(self._engine).note(stranger, "account", "tasks.answer", why, details)
            raise _NotDone(STRANGER.format(account=press.account, tenant=tenant))
        return client

    async def _show(self, press: Press) -> None:
        """Have the card brought up to date. Where it was pressed on a message that no record knows, edit that one, too:
        after a crash a task may have a second one."""
        self._changed()
        place, store = press.pressed, self._engine.whole_store
        row = await store.item(card_key(place.tenant, place.task))
        if row is None or not place.ts or read_card(row).ts == place.ts:
            return
        if (task := await store.task(place.tenant, place.task)) is not None:
            message = card_of(task_info(task), self._console).content
            self._call("chat.update", {**message, "channel": place.channel, "ts": place.ts})

    # -- what they are told ----------------------------------------------------------------------------------------

    def _tell(self, press: Press, words: str) -> None:
        """Say something to whoever pressed, which nobody else sees."""
        if channel := press.pressed.channel:
            text = b.escaped(words, b.NOTICE_LIMIT)
            self._call("chat.postEphemeral", {"channel": channel, "user": press.account, "text": text})

    def _call(self, method: str, arguments: dict[str, Any]) -> None:
        task = asyncio.get_running_loop().create_task(self._called(method, arguments))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _called(self, method: str, arguments: dict[str, Any]) -> None:
        try:
            await self._api.call(method, arguments)
        except SlackTrouble as trouble:
            log.warning("somebody who pressed a button was not answered: %s", trouble)


class _NotDone(Exception):
    """Nothing was done, and the message says why."""


def _words(error: HoldfastError | _NotDone) -> str:
    """What somebody who pressed is told of an error."""
    if isinstance(error, EngineError):
        log.error("a press failed", exc_info=error)
        return "Something went wrong that nobody expected. Nothing was done."
    return str(error)


def _press(account: str, value: object, payload: Mapping[str, Any] | None = None) -> Press | None:
    """What was pressed, and on which message; None where it is nothing that this version of Holdfast can read."""
    try:
        pressed = _decoder.decode(str(value))
    except msgspec.MsgspecError:
        log.warning("a press has nothing in it that this version of Holdfast can read")
        return None
    match payload:
        case {"container": {"channel_id": str(channel), "message_ts": str(ts)}}:
            pressed = msgspec.structs.replace(pressed, channel=channel, ts=ts)
    return Press(account, pressed)


def _reason_in(view: Mapping[Any, Any]) -> str:
    """What was written into the form."""
    match view:
        case {"state": {"values": {"holdfast_reason": {"holdfast_reason": {"value": str(text)}}}}}:
            return text.strip()[:REASON_LIMIT]
        case _:
            return ""


def _problem(words: str) -> dict[str, Any]:
    """The form stays open, with this at its field."""
    return {"response_action": "errors", "errors": {REASON: words[:150]}}
