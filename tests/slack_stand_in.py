"""A stand-in for Slack: a real HTTP server with Slack's methods, a real WebSocket, and requests signed as Slack does.

It is as strict as Slack where that matters: tokens, channels, the sizes of blocks, triggers that are good once. A test
can make it answer late, refuse, or ask to wait.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from holdfast.slack import SlackSettings
from tests.serving import listening

BOT_TOKEN = "xoxb-1-stand-in"
APP_TOKEN = "xapp-1-stand-in"
SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
CHANNEL = "C0APPROVALS"
OTHER = "C0BETA"

Message = dict[str, Any]
Answer = Response | None


class SlackStandIn:
    """One workspace of Slack, and the people who press there."""

    def __init__(self) -> None:
        self.address = ""
        self.messages: dict[tuple[str, str], Message] = {}
        self.calls: Counter[str] = Counter()
        self.ephemeral: list[tuple[str, str]] = []
        self.views: list[dict[str, Any]] = []
        self.channels = {CHANNEL, OTHER}
        self.before: Callable[[str], Awaitable[Answer]] | None = None
        """Called before each method: may wait, or give another answer."""
        self.after: Callable[[str], Awaitable[Answer]] | None = None
        """Called when the method has been done."""
        self._serial = 0
        self._triggers: set[str] = set()
        self._acks: dict[str, asyncio.Future[Any]] = {}
        self._sockets: list[WebSocket] = []
        self._changed = asyncio.Event()

    def settings(self, **more: Any) -> SlackSettings:
        return SlackSettings(
            **{"bot_token": BOT_TOKEN, "signing_secret": SECRET, "api": f"{self.address}/api/", **more}
        )

    async def until(self, condition: Callable[[], Any], seconds: float = 60) -> Any:
        """Wait until something that was sent here makes the condition true; gives what it gave."""
        async with asyncio.timeout(seconds):
            while not (found := condition()):
                self._changed.clear()
                await self._changed.wait()
        return found

    def cards(self, channel: str = CHANNEL) -> list[Message]:
        return [message for (place, _), message in self.messages.items() if place == channel]

    async def card(self, words: str = "", channel: str = CHANNEL) -> Message:
        """The first card that says these words."""

        def found() -> Message | None:
            return next((each for each in self.cards(channel) if words in json.dumps(each["blocks"])), None)

        return await self.until(found)

    # -- the methods -----------------------------------------------------------------------------------------------

    async def _method(self, request: Request) -> Response:
        name = request.path_params["method"]
        self.calls[name] += 1
        self._changed.set()
        wanted = APP_TOKEN if name == "apps.connections.open" else BOT_TOKEN
        if request.headers.get("authorization") != f"Bearer {wanted}":
            return _refused("invalid_auth")
        if self.before is not None and (answer := await self.before(name)) is not None:
            return answer
        is_form = request.headers["content-type"].startswith("application/x-www-form-urlencoded")
        body = dict(parse_qsl((await request.body()).decode())) if is_form else await request.json()
        answer = self._done(name, body)
        if self.after is not None:
            answer = await self.after(name) or answer
        self._changed.set()
        return answer

    def _done(self, name: str, body: dict[str, Any]) -> Response:
        match name:
            case "auth.test":
                return JSONResponse({"ok": True, "user": "holdfast", "team": "Acme", "team_id": "T1"})
            case "conversations.info":
                return self._info(body["channel"])
            case "chat.postMessage":
                return self._post(body)
            case "chat.update":
                return self._update(body)
            case "chat.postEphemeral":
                self.ephemeral.append((body["user"], body["text"]))
                return JSONResponse({"ok": True})
            case "views.open":
                return self._open(body)
            case "apps.connections.open":
                return JSONResponse({"ok": True, "url": self.address.replace("http", "ws", 1) + "/link"})
        return _refused("unknown_method")

    def _info(self, channel: str) -> Response:
        if channel not in self.channels:
            return _refused("channel_not_found")
        return JSONResponse({"ok": True, "channel": {"id": channel, "name": "approvals", "is_member": True}})

    def _post(self, body: dict[str, Any]) -> Response:
        if body["channel"] not in self.channels:
            return _refused("channel_not_found")
        check_blocks(body["blocks"])
        self._serial += 1
        ts = f"1700000000.{self._serial:06}"
        self.messages[body["channel"], ts] = {**body, "ts": ts}
        return JSONResponse({"ok": True, "channel": body["channel"], "ts": ts})

    def _update(self, body: dict[str, Any]) -> Response:
        check_blocks(body["blocks"])
        place = body["channel"], body["ts"]
        if place not in self.messages:
            return _refused("message_not_found")
        self.messages[place] = body
        return JSONResponse({"ok": True, "channel": place[0], "ts": place[1]})

    def _open(self, body: dict[str, Any]) -> Response:
        if body["trigger_id"] not in self._triggers:
            return _refused("expired_trigger_id")
        self._triggers.discard(body["trigger_id"])
        assert len(body["view"]["private_metadata"]) <= 3000
        assert len(body["view"]["title"]["text"]) <= 24
        self.views.append(body["view"])
        return JSONResponse({"ok": True, "view": {"id": "V1"}})

    # -- the people ------------------------------------------------------------------------------------------------

    def press_of(self, card: Message, name: str, account: str) -> dict[str, Any]:
        """What Slack sends when somebody presses a button of a card."""
        (actions,) = [each for each in card["blocks"] if each["type"] == "actions"]
        (action,) = [each for each in actions["elements"] if each["action_id"] == name]
        trigger = f"trigger-{len(self._triggers)}-{time.monotonic_ns()}"
        self._triggers.add(trigger)
        return {
            "type": "block_actions",
            "user": {"id": account, "username": "somebody", "team_id": "T1"},
            "team": {"id": "T1"},
            "trigger_id": trigger,
            "container": {"type": "message", "message_ts": card["ts"], "channel_id": card["channel"]},
            "channel": {"id": card["channel"]},
            "actions": [{"type": "button", **{key: action.get(key) for key in ("action_id", "value")}}],
        }

    def submission_of(self, reason: str, account: str) -> dict[str, Any]:
        """What Slack sends when somebody sends the form that was opened last."""
        view = self.views[-1]
        (field,) = [each for each in view["blocks"] if each["type"] == "input"]
        state = {field["block_id"]: {field["element"]["action_id"]: {"type": "plain_text_input", "value": reason}}}
        return {"type": "view_submission", "user": {"id": account}, "view": {**view, "state": {"values": state}}}

    async def send(self, address: str, payload: dict[str, Any], **how: Any) -> httpx.Response:
        """Send a payload to a server, signed as Slack signs."""
        body, headers = signed(payload, **how)
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            return await client.post(f"{address}/slack/actions", content=body, headers=headers)

    async def deliver(self, payload: dict[str, Any], id: str = "e1") -> Any:
        """Deliver a payload through the open socket; gives the acknowledgement."""
        await self.until(lambda: self._sockets)
        self._acks[id] = asyncio.get_running_loop().create_future()
        envelope = {"envelope_id": id, "type": "interactive", "accepts_response_payload": True, "payload": payload}
        await self._sockets[-1].send_json(envelope)
        return await asyncio.wait_for(self._acks[id], 60)

    async def refresh(self) -> None:
        """Ask for a new connection, as Slack does every few hours."""
        await self.until(lambda: self._sockets)
        await self._sockets[-1].send_json({"type": "disconnect", "reason": "refresh_requested"})

    async def _link(self, socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_json({"type": "hello", "num_connections": 1})
        self._sockets.append(socket)
        self._changed.set()
        try:
            while True:
                ack = await socket.receive_json()
                self._acks[ack["envelope_id"]].set_result(ack)
        except WebSocketDisconnect:
            self._sockets.remove(socket)
            self._changed.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[SlackStandIn]:
        routes = [Route("/api/{method}", self._method, methods=["POST"]), WebSocketRoute("/link", self._link)]
        async with listening(Starlette(routes=routes)) as self.address:
            yield self


def signed(
    payload: dict[str, Any], *, secret: str = SECRET, age_seconds: float = 0, now: float | None = None
) -> tuple[bytes, dict[str, str]]:
    """A body and the headers by which Slack proves it. This is Slack's recipe, written without our own code."""
    body = urlencode({"payload": json.dumps(payload)}).encode()
    return body, proof_of(body, secret, (time.time() if now is None else now) - age_seconds)


