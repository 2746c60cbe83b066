"""``Server``: the API of one engine as an ASGI application, which stands alone or is mounted in another one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.client.engine import Holdfast
from holdfast.client.parts import load_parts
from holdfast.client.people.login_secrets import record_login_secret
from holdfast.errors import InvalidSettings
from holdfast.server.api import Api
from holdfast.server.authentication import Authenticator, BearerTokens
from holdfast.server.console.console import Console
from holdfast.server.console.cookies import SessionCookies
from holdfast.server.health import Health
from holdfast.server.hooks import Hooks
from holdfast.server.metrics import Metrics
from holdfast.server.openapi import document
from holdfast.server.openid.settings import OpenIdSettings, check_settings
from holdfast.server.operator import Operator, OperatorLinks
from holdfast.server.protection.headers import SecurityHeaders
from holdfast.server.protection.proxies import ForwardedRequests, TrustedProxies
from holdfast.server.public import PublicRoute
from holdfast.server.route import JSON, Route
from holdfast.server.routes.table import ROUTES
from holdfast.server.settings import ServerSettings
from holdfast.server.streams.watcher import StreamWatcher

if TYPE_CHECKING:
    from holdfast.slack import Slack


class Server:
    """The HTTP server of an engine. ``asgi`` is its application.

    ``app`` is opened and closed by whoever made it, or else by the application's own lifespan: where ``asgi`` stands
    alone, an engine that is not open is opened with the server and closed with it. Mounted in another application,
    open the engine in that one's lifespan, and ``await server.stop_streams()`` when it ends.

    ``authenticators`` say who sends a request, in order; by default tokens and logins to the console do. ``routes`` and
    ``public`` are added to those of the API. With ``console`` it has pages for people, too; with ``openid`` they log in
    with a provider of identities as well as with tokens. ``slack`` is started and stopped with the server; with a
    signing secret it has a route, to which Slack sends what people press.
    """

    def __init__(
        self,
        app: Holdfast,
        *,
        settings: ServerSettings | None = None,
        authenticators: Sequence[Authenticator] | None = None,
        routes: Sequence[Route] = (),
        public: Sequence[PublicRoute] = (),
        console: bool = True,
        openid: OpenIdSettings | None = None,
        slack: Slack | None = None,
    ) -> None:
        self.app = app
        load_parts(app)
        app.readers.serves = True
        self.slack = slack
        self._openid = openid
        self.settings = settings or ServerSettings()
        self.watcher = StreamWatcher(app, self.settings.stream_limit, self.settings.stream_limit_each)
        self.console = Console(app, self.settings, openid) if console else None
        ways = self._usual_ways() if authenticators is None else tuple(authenticators)
        if openid is not None:
            _check_openid(openid, ways, has_console=console)
        self.is_open_to_all = any(way.is_open_to_all for way in ways)
        self.metrics = Metrics(app, self.watcher, self.settings.metrics_token, is_open_to_all=self.is_open_to_all)
        self.routes: tuple[Route, ...] = (*ROUTES, *routes)
        self.public: tuple[PublicRoute, ...] = (
            *Health(app).routes,
            *Hooks(app, self.settings).routes,
            self.metrics.route,
            PublicRoute(
                method="GET",
                path="/openapi.json",
                words="This API as an OpenAPI 3.1 document.",
                handler=self._described,
            ),
            *self._slack_routes(),
            *public,
        )
        fail = None if self.console is None else self.console.fail
        everything = (*self.routes, *self.public, *self._pages())
        observe = self.metrics.request_ended
        self._api = Api(app, everything, ways, self.settings, self.watcher, observe, fail)
        self._document = cache(self._made)
        self._opened = False
        proxies = TrustedProxies(self.settings.trusted_proxies)
        entrance: ASGIApp = ForwardedRequests(self._serve, proxies)
        for operator in (way for way in ways if isinstance(way, Operator)):
            entrance = OperatorLinks(entrance, operator)
        self.asgi: ASGIApp = SecurityHeaders(entrance)

    def _usual_ways(self) -> tuple[Authenticator, ...]:
        """Tokens, and logins to the console where there is one."""
        tokens = BearerTokens(self.app)
        return (tokens,) if self.console is None else (tokens, SessionCookies(self.app))

    def _slack_routes(self) -> tuple[PublicRoute, ...]:
        if self.slack is None:
            return ()
        from holdfast.server.slack_route import slack_routes

        return slack_routes(self.slack, self.app.clock)

    def _pages(self) -> tuple[Route | PublicRoute, ...]:
        return () if self.console is None else (*self.console.routes, *self.console.public)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._api(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _live(self, receive: Receive, send: Send) -> None:
        """Open and close the engine with the server, where nobody else does."""
        await receive()
        try:
            await self.open()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            raise
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def open(self) -> None:
        """Open the engine, if it is not open yet, and begin to show approvals in Slack, if it is to."""
        if not self.app.is_open:
            await self.app.open()
            self._opened = True
        await self.keep_login_secret()
        if self.slack is not None:
            self.slack.start(serves=True)

    async def keep_login_secret(self) -> None:
        """Record which secret logs people in, so that no process on the store lets a tenant use it."""
        if self._openid is not None and self._openid.client_secret is not None:
            await record_login_secret(self.app, self._openid.client_secret)

    async def close(self) -> None:
        """End all streams, and close the engine if ``open`` has opened it. Safe to call twice."""
        await self.stop_streams()
        if self.slack is not None:
            await self.slack.stop()
        if self._opened:
            self._opened = False
            await self.app.close()

    async def stop_streams(self) -> None:
        """End all open streams at once. A server that waits for its connections would wait for them."""
        await self.watcher.stop()

    async def _described(self, request: Request) -> Response:
        root = request.scope.get("root_path", "")
        return Response(self._document(root or "/"), media_type=JSON)

    def _made(self, prefix: str) -> bytes:
        return msgspec.json.encode(self.document(prefix))

    def document(self, prefix: str = "/") -> dict[str, Any]:
        """The OpenAPI document of this server."""
        return document(self.routes, self.public, prefix)


def _check_openid(openid: OpenIdSettings, ways: Sequence[Authenticator], *, has_console: bool) -> None:
    """Raises InvalidSettings where people could log in, and would not be known afterwards."""
    check_settings(openid)
    if not has_console or not any(isinstance(way, SessionCookies) for way in ways):
        raise InvalidSettings("OpenID Connect logs people in to the console: let it be, with SessionCookies(app).")
