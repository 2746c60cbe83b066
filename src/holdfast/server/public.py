"""Routes that anybody may use, without saying who they are: health, the description of the API, the page to log in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdfast.server.route import Method


class PublicRoute(msgspec.Struct, frozen=True, kw_only=True):
    """One method on one path that needs no authentication. It must show nothing of any tenant."""

    method: Method
    path: str
    words: str
    handler: Callable[[Request], Awaitable[Response]]
