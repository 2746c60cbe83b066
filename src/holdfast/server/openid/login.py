"""A login with OpenID Connect: to the provider, and back with a code.

What a login is known by is kept in a cookie of the browser that began it, for ten minutes: so nobody can be led into
somebody else's login, any server behind the same address can finish it, and strangers make nothing be stored. The way
back is checked in this order: it was begun in this browser; it is of this provider; the provider let the person in;
what it says of them can be trusted; and they mean somebody here. Only then anything is changed.
"""

from __future__ import annotations

import base64
import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from holdfast.client.engine import Holdfast
from holdfast.client.people.identities import Identities
from holdfast.errors import CallerError, HoldfastError, LoginRefused, ProviderFailed, TooManyRequests
from holdfast.people.identities import LONGEST
from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.server.console import cookies
from holdfast.server.console.returns import local_path
from holdfast.server.console.templating import Paths
from holdfast.server.openid.mapping import vouched_for
from holdfast.server.openid.provider import LoginSecrets, Provider, describe_error
from holdfast.server.openid.settings import OpenIdSettings
from holdfast.server.protection.proxies import sender_of
from holdfast.server.protection.rates import Rates
from holdfast.server.public import PublicRoute
from holdfast.server.settings import ServerSettings
from holdfast.server.step_up import ProvedLogin

log = logging.getLogger("holdfast.server")

ADDRESS: Final = ("login", "oidc")
BACK: Final = (*ADDRESS, "callback")
LONGEST_RETURN: Final = 1200
"""In bytes. Browsers drop a cookie of more than 4096, and this is a part of one."""

NOTES_PER_MINUTE: Final = 10.0
"""Refusals that one tenant's audit keeps: strangers must not fill it."""

_BEGIN_AGAIN: Final = "this login was not begun in this browser, or too long ago: begin it again."
_ASK: Final = "Ask a user of level 6, or the operator of this server, for access."

_SWITCH: Final = "If it never does, the operator of this server can do without (`--step-up-seconds 0`)."

Refuse = Callable[[Request, HoldfastError], Response]
"""Shows the page to log in, with why somebody was not let in."""


