"""Whether a browser's request comes from a page of this server.

A cookie is sent with every request to its site, whichever page caused it. So a request that changes something and is
proved by a cookie must come from our own page. Browsers say so in ``Sec-Fetch-Site``; older ones say ``Origin``. What
says neither is no browser that would have sent the cookie by itself, unless it is very old: it is refused.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from holdfast.errors import CrossSiteRequest


def is_loopback(host: str) -> bool:
    """Whether only this host can reach an address of that name."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_origin(connection: HTTPConnection) -> None:
    """Raises CrossSiteRequest if the request does not come from a page of this server."""
    site = connection.headers.get("sec-fetch-site")
    if site is not None:
        if site in ("same-origin", "none"):
            return
        raise CrossSiteRequest(f"this change was sent by a page of another site ({site}): use the console's own pages.")
    origin = connection.headers.get("origin")
    if origin is None:
        raise CrossSiteRequest("a change that a cookie proves must say where it comes from: Sec-Fetch-Site or Origin.")
    if _place_of(origin) != connection.headers.get("host"):
        raise CrossSiteRequest(f"this change was sent by a page of {origin!r:.100}: use the console's own pages.")


def _place_of(origin: str) -> str | None:
    """The host and port of an origin; None if it is none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None
