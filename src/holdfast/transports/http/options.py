"""What any request may say, whatever it sends: who sends it, for how long, which answers are good, what it gives."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping
from typing import Any, Final, NoReturn, get_args

from holdfast.errors import InvalidRequest
from holdfast.transports.connectors import ConnectorOperation
from holdfast.transports.http.call import Auth, Give
from holdfast.transports.http.headers import checked_name, checked_value
from holdfast.transports.http.urls import scalar

COMMON: Final = frozenset({"headers", "key", "timeout", "accept", "redirect", "give"})
LONGEST_SECONDS: Final = 86400.0
"""How long one attempt may take at most."""

_STATUSES: Final = re.compile("[1-5]xx")


def refuse_others(request: Mapping[str, Any], known: Collection[str], what: str) -> None:
    """Raises InvalidRequest where the request says something that nobody would hear."""
    others = sorted(str(name) for name in request if name not in known)
    if others:
        raise InvalidRequest(f"{what} has no `{others[0]}`; it has {', '.join(sorted(known))}")


def options_of(request: Mapping[str, Any], what: str, operation: ConnectorOperation | None = None) -> dict[str, Any]:
    """The options of a call; those that the request does not say are its operation's. Raises InvalidRequest."""
    found: dict[str, Any] = {}
    if request.get("key") is not None:
        found["key"] = _key(request["key"], what)
    if request.get("timeout") is not None:
        found["timeout"] = _seconds(request["timeout"], what)
    accept = request.get("accept", [] if operation is None else operation.accept)
    redirect = request.get("redirect", False if operation is None else operation.redirect)
    give = request.get("give", "content" if operation is None else operation.give)
    if not isinstance(accept, list) or not all(map(_is_status, accept)):
        _refuse(what, "accept is a list of statuses, such as [404] or [3xx]")
    if not (isinstance(redirect, bool) or (isinstance(redirect, list) and all(isinstance(h, str) for h in redirect))):
        _refuse(what, "redirect is true, false or a list of hosts")
    if give not in get_args(Give):
        _refuse(what, f"give is one of {', '.join(get_args(Give))}")
    return {**found, "accept": accept, "redirect": redirect, "give": give}


def own_auth(request: Mapping[str, Any], what: str) -> Auth | None:
    """Who sends a request that has no connector, by values that the run has. Raises InvalidRequest."""
    auth = request.get("auth")
    if auth is None:
        return None
    if not isinstance(auth, Mapping) or len(auth) != 1:
        _refuse(what, "auth is one of bearer, basic and header")
    match dict(auth):
        case {"bearer": {"value": value}}:
            return Auth(scheme="bearer", value=_secret(value, what))
        case {"basic": {"username": username, "password": {"value": value}}}:
            return Auth(scheme="basic", username=scalar(username, f"{what}: username"), value=_password(value, what))
        case {"header": {"name": str() as name, "value": {"value": value}}}:
            return Auth(scheme="header", name=checked_name(name, what), value=_secret(value, what))
    return _refuse(
        what,
        "a request of its own says who sends it by a value of the run, {bearer: {value: =…}}. The name of a secret "
        "stands in a connector: declare one, and `call` it",
    )


def checked_json(value: object, what: str) -> object:
    """A body in JSON. Raises InvalidRequest where it cannot be written so."""
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidRequest(f"{what} cannot be written as JSON: {error}") from None
    return value


def _key(value: object, what: str) -> str:
    key = scalar(value, f"{what}: key")
    if not key.strip() or "\0" in key:
        _refuse(what, "key is a text that says which act it is, and not empty")
    return key


def _seconds(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        _refuse(what, "timeout is a number of seconds")
    if not 0 < value <= LONGEST_SECONDS:
        _refuse(what, f"timeout is more than 0 and at most {LONGEST_SECONDS:.0f} seconds")
    return float(value)


def _secret(value: object, what: str) -> str:
    return checked_value(_password(value, what), f"{what}: its auth")


def _password(value: object, what: str) -> str:
    text = scalar(value, f"{what}: its auth")
    if not text:
        _refuse(what, "what its auth says is empty")
    return text


def _is_status(value: object) -> bool:
    if isinstance(value, str):
        return _STATUSES.fullmatch(value) is not None
    return isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599


def _refuse(what: str, why: str) -> NoReturn:
    raise InvalidRequest(f"{what}: {why}")