class OpenIdLogin:
    """The two routes of a login with one provider."""

    def __init__(
        self, app: Holdfast, openid: OpenIdSettings, settings: ServerSettings, provider: Provider, refuse: Refuse
    ) -> None:
        self._openid = openid
        self._settings = settings
        self._provider = provider
        self._refuse = refuse
        self._identities = Identities(app)
        self._failures = Rates(settings.failures_per_minute / 60, settings.failures_per_minute)
        self._notes = Rates(NOTES_PER_MINUTE / 60, NOTES_PER_MINUTE)
        self._clock = app.clock
        self.title = openid.shown_title
        self.routes = (
            PublicRoute(
                method="GET",
                path="/" + "/".join(ADDRESS),
                words="Leads to the provider of identities.",
                handler=self._go,
            ),
            PublicRoute(
                method="GET",
                path="/" + "/".join(BACK),
                words="Where the provider leads back to.",
                handler=self._come_back,
            ),
        )

    def logout_address(self, request: Request) -> str | None:
        """Where to log out at the provider, too; None where that is not known."""
        return self._provider.logout_address(self._address(request, "login"))

    def _address(self, request: Request, *parts: str) -> str:
        """The whole address of something of this server, as browsers see it."""
        if self._openid.address:
            return f"{self._openid.address.rstrip('/')}/{'/'.join(parts)}"
        return f"{request.url.scheme}://{request.url.netloc}{Paths(request.scope.get('root_path', ''))(*parts)}"

    async def _go(self, request: Request) -> Response:
        to = request.query_params.get("to", "")
        login = LoginSecrets(
            secrets.token_urlsafe(32),
            secrets.token_urlsafe(32),
            secrets.token_urlsafe(48),
            to if len(to.encode()) <= LONGEST_RETURN else "",
            again=bool(request.query_params.get("again")),
        )
        try:
            address = await self._provider.login_address(login, self._address(request, *BACK))
        except ProviderFailed as error:
            return self._refuse(request, error)
        response = RedirectResponse(address, 303)
        cookies.keep_login(response, request, base64.urlsafe_b64encode(msgspec.json.encode(login)).decode())
        return response

    async def _come_back(self, request: Request) -> Response:
        response = await self._guarded(request, self._finished)
        cookies.forget_login(response, request)  # good once, whatever came of it
        return response

    async def _guarded(self, request: Request, work: Callable[[Request], Awaitable[Response]]) -> Response:
        sender = sender_of(request)
        try:
            if self._failures.is_empty(sender):
                raise TooManyRequests("too many logins from here have failed: wait a minute.", retry_after=60)
            return await work(request)
        except (CallerError, ProviderFailed) as error:
            self._failures.take(sender)
            return self._refuse(request, error)

    async def _finished(self, request: Request) -> Response:
        login = _login_of(request)
        await self._check_answer(request)
        code = request.query_params.get("code")
        if not code:
            raise LoginRefused(_BEGIN_AGAIN)
        claims = await self._provider.claims(code, login, self._address(request, *BACK))
        proved_at = self._proved_at(claims, login)
        account = {"issuer": self._openid.issuer, "subject": str(claims["sub"])[:LONGEST]}
        try:
            vouched = vouched_for(self._openid, claims)
            secret = await self._identities.begin(
                vouched, make=self._openid.make_users, read_only=self._settings.read_only, proved_at=proved_at
            )
        except CallerError as error:
            await self._note(error, account)
            if not isinstance(error, LoginRefused):
                raise
            raise LoginRefused(f"{error} {_ASK}") from None
        if (before := cookies.session_of(request)) is not None:
            await self._identities.end(before)
        response = RedirectResponse(local_path(request, login.to), 303)
        cookies.give_session(response, request, secret)
        return response

    def _proved_at(self, claims: Mapping[str, Any], login: LoginSecrets) -> int:
        """When the person authenticated, as the signed ID token says; 0 if it does not.

        Raises LoginRefused if they were to authenticate again, and have not.
        """
        now, at = self._clock.now(), claims.get("auth_time")
        known = isinstance(at, int) and not isinstance(at, bool)
        found = max(0, min(int(at or 0) * 1_000_000, now)) if known else 0
        if login.again and not ProvedLogin(found, "provider").is_fresh(now, self._settings.step_up_seconds):
            why = "did not ask you for a proof anew" if known else "does not say when you authenticated (auth_time)"
            raise LoginRefused(f"{self.title} {why}. {_SWITCH}")
        return found

    async def _check_answer(self, request: Request) -> None:
        """Raises LoginRefused where another provider answers, or this one has not let the person in."""
        given = request.query_params
        found = await self._provider.metadata()
        issuer = given.get("iss")
        if issuer != self._openid.issuer and (
            issuer is not None or found.authorization_response_iss_parameter_supported
        ):
            raise LoginRefused("this answer is of another provider than the one that was asked: begin the login again.")
        if (error := given.get("error")) is not None:
            why = given.get("error_description", "")
            log.warning("OpenID Connect: the provider refused a login: %.60r %.200r", error, why)
            raise LoginRefused(f"{self.title} did not let you in{describe_error(error)}.")

    async def _note(self, error: CallerError, account: dict[str, str]) -> None:
        """Keep a refusal: in the log, and in the audit of the tenant that is meant, at most so many a minute."""
        tenant = getattr(error, "tenant", None) or DEFAULT_TENANT
        log.warning("OpenID Connect: %s of %s was refused: %s", account["subject"], account["issuer"], error)
        if isinstance(error, LoginRefused) and not self._settings.read_only and not self._notes.take(tenant):
            await self._identities.note_refusal(error, tenant, account["issuer"], account["subject"])


def _login_of(request: Request) -> LoginSecrets:
    """The login that this browser has begun. Raises LoginRefused where it is not the one that the address names."""
    given = request.query_params.getlist("state")
    try:
        kept = msgspec.json.decode(base64.urlsafe_b64decode(cookies.login_of(request) or ""), type=LoginSecrets)
    except (ValueError, msgspec.DecodeError, RecursionError):
        raise LoginRefused(_BEGIN_AGAIN) from None
    if len(given) != 1 or not kept.state or not hmac.compare_digest(given[0].encode(), kept.state.encode()):
        raise LoginRefused(_BEGIN_AGAIN)
    return kept
