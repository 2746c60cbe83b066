"""URLs of requests, read so strictly that nobody can read them otherwise.

What the gate judges is the host that is written here. So whatever two readers of a URL might understand differently is
refused: user names, backslashes, blanks, percent signs and other alphabets in a host, dots that lead upwards in a path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from holdfast.errors import InvalidRequest

LONGEST: Final = 8000
"""How many characters a URL has at most."""

_URL: Final = re.compile(r"(https?)://([^/?#]*)([^?#]*)(\?[^#]*)?(?:#.*)?", re.IGNORECASE | re.DOTALL)
_HOST: Final = re.compile(r"([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?")
_UNFIT: Final = re.compile(r"[\x00-\x20\x7f\\]")
_PLACE: Final = re.compile(r"\{([^{}]*)\}")
_PORTS: Final = {"http": 80, "https": 443}


class Url(NamedTuple):
    """A URL: all of it, its host without brackets, and what the gate is told, which is all before the query."""

    text: str
    host: str
    target: str


def read_url(text: object, what: str) -> Url:
    """A URL of a request. Raises InvalidRequest, which never quotes what may be a password."""
    if not isinstance(text, str) or len(text) > LONGEST:
        raise InvalidRequest(f"{what} is a URL of at most {LONGEST} characters, such as https://api.example/orders")
    parts = _URL.fullmatch(text)
    if parts is None:
        raise InvalidRequest(f"{what} begins with https:// or http:// and a host")
    scheme, place, path, query = parts[1].lower(), parts[2], parts[3], parts[4] or ""
    if "@" in place:
        raise InvalidRequest(f"{what} has a user name in it: say it with `auth`, and a password as a secret's name")
    if _UNFIT.search(text):
        raise InvalidRequest(f"{what} has a blank, a backslash or a control character in it: percent-encode it")
    host = _HOST.fullmatch(place)
    if host is None or not 0 < int(host[2] or 1) < 65536:
        raise InvalidRequest(
            f"{what} has no host that can be called ({place[:80]!r}): write it in ASCII (xn--…), its port up to 65535"
        )
    if any(_is_dots(part) for part in path.split("/")):
        raise InvalidRequest(f"{what} has `.` or `..` in its path: write where it leads")
    name, port = host[1].lower(), int(host[2] or _PORTS[scheme])
    place = name if port == _PORTS[scheme] else f"{name}:{port}"
    target = f"{scheme}://{place}{path or '/'}"
    return Url(target + query, name.strip("[]"), target)


def _is_dots(part: str) -> bool:
    return part.lower().replace("%2e", ".") in (".", "..")


def places_of(path: str) -> list[str]:
    """The names of the places in a path that are to be filled."""
    return _PLACE.findall(path)


def filled(path: str, given: Mapping[str, Any], what: str) -> tuple[str, dict[str, Any]]:
    """A path with its places filled, and what is left of the arguments. Raises InvalidRequest."""
    left = dict(given)

    def fill(place: re.Match[str]) -> str:
        name = place[1]
        if name not in given:
            raise InvalidRequest(f"{what}: its path {path!r} wants `{name}`: give it in `with`")
        left.pop(name, None)
        text = scalar(given[name], f"{what}: `{name}`")
        if not text or _is_dots(text):
            raise InvalidRequest(f"{what}: `{name}` is {text!r}, which would change the path")
        return quote(text, safe="")

    return _PLACE.sub(fill, path), left


def query_of(given: object, what: str) -> dict[str, str | list[str]]:
    """Names and values of a query as texts. One that is null is left out, a list is repeated. Raises InvalidRequest."""
    if not isinstance(given, Mapping):
        raise InvalidRequest(f"{what} is a map of names and values")
    found: dict[str, str | list[str]] = {}
    for name, value in given.items():
        if isinstance(value, list):
            found[str(name)] = [scalar(item, f"{what}: `{name}`") for item in value]
        elif value is not None:
            found[str(name)] = scalar(value, f"{what}: `{name}`")
    return found


def scalar(value: object, what: str) -> str:
    """A text, number or truth value as it is written in a URL or a form. Raises InvalidRequest."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, str | int | float):
        return str(value)
    raise InvalidRequest(f"{what} is a text, a number or a truth value, not {type(value).__name__}")
