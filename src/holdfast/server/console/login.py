"""Logging in and out, and the page on which the first user is made."""

from __future__ import annotations

import contextlib
import hmac
import secrets
from collections.abc import Awaitable, Callable
from importlib import util
from typing import TYPE_CHECKING, Any, Final, Protocol

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from holdfast.client.engine import Holdfast
from holdfast.client.people.sessions import ConsoleSessions
from holdfast.errors import (
    BodyTooLarge,
    CallerError,
    ExtraMissing,
    HoldfastError,
    InvalidToken,
    LoginTooOld,
    NameTaken,
    NotPermitted,
    NotTheOperator,
    ServerReadOnly,
    TooManyRequests,
)
from holdfast.people.permissions import RULE
from holdfast.people.users import USER
from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.server.console import cookies
from holdfast.server.console.returns import local_path
from holdfast.server.console.templating import Paths
from holdfast.server.openid.settings import OpenIdSettings
from holdfast.server.protection.origins import check_origin
from holdfast.server.protection.proxies import sender_of
from holdfast.server.protection.rates import Rates
from holdfast.server.public import PublicRoute
from holdfast.server.settings import ServerSettings
from holdfast.server.step_up import GiveCookie

if TYPE_CHECKING:
    from holdfast.server.openid.login import OpenIdLogin

_LARGEST: Final = 20_000
_USED: Final = "this link was used, or belongs to an earlier start of the server: start it again for another one."


class Render(Protocol):
    """Shows a page."""

    def __call__(self, request: Request, template: str, context: Any, *, status: int = 200) -> Response: ...


