"""The way of a request: its route, who sends it, whether they may, what they ask for, and the answer.

1. The path and the method name a route.
2. An authenticator says who sends the request. Their rate is counted.
3. A change that no token proves must come from our own page. A server that only shows refuses changes.
4. The operation is judged, as of now. All that follows is part of it.
5. Query and body are read into the route's types.
6. What would do the most harm needs a fresh login.
7. The handler gives a view, which is written as JSON; or a file, or a stream.

Whatever fails is answered as a problem.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.client.engine import Holdfast
from holdfast.client.people.permission import CallerChanged, operating
from holdfast.errors import (
    BodyTooLarge,
    CallerError,
    EngineError,
    HoldfastError,
    MalformedRequest,
    NotAuthenticated,
    ServerReadOnly,
    StoreUnavailable,
    TooManyRequests,
    UnsupportedMedia,
)
from holdfast.runs.tracing import TRACEPARENT, receive_trace
from holdfast.server import problems
from holdfast.server.answers import writer_of
from holdfast.server.authentication import Authenticator, authenticate
from holdfast.server.call import Acting, Answered, Events, FileAnswer, RouteCall
from holdfast.server.decoder import read_body, read_query
from holdfast.server.protection.origins import check_origin
from holdfast.server.protection.proxies import sender_of
from holdfast.server.protection.rates import Rates
from holdfast.server.public import PublicRoute
from holdfast.server.route import EVENTS, JSON, Route
from holdfast.server.router import Match, Router, path_of
from holdfast.server.settings import ServerSettings
from holdfast.server.step_up import check_login
from holdfast.server.streams.guard import EventStream
from holdfast.server.streams.watcher import StreamWatcher

log = logging.getLogger("holdfast.server")

Observe = Callable[[str, str, int, float], None]
"""Called after each request with the method, the route's path, the status and the seconds that it took."""

Fail = Callable[[HoldfastError, Request], Response]
"""Makes the answer to a request that failed."""

HUNG_UP: Final = 499
"""The status, as proxies count it, of a request whose sender left before it was there. It is only seen in metrics."""

_UNEXPECTED: Final = "something went wrong that nobody expected: the server's log says what. Nothing was half done."


def as_problem(error: HoldfastError, request: Request) -> Response:
    """The answer to a program."""
    return problems.answer(error, path_of(request.scope))


def wants_page(request: Request) -> bool:
    """Whether the answer is for a person: JSON is only for those who ask for it."""
    accept = request.headers.get("accept", "")
    return "text/html" in accept or JSON not in accept


