"""The sender: it makes one HTTP call, and tells exactly what came of it.

The rules:

- Secrets are looked up for the attempt, and leave only in the request. What is raised or given quotes none of them.
- An error says whether a write may have been done: it may, as soon as the first byte of the request was sent.
- One time-out covers the whole attempt: connecting, sending, redirects and reading.
- A redirect is followed only where the call says so, to the same host or to those that it lists. Credentials go to no
  other place than the one that was named.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextvars import ContextVar
from fnmatch import fnmatchcase
from typing import Any, Final
from weakref import WeakKeyDictionary

import httpcore
import httpx

from holdfast.errors import AddressRefused, ConnectionFailed, HoldfastError, TransportFailed, TransportTimeout
from holdfast.journal.quotes import without_forms
from holdfast.transports.hosts import HOSTS, may_call
from holdfast.transports.http.answer import LARGEST_ANSWER, Answer, graphql_refusal_of, is_accepted, refusal_of
from holdfast.transports.http.call import HttpCall
from holdfast.transports.http.network import GuardedPool, Pools
from holdfast.transports.http.outgoing import Credentials, credentials_of, request_of

TRY_SECONDS: Final = 30.0
"""How long an attempt may take that does not say it."""
MOST_REDIRECTS: Final = 5
LARGEST_REFUSAL: Final = 64 * 1024
"""How many bytes are read of an answer that is not accepted."""

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})

_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, Pools] = WeakKeyDictionary()
_is_sending: ContextVar[bool] = ContextVar("holdfast-sending", default=False)


class _Silence(logging.Filter):
    """The HTTP library logs headers and addresses of redirects, which may quote a secret."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not _is_sending.get()


for _name in ("httpx", "httpcore.connection", "httpcore.http11", "httpcore.http2", "httpcore.proxy"):
    logging.getLogger(_name).addFilter(_Silence())


class SendingProgress:
    """How far an attempt has come."""

    def __init__(self) -> None:
        self.sent = False  # a byte of a request may have arrived
        self.done_before = False  # an answer left open whether it was carried out, and led elsewhere

    async def trace(self, event: str, _: Mapping[str, Any]) -> None:
        """What the library does, as it does it."""
        if event.endswith("send_request_headers.started"):
            self.sent = True


async def send(call: HttpCall, key: str | None) -> Answer:
    """Make the call. Raises TransportFailed, or SecretMissing."""
    credentials = await credentials_of(call)
    progress = SendingProgress()
    silent = _is_sending.set(True)
    try:
        async with asyncio.timeout(call.timeout or TRY_SECONDS):
            answer = await _follow(call, key, credentials, progress)
    except TransportFailed as error:
        error.members = {"method": call.method, "url": call.target, **error.members}
        error.is_unknown |= call.writes and progress.done_before
        raise
    except HoldfastError:
        raise
    except Exception as error:
        raise _failure_of(error, call, credentials, progress) from None
    finally:
        _is_sending.reset(silent)
    if not is_accepted(call, answer.status):
        raise refusal_of(answer, done_before=progress.done_before)
    if call.answers == "graphql" and (refusal := graphql_refusal_of(answer)) is not None:
        raise refusal
    return answer


async def close() -> None:
    """Close the connections of this event loop."""
    pools = _pools.pop(asyncio.get_running_loop(), None)
    if pools is not None:
        await pools.close()  # an attempt that is under way uses them to its end


# -- the way -----------------------------------------------------------------------------------------------------------


async def _follow(call: HttpCall, key: str | None, credentials: Credentials, progress: SendingProgress) -> Answer:
    """Send the request, and follow redirects as far as the call allows it."""
    async with _pools_here() as pools:
        return await _follow_in(pools, call, key, credentials, progress)


async def _follow_in(
    pools: Pools, call: HttpCall, key: str | None, credentials: Credentials, progress: SendingProgress
) -> Answer:
    request = request_of(call, key, credentials, progress.trace)
    named, pool = request.url, pools.named
    for _ in range(MOST_REDIRECTS + 1):
        _check_host(request.url, call)
        answer = await _exchange(pool, request, call, credentials, progress)
        location = answer.headers.get("location")
        if not call.redirect or answer.status not in _REDIRECTS or location is None:
            return answer
        progress.done_before |= call.writes and answer.status in (301, 302, 303)
        request = _redirected(request, answer.status, location, call, credentials, progress)
        pool = pools.named if _origin(request.url) == _origin(named) else pools.redirected
    raise AddressRefused(
        f"{call.target} leads through more than {MOST_REDIRECTS} redirects: name where it ends",
        members={"method": call.method, "url": call.target},
        is_unknown=progress.done_before,
    )


