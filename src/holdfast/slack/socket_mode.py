"""Socket Mode: presses come through a connection that this process opens, so nothing must reach it from outside.

Slack asks for a new connection every few hours, and tells so. Each delivery has an id, and is acknowledged when it is
done: what it changed is durable then. Several processes may be connected: Slack gives a delivery to one of them.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from holdfast.runs.role import Role
from holdfast.slack.presses import Presses
from holdfast.slack.web_api import SlackApi, SlackBusy, SlackRefused, SlackTrouble

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger("holdfast.slack")

OPEN_SECONDS: Final = 10
CLOSE_SECONDS: Final = 1
"""Slack does not close its side after a close frame, so a longer wait would be for nothing."""
LARGEST_BYTES: Final = 1024 * 1024
SHORTEST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 30.0
REFUSED_SECONDS: Final = 60.0


class SocketReader(Role):
    """Keeps one connection to Slack, and has what comes through it done."""

    name = "slack-socket"

    def __init__(self, api: SlackApi, presses: Presses) -> None:
        super().__init__()
        self._api = api  # with the token of the app, not of its bot
        self._presses = presses
        self._pause = SHORTEST_PAUSE_SECONDS
        self._under_way: set[asyncio.Task[None]] = set()
        self.connected = asyncio.Event()

    async def round(self) -> float | None:
        """Connect, and read until the connection ends; gives the seconds until the next one."""
        try:
            opened = await self._api.call("apps.connections.open")
            async with connect(
                str(opened.get("url", "")),
                open_timeout=OPEN_SECONDS,
                close_timeout=CLOSE_SECONDS,
                max_size=LARGEST_BYTES,
            ) as connection:
                await self._read(connection)
        except SlackBusy as busy:
            return busy.seconds
        except SlackRefused as refused:
            log.warning("presses do not come through Socket Mode: %s", refused)
            return REFUSED_SECONDS
        except (SlackTrouble, WebSocketException, OSError, TimeoutError) as error:
            log.warning("the connection to Slack failed (%s), and is opened again", type(error).__name__)
            seconds, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE_SECONDS)
            return seconds
        finally:
            self.connected.clear()
        return 0.0

    async def stop(self) -> None:
        await super().stop()
        for task in tuple(self._under_way):
            task.cancel()

    async def _read(self, connection: ClientConnection) -> None:
        async for text in connection:
            match _object(text):
                case {"type": "hello"}:
                    self._pause = SHORTEST_PAUSE_SECONDS
                    self.connected.set()
                case {"type": "disconnect", "reason": reason} if reason != "warning":
                    return
                case {"envelope_id": str(id), **envelope}:
                    task = asyncio.get_running_loop().create_task(self._take(connection, id, envelope))
                    self._under_way.add(task)
                    task.add_done_callback(self._under_way.discard)

    async def _take(self, connection: ClientConnection, id: str, envelope: Mapping[str, Any]) -> None:
        """Do what a delivery asks, and acknowledge it. Where that fails, Slack shows the person that it did."""
        payload, answer = envelope.get("payload"), None
        try:
            if envelope.get("type") == "interactive" and isinstance(payload, dict):
                answer = await self._presses.take(payload)
            await connection.send(
                json.dumps({"envelope_id": id} if answer is None else {"envelope_id": id, "payload": answer})
            )
        except WebSocketException:
            log.warning("the connection to Slack ended before a press was acknowledged; it is done all the same")
        except Exception:
            log.exception("a press failed")


def _object(text: str | bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
