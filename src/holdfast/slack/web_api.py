"""Slack's Web API: one call, and the three ways in which it fails.

| error | meaning |
|---|---|
| ``SlackBusy`` | too many calls: it says how long to wait; nothing was done |
| ``SlackDown`` | no answer, or one that says that Slack has a problem; it may have been done |
| ``SlackRefused`` | Slack refuses this call, with a word that says why; nothing was done |
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Final

import httpx

from holdfast.slack.settings import SlackSettings
from holdfast.transports.http.refusals import seconds_of

TIMEOUT_SECONDS: Final = 10.0
SHORTEST_WAIT_SECONDS: Final = 1.0
LONGEST_WAIT_SECONDS: Final = 600.0

_TROUBLE: Final = frozenset(
    {"fatal_error", "internal_error", "request_timeout", "service_unavailable", "team_added_to_org"}
)
"""Words of Slack for problems of its own: the same call may succeed later."""


class SlackTrouble(Exception):
    """A call to Slack failed. The text has no secret in it."""


class SlackBusy(SlackTrouble):
    """Too many calls."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"Slack asks to wait {seconds:g} s")
        self.seconds = seconds


class SlackDown(SlackTrouble):
    """Slack did not answer, or cannot now."""


class SlackRefused(SlackTrouble):
    """Slack refuses the call."""

    def __init__(self, method: str, word: str, more: str = "") -> None:
        super().__init__(f"Slack refuses {method}: {word}{f' ({more})' if more else ''}")
        self.word = word


class SlackApi:
    """Calls Slack with one token. Close it when it is not needed any more."""

    def __init__(self, settings: SlackSettings, token: str | None = None) -> None:
        self._http = httpx.AsyncClient(
            base_url=settings.api,
            headers={"Authorization": f"Bearer {token or settings.bot_token}"},
            timeout=TIMEOUT_SECONDS,
            follow_redirects=False,
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def call(self, method: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call a method that writes, such as ``chat.postMessage``. Raises SlackTrouble."""
        return await self._called(method, json=arguments or {})

    async def ask(self, method: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call a method that reads. Slack takes the arguments of these as a form only."""
        return await self._called(method, data=arguments or {})

    async def _called(self, method: str, **content: Any) -> dict[str, Any]:
        try:
            answer = await self._http.post(method, **content)
        except httpx.HTTPError as error:
            raise SlackDown(f"Slack did not answer {method} ({type(error).__name__})") from error
        if answer.status_code == 429:
            raise SlackBusy(_wait_of(answer))
        try:
            found = answer.json()
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise SlackDown(f"Slack answered {method} with status {answer.status_code}")
        if found.get("ok") is not True:
            _refuse(method, answer, found)
        return found


def _refuse(method: str, answer: httpx.Response, found: Mapping[str, Any]) -> None:
    word = str(found.get("error", "unknown"))
    if word in ("ratelimited", "rate_limited"):
        raise SlackBusy(_wait_of(answer))
    if word in _TROUBLE or answer.status_code >= 500:
        raise SlackDown(f"Slack answered {method}: {word}")
    notes = found.get("response_metadata", {})
    messages = notes.get("messages", ()) if isinstance(notes, dict) else ()
    needed = [f"it needs {found['needed']}"] if "needed" in found else []
    raise SlackRefused(method, word, json.dumps([*needed, *messages])[:300] if needed or messages else "")


def _wait_of(answer: httpx.Response) -> float:
    """The seconds that Slack asks to wait; a short wait where it does not say."""
    seconds = seconds_of(answer.headers.get("retry-after"), time.time()) or 0.0
    return min(max(seconds, SHORTEST_WAIT_SECONDS), LONGEST_WAIT_SECONDS)
