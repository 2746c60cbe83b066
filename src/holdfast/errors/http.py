"""Errors of the HTTP server: a request that is refused before any operation is asked for, or by the server itself."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors.caller import CallerError, InvalidRequest
from holdfast.errors.root import HoldfastError


class MalformedRequest(InvalidRequest):
    """A query, a header or a body is not what its route takes: mend each place that ``problems`` names.

    Each problem is the place (``body/attributes``, ``query/limit``) and what is wrong there.
    """

    code = "malformed_request"

    def __init__(self, message: str, problems: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class NotAuthenticated(CallerError):
    """The request does not say who sends it: give a token, as ``Authorization: Bearer hf_…``."""

    code = "not_authenticated"
    http_status = 401


class NotTheOperator(NotAuthenticated):
    """This server is for its operator alone: on its host and without a proxy, open the link that it printed when it
    started, or that ``holdfast link`` prints. Programs send its key as ``Authorization: Bearer …``."""

    code = "not_the_operator"


class LoginRefused(CallerError):
    """A login with a provider of identities was not accepted: log in again, or ask the administrator for access.

    ``tenant`` and ``user`` are whom the provider's claims mean, where they say so. ``level`` is given if only a link
    that a person makes is missing: the level of the login.
    """

    code = "login_refused"
    http_status = 403

    def __init__(
        self, message: str, *, tenant: str | None = None, user: str | None = None, level: int | None = None
    ) -> None:
        super().__init__(message)
        self.tenant = tenant
        self.user = user
        self.level = level


class ProviderFailed(HoldfastError):
    """The provider of identities did not answer, or not as it must: try again; the server's log says what was wrong."""

    code = "provider_failed"
    http_status = 502


class LoginTooOld(CallerError):
    """Whoever uses this browser proved who they are too long ago for what they ask: prove it again, as the page says,
    or send a token (``Authorization: Bearer …``)."""

    code = "login_too_old"
    http_status = 403


class CrossSiteRequest(CallerError):
    """A page of another site sent a request that changes something, with this site's cookie: send it from here."""

    code = "cross_site_request"
    http_status = 403


class ServerReadOnly(CallerError):
    """The server was started to be looked at only: use another one to change something."""

    code = "server_read_only"
    http_status = 403


class RouteNotFound(CallerError):
    """There is nothing at this path: ``/openapi.json`` lists what there is."""

    code = "route_not_found"
    http_status = 404


class MethodNotAllowed(CallerError):
    """There is something at this path, and not for this method: the header ``Allow`` names the methods."""

    code = "method_not_allowed"
    http_status = 405

    def __init__(self, message: str, *, allowed: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.allowed = tuple(allowed)


class BodyTooLarge(CallerError):
    """The body has more bytes than its route takes: send less, or in several requests."""

    code = "body_too_large"
    http_status = 413


class UnsupportedMedia(CallerError):
    """The body is not JSON: send it as ``Content-Type: application/json``."""

    code = "unsupported_media"
    http_status = 415


class TooManyRequests(CallerError):
    """More requests than this caller may make in the time: wait for as long as ``Retry-After`` says."""

    code = "too_many_requests"
    http_status = 429

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after