async def _exchange(
    pool: GuardedPool, request: httpx.Request, call: HttpCall, credentials: Credentials, progress: SendingProgress
) -> Answer:
    progress.sent = False
    response = await pool.handle_async_request(request)
    try:
        limit = LARGEST_ANSWER if is_accepted(call, response.status_code) else LARGEST_REFUSAL
        body, is_cut = await _read(response, limit)
    finally:
        await response.aclose()
    return Answer(
        call=call,
        status=response.status_code,
        headers={name.lower(): value for name, value in response.headers.items()},
        body=body,
        url=str(request.url),
        forms=credentials.forms,
        is_cut=is_cut,
    )


async def _read(response: httpx.Response, limit: int) -> tuple[bytes, bool]:
    parts: list[bytes] = []
    left = limit
    async for part in response.aiter_bytes():
        parts.append(part[:left])
        left -= len(part)
        if left < 0:
            return b"".join(parts), True
    return b"".join(parts), False


def _redirected(
    request: httpx.Request,
    status: int,
    location: str,
    call: HttpCall,
    credentials: Credentials,
    progress: SendingProgress,
) -> httpx.Request:
    """The request that a redirect leads to. Raises AddressRefused where the call does not allow it."""
    try:
        url = request.url.join(location)
    except httpx.InvalidURL:
        raise _refused(call, "to what is no URL", progress) from None
    if url.scheme not in ("http", "https") or not url.host or url.userinfo:
        raise _refused(call, "to what cannot be called", progress)
    hosts = call.redirect if isinstance(call.redirect, list) else []
    if url.host != httpx.URL(call.url).host and not any(fnmatchcase(url.host, host.lower()) for host in hosts):
        raise _refused(call, f"to {url.host}, which its `redirect` does not list", progress)
    headers = httpx.Headers(request.headers)
    headers["Host"] = url.netloc.decode("ascii")
    if _origin(url) != _origin(request.url):
        for name in credentials.headers:
            headers.pop(name, None)
    method, stream = request.method, request.stream
    if status == 303 or (status in (301, 302) and method == "POST"):
        method = method if method == "HEAD" else "GET"
        for name in ("content-length", "content-type", "transfer-encoding"):
            headers.pop(name, None)
        return httpx.Request(method, url, headers=headers, extensions=request.extensions)
    return httpx.Request(method, url, headers=headers, stream=stream, extensions=request.extensions)


def _refused(call: HttpCall, why: str, progress: SendingProgress) -> AddressRefused:
    members = {"method": call.method, "url": call.target}
    return AddressRefused(f"{call.target} redirects {why}", members=members, is_unknown=progress.done_before)


def _check_host(url: httpx.URL, call: HttpCall) -> None:
    if not may_call(url.host):
        members = {"method": call.method, "url": call.target, "host": url.host}
        raise AddressRefused(f"{url.host} is not among the hosts that {HOSTS} lists", members=members)


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _pools_here() -> Pools:
    loop = asyncio.get_running_loop()
    if loop not in _pools:
        _pools[loop] = Pools()
    return _pools[loop]


# -- what went wrong ---------------------------------------------------------------------------------------------------


def _failure_of(
    error: Exception, call: HttpCall, credentials: Credentials, progress: SendingProgress
) -> TransportFailed:
    """What an error of the library means, in words that quote no secret."""
    is_unknown = call.writes and (progress.sent or progress.done_before)
    members = {"method": call.method, "url": call.target}
    what = f"{call.method} {call.target}"
    if isinstance(error, TimeoutError | httpcore.TimeoutException):
        message = f"{what} had no answer within {call.timeout or TRY_SECONDS:g} s"
        return TransportTimeout(message, members=members, retryable=True, is_unknown=is_unknown)
    said = without_forms(_root_of(error), credentials.forms) or type(error).__name__
    if isinstance(error, httpcore.LocalProtocolError | httpcore.UnsupportedProtocol | httpx.InvalidURL):
        return TransportFailed(f"{what} cannot be sent: {said}", members=members)
    if isinstance(error, httpcore.NetworkError | httpcore.ProtocolError | httpx.DecodingError | OSError):
        return ConnectionFailed(f"{what}: {said}", members=members, retryable=True, is_unknown=is_unknown)
    return TransportFailed(f"{what} failed ({type(error).__name__}: {said})", members=members, is_unknown=is_unknown)


def _root_of(error: BaseException) -> str:
    """What the innermost error says: those around it say only that connecting failed."""
    said, inner = str(error), error.__cause__ or error.__context__
    while inner is not None:
        if isinstance(inner, BaseExceptionGroup):
            inner = inner.exceptions[0]
        said = str(inner) or said
        inner = inner.__cause__ or inner.__context__
    return said