class Login:
    """The pages for people who are not logged in."""

    def __init__(
        self, app: Holdfast, settings: ServerSettings, render: Render, openid: OpenIdSettings | None = None
    ) -> None:
        self._app = app
        self._settings = settings
        self._render = render
        self._sessions = ConsoleSessions(app)
        self._failures = Rates(settings.failures_per_minute / 60, settings.failures_per_minute)
        self._key: str | None = None
        self._openid = None if openid is None else self._with(openid)
        self.routes: tuple[PublicRoute, ...] = (
            PublicRoute(method="GET", path="/login", words="The form to log in.", handler=self._ask),
            PublicRoute(method="POST", path="/login", words="Log in with a token.", handler=self._log_in),
            PublicRoute(method="POST", path="/logout", words="Log out.", handler=self._log_out),
            PublicRoute(method="GET", path="/welcome", words="The form for the first user.", handler=self._welcome),
            PublicRoute(method="POST", path="/welcome", words="Make the first user.", handler=self._make_first),
            *(() if self._openid is None else self._openid.routes),
        )

    def _with(self, openid: OpenIdSettings) -> OpenIdLogin:
        """The way in through a provider. Its libraries are loaded only where there is one."""
        if missing := [name for name in ("authlib", "joserfc") if util.find_spec(name) is None]:
            raise ExtraMissing(f"OpenID Connect needs {' and '.join(missing)}: pip install 'holdfast[oidc]'.")
        from holdfast.server.openid.login import OpenIdLogin
        from holdfast.server.openid.provider import Provider

        secrets = self._app.secrets
        if openid.client_secret is not None:
            secrets.reserve(openid.client_secret)
        provider = Provider(openid, secret_of=secrets.login_secret)
        return OpenIdLogin(self._app, openid, self._settings, provider, self.refuse)

    def invite(self) -> str:
        """The path of the page for the first user, good once and until this process ends."""
        self._key = secrets.token_urlsafe(24)
        return f"welcome?key={self._key}"

    async def _ask(self, request: Request) -> Response:
        context: dict[str, Any] = {}
        if request.query_params.get("left") and self._openid is not None:
            context = {"left": True, "logout_address": self._openid.logout_address(request)}
        return self._page(request, to=request.query_params.get("to", ""), **context)

    def _page(self, request: Request, *, status: int = 200, **context: Any) -> Response:
        provider = None if self._openid is None else self._openid.title
        return self._render(request, "login.html", {"to": "", "provider": provider, **context}, status=status)

    def refuse(self, request: Request, error: HoldfastError) -> Response:
        """The page to log in, with why somebody was not let in."""
        to = request.query_params.get("to", "")
        return self._page(request, status=error.http_status, to=to, refusal=str(error))

    async def _log_in(self, request: Request) -> Response:
        address = sender_of(request)
        typed = await self._typed(request)
        to = _text(typed, "to")
        try:
            if self._failures.is_empty(address):
                raise TooManyRequests("too many logins from here have failed: wait a minute.", retry_after=60)
            secret = await self._sessions.begin(_text(typed, "token").strip())
        except (InvalidToken, NotPermitted, TooManyRequests) as error:
            self._failures.take(address)
            return self._page(request, status=error.http_status, to=to, refusal=str(error))
        if (before := cookies.session_of(request)) is not None:
            await self._sessions.end(before)
        response = RedirectResponse(local_path(request, to), 303)
        cookies.give_session(response, request, secret)
        return response

    @property
    def provider(self) -> dict[str, str]:
        """The provider's title, where there is one."""
        return {} if self._openid is None else {"provider": self._openid.title}

    async def renew(self, request: Request, renew: Callable[[str], Awaitable[GiveCookie]], proof: str) -> GiveCookie:
        """Take a proof once more. Raises LoginTooOld for a wrong one, and TooManyRequests."""
        address = sender_of(request)
        if self._failures.is_empty(address):
            raise TooManyRequests("too many logins from here have failed: wait a minute.", retry_after=60)
        try:
            return await renew(proof)
        except (InvalidToken, NotPermitted, NotTheOperator) as error:
            self._failures.take(address)
            raise LoginTooOld(str(error)) from None

    async def _log_out(self, request: Request) -> Response:
        check_origin(request)
        ended = None
        if (secret := cookies.session_of(request)) is not None:
            ended = await self._sessions.end(secret)
        left = "yes" if ended is not None and ended.issuer else None
        response = RedirectResponse(Paths(request.scope.get("root_path", ""))("login", left=left), 303)
        cookies.take_session(response, request)
        return response

    async def _welcome(self, request: Request) -> Response:
        key = request.query_params.get("key", "")
        if not await self._is_invited(key):
            return self._page(request, status=404, refusal=_USED)
        return self._render(request, "welcome.html", {"key": key, "name": "", "token": None})

    async def _make_first(self, request: Request) -> Response:
        typed = await self._typed(request)
        key, name = _text(typed, "key"), _text(typed, "name").strip()
        if self._settings.read_only:
            raise ServerReadOnly("this server was started with --read-only: nothing can be changed through it.")
        if not await self._is_invited(key):
            return self._page(request, status=404, refusal=_USED)
        self._key = None  # before anything is waited for: sent twice at once, the link is good once
        try:
            token = await self._first_token(name)
        except HoldfastError as error:
            self._key = key
            if not isinstance(error, CallerError):
                raise
            context = {"key": key, "name": name, "token": None, "refusal": str(error)}
            return self._render(request, "welcome.html", context, status=error.http_status)
        response = self._render(request, "welcome.html", {"key": "", "name": name, "token": token})
        cookies.give_session(response, request, await self._sessions.begin(token))
        return response

    async def _first_token(self, name: str) -> str:
        app, reason = self._app, "the first user"
        with contextlib.suppress(NameTaken):
            await app.tenants.create(DEFAULT_TENANT, by=name, reason=reason)
        await app.users.create(name, level=RULE, tenant=DEFAULT_TENANT, by=name, reason=reason)
        return (await app.tokens.mint(name, purpose="console", tenant=DEFAULT_TENANT, by=name, reason=reason)).text

    async def _is_invited(self, key: str) -> bool:
        has_users = bool(await self._app.whole_store.items(USER, 1))
        return not has_users and self._key is not None and hmac.compare_digest(key.encode(), self._key.encode())

    async def _typed(self, request: Request) -> FormData:
        """The form, which must come from a page of this server: nobody else may log a person in or out."""
        check_origin(request)
        check_size(request, _LARGEST)
        return await request.form()


def check_size(request: Request, limit: int) -> None:
    """Raises BodyTooLarge where a form is larger, or does not say how large it is."""
    length = request.headers.get("content-length", "")
    if not length.isdecimal() or int(length) > limit:
        raise BodyTooLarge(f"a form says how large it is, and has {limit} bytes at most.")


def _text(typed: FormData, name: str) -> str:
    value = typed.get(name, "")
    return value if isinstance(value, str) else ""
