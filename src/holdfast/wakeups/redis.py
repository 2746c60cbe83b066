"""Wake-ups by Redis, or by what speaks its protocol: PUBLISH and SUBSCRIBE, and nothing is kept there.

The library is imported when a connection is first made. Errors go to the caller at once: the exchange tries again.
"""

from __future__ import annotations

import importlib.util
from typing import Any, Final

from holdfast.errors import ExtraMissing
from holdfast.wakeups.driver import Heard
from holdfast.wakeups.urls import shown

CONNECT_SECONDS: Final = 5.0
SILENCE_SECONDS: Final = 15.0
"""After so long without a message the server is asked whether it is still there: a dead peer sends no error."""
ANSWER_SECONDS: Final = 5.0


class RedisWakeups:
    """Two connections at most: one that publishes, one that listens."""

    def __init__(self, url: str) -> None:
        """Raises ExtraMissing where the library is not installed."""
        if importlib.util.find_spec("redis") is None:
            raise ExtraMissing("wake-ups by Redis need its library: pip install 'holdfast[redis]'.")
        self._url = url
        self._client: Any = None

    def __str__(self) -> str:
        return shown(self._url)

    async def publish(self, channel: str, sender: str) -> None:
        await self._connected().publish(channel, sender)

    async def listen(self, channel: str, heard: Heard) -> None:
        subscription = self._connected().pubsub()
        try:
            await subscription.subscribe(channel)
            is_asked = False
            while True:
                message = await subscription.get_message(timeout=ANSWER_SECONDS if is_asked else SILENCE_SECONDS)
                if message is not None:
                    is_asked = False
                    _pass_on(message, heard)
                elif is_asked:
                    raise ConnectionError(f"{self} does not answer any more")
                else:
                    await subscription.ping()
                    is_asked = True
        finally:
            await subscription.aclose()

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _connected(self) -> Any:
        if self._client is None:
            from redis.asyncio import Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff

            self._client = Redis.from_url(
                self._url,
                socket_connect_timeout=CONNECT_SECONDS,
                socket_timeout=CONNECT_SECONDS,
                retry=Retry(NoBackoff(), 0),
            )
        return self._client


def _pass_on(message: dict[str, Any], heard: Heard) -> None:
    if message["type"] == "subscribe":
        heard("")
    elif message["type"] == "message":
        data = message["data"]
        heard(data.decode(errors="replace") if isinstance(data, bytes) else str(data))
