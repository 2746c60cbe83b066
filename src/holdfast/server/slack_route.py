"""The route to which Slack sends what people press. It is there only where there is a secret to prove that by."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdfast.errors import MalformedRequest, ServerReadOnly
from holdfast.runs.clock import Clock
from holdfast.server.api import body_of
from holdfast.server.public import PublicRoute
from holdfast.server.route import JSON
from holdfast.slack import Slack
from holdfast.slack.signature import SIGNATURE_HEADER, TIME_HEADER, check_signature

PATH: Final = "/slack/actions"
BODY_LIMIT: Final = 256 * 1024


def slack_routes(slack: Slack | None, clock: Clock) -> tuple[PublicRoute, ...]:
    """The route, where there is a signing secret; else none."""
    if slack is None or not slack.settings.signing_secret:
        return ()
    secret, presses = slack.settings.signing_secret, slack.presses

    async def pressed(request: Request) -> Response:
        body = await body_of(request, BODY_LIMIT)
        headers = request.headers
        check_signature(secret, headers.get(TIME_HEADER), headers.get(SIGNATURE_HEADER), body, clock.now() / 1e6)
        if not slack.takes_presses:
            raise ServerReadOnly("this server was started with --read-only: nothing can be changed through it.")
        answer = await presses.take(_payload(body))
        return Response(status_code=200) if answer is None else Response(msgspec.json.encode(answer), media_type=JSON)

    words = "What people press in Slack, signed by Slack. Without a signing secret it is not there."
    return (PublicRoute(method="POST", path=PATH, words=words, handler=pressed),)


def _payload(body: bytes) -> dict[str, Any]:
    """The payload in Slack's form. Raises MalformedRequest."""
    try:
        (text,) = parse_qs(body.decode(), max_num_fields=10, strict_parsing=True)["payload"]
        found = json.loads(text)
    except (ValueError, KeyError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise MalformedRequest("this is no payload of Slack", [("body/payload", "it is no object in JSON")])
    return found
