"""Calls to Slack: what each answer means."""

from __future__ import annotations

import asyncio
from email.utils import formatdate

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from holdfast.slack import SlackSettings
from holdfast.slack.web_api import SlackApi, SlackBusy, SlackDown, SlackRefused, SlackTrouble
from tests.serving import listening

WAIT = {"Retry-After": "7"}

ANSWERS: list[tuple[Response, type[SlackTrouble], str]] = [
    (PlainTextResponse("", 429, WAIT), SlackBusy, "wait 7 s"),
    (JSONResponse({"ok": False, "error": "ratelimited"}, 200, WAIT), SlackBusy, "wait 7 s"),
    (PlainTextResponse("", 429, {"Retry-After": "soon"}), SlackBusy, "wait 1 s"),
    (PlainTextResponse("", 429, {"Retry-After": "999999999"}), SlackBusy, "wait 600 s"),
    (PlainTextResponse("", 429, {"Retry-After": formatdate(4e9, usegmt=True)}), SlackBusy, "wait 600 s"),
    (PlainTextResponse("<html>", 502), SlackDown, "status 502"),
    (JSONResponse({"ok": False, "error": "internal_error"}), SlackDown, "internal_error"),
    (JSONResponse([True]), SlackDown, "status 200"),
    (PlainTextResponse("moved", 302, {"Location": "/elsewhere"}), SlackDown, "status 302"),
    (JSONResponse({"ok": False, "error": "missing_scope", "needed": "chat:write"}), SlackRefused, "needs chat:write"),
    (JSONResponse({"ok": "yes"}), SlackRefused, "unknown"),
]


def test_an_answer_means_wait_try_again_or_never() -> None:
    """Slack's wait is kept within bounds; a redirect is not followed, because the token would go with it."""

    async def main() -> None:
        answers = iter([response for response, _, _ in ANSWERS])

        async def method(request: Request) -> Response:
            assert request.headers["authorization"] == "Bearer xoxb-secret"
            return next(answers)

        async with listening(Starlette(routes=[Route("/api/chat.update", method, methods=["POST"])])) as address:
            api = SlackApi(SlackSettings(bot_token="xoxb-secret", api=f"{address}/api/"))
            for _, kind, words in ANSWERS:
                with pytest.raises(SlackTrouble, match=words) as raised:
                    await api.call("chat.update", {"text": "a"})
                assert type(raised.value) is kind
                assert "xoxb" not in str(raised.value)
        with pytest.raises(SlackDown, match="did not answer"):
            await api.call("chat.update")
        await api.close()

    asyncio.run(main())
