"""The addresses of webhooks. Whoever sends something there is proved by the signature of what they send, and by that
alone: no token is looked at, and without a good signature nothing is told but that it is refused.

1. A body that is too large is refused before it is read.
2. The signature is checked. Nothing of the body is parsed before that.
3. A delivery that is not proved is counted for its address at this webhook, and refused. No number of them keeps out
   one that is proved, and a webhook that is not there is answered and counted alike.
4. A delivery that is proved is counted for the webhook, its nesting is checked, and then it is carried out.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdfast.client.engine import Holdfast
from holdfast.errors import (
    EngineError,
    HoldfastError,
    ServerReadOnly,
    StoreUnavailable,
    TooManyRequests,
    WebhookRefused,
)
from holdfast.server import problems
from holdfast.server.api import body_of
from holdfast.server.decoder import check_depth
from holdfast.server.protection.proxies import sender_of
from holdfast.server.protection.rates import Rates
from holdfast.server.public import PublicRoute
from holdfast.server.route import BODY_LIMIT, JSON
from holdfast.server.router import path_of
from holdfast.server.settings import ServerSettings

WORDS: Final = (
    "Take a delivery for a webhook. It is signed with the webhook's secret; one that comes again is answered with the "
    "same. A refusal of an unproved sender is 401 and tells nothing more."
)


class Hooks:
    """Takes deliveries for one engine."""

    def __init__(self, app: Holdfast, settings: ServerSettings) -> None:
        self._app = app
        self._settings = settings
        self._rates = Rates(settings.hooks_per_second, settings.hooks_at_once)
        self._failures = Rates(settings.failures_per_minute / 60, settings.failures_per_minute)
        self.routes = (PublicRoute(method="POST", path="/hooks/{tenant}/{webhook}", words=WORDS, handler=self._take),)

    async def _take(self, request: Request) -> Response:
        try:
            return await self._taken(request)
        except EngineError:
            raise
        except HoldfastError as error:  # a sender is a program: it gets a problem, never a page
            return problems.answer(error, path_of(request.scope))

    async def _taken(self, request: Request) -> Response:
        tenant, id = request.path_params["tenant"], request.path_params["webhook"]
        place = f"{tenant}/{id}"
        if self._settings.read_only:
            raise ServerReadOnly("this server was started with --read-only: nothing can be changed through it.")
        self._check_open()
        body = await body_of(request, BODY_LIMIT)

        def admit() -> None:
            if seconds := self._rates.take(place):
                raise TooManyRequests("these are more deliveries than one webhook takes.", retry_after=seconds)
            check_depth(body, self._settings.body_depth)

        try:
            outcome = await self._app.webhooks.receive(tenant, id, request.headers, body, admit=admit)
        except WebhookRefused as error:
            if self._failures.take(_digest(place, sender_of(request))):
                raise TooManyRequests("too many deliveries from here were refused.", retry_after=60) from error
            raise
        return Response(msgspec.json.encode(outcome), media_type=JSON)

    def _check_open(self) -> None:
        try:
            self._app.check_open()
        except HoldfastError:
            raise StoreUnavailable("the engine of this server is not open yet, or not any more.") from None


def _digest(place: str, address: str) -> str:
    """A short key for an address at a webhook: a stranger may name webhooks as long as a request's address can be."""
    return hashlib.sha256(f"{address} {place}".encode("utf-8", "surrogatepass")).hexdigest()