def proof_of(body: bytes, secret: str = SECRET, at: float | None = None) -> dict[str, str]:
    """The headers by which Slack proves a body."""
    stamp = str(int(time.time() if at is None else at))
    digest = hmac.new(secret.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()
    return {
        "Content-Type": "application/x-www-form-urlencoded",
        "X-Slack-Request-Timestamp": stamp,
        "X-Slack-Signature": f"v0={digest}",
    }


def _refused(word: str) -> Response:
    return JSONResponse({"ok": False, "error": word})


def busy(seconds: int) -> Response:
    """Slack asks to wait."""
    return JSONResponse({"ok": False, "error": "ratelimited"}, 429, {"Retry-After": str(seconds)})


_LIMITS = {"header": 150, "section": 3000, "context": 3000}


def check_blocks(blocks: list[dict[str, Any]]) -> None:
    """The limits of Block Kit: what is over them, Slack refuses."""
    assert 1 <= len(blocks) <= 50
    for block in blocks:
        assert len(block.get("block_id", "")) <= 255
        if (text := block.get("text")) is not None:
            assert 1 <= len(text["text"]) <= _LIMITS[block["type"]], block
        fields = block.get("fields", [])
        assert len(fields) <= 10
        assert all(1 <= len(field["text"]) <= 2000 for field in fields)
        for element in block.get("elements", []):
            if element["type"] == "button":
                assert len(element["text"]["text"]) <= 75
                assert len(element.get("value", "")) <= 2000
                if "confirm" in element:
                    assert len(element["confirm"]["title"]["text"]) <= 100
                    assert len(element["confirm"]["text"]["text"]) <= 300


def words_of(card: Message) -> str:
    """All texts of a card, as one."""
    return "\n".join(_texts(card["blocks"]))


def _texts(value: Any) -> list[str]:
    match value:
        case {"text": str(text)}:
            return [text, *(found for key, each in value.items() if key != "text" for found in _texts(each))]
        case dict():
            return [found for each in value.values() for found in _texts(each)]
        case list():
            return [found for each in value for found in _texts(each)]
        case _:
            return []