class Api:
    """Answers requests for one engine."""

    def __init__(
        self,
        app: Holdfast,
        routes: Sequence[Route | PublicRoute],
        ways: Sequence[Authenticator],
        settings: ServerSettings,
        watcher: StreamWatcher,
        observe: Observe,
        fail: Fail | None = None,
    ) -> None:
        self._app = app
        self._fail = fail or as_problem
        self._router: Router[Route | PublicRoute] = Router(routes)
        self._writers = {route: writer_of(route.answer) for route in routes if isinstance(route, Route)}
        self._ways = ways
        self._settings = settings
        self._watcher = watcher
        self._observe = observe
        self._rates = Rates(settings.requests_per_second, settings.requests_at_once)
        self._failures = Rates(settings.failures_per_minute / 60, settings.failures_per_minute)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        if (trace := request.headers.get(TRACEPARENT)) is not None:
            receive_trace(trace)
        response = await self.respond(request)
        with contextlib.suppress(ClientDisconnect):
            await response(scope, receive, send)

    async def respond(self, request: Request) -> Response:
        """The response to a request; a problem where something fails."""
        began, path = perf_counter(), path_of(request.scope)
        try:
            match = self._find(request, path)
        except HoldfastError as error:
            return self._fail(error, request)
        response = await self._answered(request, match, path)
        self._observe(match.route.method, match.route.path, response.status_code, perf_counter() - began)
        return response

    async def _answered(self, request: Request, match: Match[Any], path: str) -> Response:
        try:
            if isinstance(match.route, PublicRoute):
                request.scope["path_params"] = dict(match.parameters)
                return await match.route.handler(request)
            return await self._authenticated(request, match.route, match)
        except HoldfastError as error:
            if isinstance(error, EngineError):
                log.exception("%s %s failed", request.method, path)
            return self._fail(error, request)
        except ClientDisconnect:
            return Response(status_code=HUNG_UP)
        except Exception:
            log.exception("%s %s failed", request.method, path)
            return self._fail(EngineError(_UNEXPECTED), request)

    def _find(self, request: Request, path: str) -> Match[Route | PublicRoute]:
        """The route that is meant. For whoever wants JSON, the address of a page is that of the same as JSON."""
        match = self._router.find(request.method, path)
        data = match.route.data if isinstance(match.route, Route) else ""
        if not data or wants_page(request):
            return match
        request.state.is_page = True
        return Match(self._router.route_of(request.method, data), match.parameters)

    async def _authenticated(self, request: Request, route: Route, match: Match[Any]) -> Response:
        try:
            acting = await authenticate(self._ways, request)
            if seconds := self._rates.take(acting.key):
                raise TooManyRequests("these are more requests than one caller may make.", retry_after=seconds)
            if acting.proof != "token" and request.method not in ("GET", "HEAD"):
                check_origin(request)
            if route.changes and self._settings.read_only:
                raise ServerReadOnly("this server was started with --read-only: nothing can be changed through it.")
            self._check_open()
            return await self._judged(request, route, match, acting)
        except CallerError as error:
            # Only failures are counted and refused: one bad client must not lock out others at the same address.
            if error.http_status == NotAuthenticated.http_status and self._failures.take(sender_of(request)):
                raise TooManyRequests(
                    "too many requests from here failed to say who sends them.", retry_after=60
                ) from error
            raise

    def _check_open(self) -> None:
        try:
            self._app.check_open()
        except HoldfastError:
            raise StoreUnavailable("the engine of this server is not open yet, or not any more.") from None

    async def _judged(self, request: Request, route: Route, match: Match[Any], acting: Acting) -> Response:
        call: RouteCall[Any, Any] | None = None
        while True:
            try:
                async with operating(acting.client, route.operation, acting.tenant):
                    if call is None:
                        call = await self._read(request, route, match, acting)
                    if not route.checks_login:
                        await check_login(call, route.operation, changes=route.changes)
                    answer = await route.handler(call)
                    if not isinstance(answer, Events):
                        return self._written(route, answer)
            except CallerChanged:
                continue  # nothing was committed: it is judged anew
            return await self._streamed(answer, request)

    async def _read(self, request: Request, route: Route, match: Match[Any], acting: Acting) -> RouteCall[Any, Any]:
        pairs = request.query_params.multi_items()
        if getattr(request.state, "is_page", False):  # what only the page understands is left out
            pairs = [(name, value) for name, value in pairs if name in route.query.__struct_encode_fields__]
        query = read_query(pairs, route.query)
        body = None
        if route.body is not None:
            check_media(request)
            body = read_body(await body_of(request, route.body_limit), route.body, self._settings.body_depth)
        return RouteCall(self._app, request, acting, match.parameters, query, body, self._settings, self._watcher)

    async def _streamed(self, answer: Events, request: Request) -> Response:
        stream = await EventStream.begin(answer.stream, path_of(request.scope))
        if request.method != "HEAD":
            return stream
        await stream.end()  # nobody reads it
        return Response(media_type=EVENTS)

    def _written(self, route: Route, answer: Any) -> Response:
        match answer:
            case Response():
                return answer
            case FileAnswer(data=data, media=media, name=name, headers=more):
                headers = {"Content-Disposition": f'attachment; filename="{_file_name(name)}"'} if name else {}
                return Response(data, headers={**headers, **more}, media_type=media)
            case Answered(view=view, headers=headers):
                return Response(self._writers[route](view), route.status, headers, media_type=JSON)
            case None if route.answer is None:
                return Response(status_code=204)
            case _:
                return Response(self._writers[route](answer), route.status, media_type=JSON)


def _file_name(name: str) -> str:
    return "".join(sign if sign.isascii() and (sign.isalnum() or sign in "._-") else "_" for sign in name)[:120]


def check_media(request: Request) -> None:
    """Raises UnsupportedMedia where there is a body of another type. A browser's form cannot send JSON by itself."""
    given = request.headers.get("content-type")
    if given is None and request.headers.get("content-length", "0") == "0":
        return
    media = (given or "").partition(";")[0].strip().lower()
    if media != JSON and not media.endswith("+json"):
        raise UnsupportedMedia(f"the body is {media or 'of no type'}: send JSON, as Content-Type: application/json.")


async def body_of(request: Request, limit: int) -> bytes:
    """The body. Raises BodyTooLarge before more than the limit is kept."""
    stated = request.headers.get("content-length", "0")
    if not stated.isdecimal():
        raise MalformedRequest("Content-Length is no number", [("header/Content-Length", "it is no number")])
    too_large = BodyTooLarge(f"the body may have {limit} bytes at most.")
    if int(stated) > limit:
        raise too_large
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise too_large
        parts.append(part)
    return b"".join(parts)
