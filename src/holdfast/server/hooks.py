"""The addresses of webhooks. Whoever sends something there is proved by the signature of what they send, and by that
alone: no token is looked at, and without a good signature nothing is told but that it is refused."""

from __future__ import annotations

import logging
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdfast.client.engine import Holdfast
from holdfast.errors import (
    EngineError,
    HoldfastError,
    KeyLocked,
    SecretMissing,
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

log = logging.getLogger("holdfast.webhooks")

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
        except (SecretMissing, KeyLocked) as error:  # who proves nothing is told nothing of secrets, not even names
            log.warning("a delivery could not be checked: %s", error)
            cannot = StoreUnavailable("deliveries to this webhook cannot be checked just now.")
            return problems.answer(cannot, path_of(request.scope))
        except HoldfastError as error:  # a sender is a program: it gets a problem, never a page
            return problems.answer(error, path_of(request.scope))

    async def _taken(self, request: Request) -> Response:
        tenant, id = request.path_params["tenant"], request.path_params["webhook"]
        address, place = sender_of(request), f"{tenant}/{id}"
        if self._failures.is_empty(address):
            raise TooManyRequests("too many deliveries from here were refused.", retry_after=60)
        if seconds := self._rates.take(place):
            raise TooManyRequests("these are more deliveries than one webhook takes.", retry_after=seconds)
        if self._settings.read_only:
            raise ServerReadOnly("this server was started with --read-only: nothing can be changed through it.")
        self._check_open()
        body = await body_of(request, BODY_LIMIT)
        check_depth(body, self._settings.body_depth)
        try:
            outcome = await self._app.webhooks.receive(tenant, id, request.headers, body)
        except WebhookRefused:
            self._failures.take(address)
            self._rates.give_back(place)  # else strangers could use up what its sender may send
            raise
        return Response(msgspec.json.encode(outcome), media_type=JSON)

    def _check_open(self) -> None:
        try:
            self._app.check_open()
        except HoldfastError:
            raise StoreUnavailable("the engine of this server is not open yet, or not any more.") from None
