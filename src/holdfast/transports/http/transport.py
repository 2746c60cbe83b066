"""The transport ``http``: what a definition says under the verb, as a recorded call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidRequest
from holdfast.gate.effects import Effect
from holdfast.journal.payload import Payload
from holdfast.transports import schemas
from holdfast.transports.connectors import METHODS, READING, Called, called
from holdfast.transports.http import headers
from holdfast.transports.http.call import HttpCall, written
from holdfast.transports.http.effect import HttpEffect
from holdfast.transports.http.options import COMMON, checked_json, options_of, own_auth, refuse_others
from holdfast.transports.http.refusals import is_refusal
from holdfast.transports.http.urls import filled, query_of, read_url

_OWN: Final = frozenset({*METHODS, *COMMON, "query", "json", "form", "body", "auth"})
_CALL: Final = frozenset({*COMMON, "call", "with"})
_BY_QUERY: Final = frozenset({"get", "head", "delete", "options"})
"""The methods whose arguments are sent in the query."""


class HttpTransport:
    """Requests by HTTP, of their own or by a connector."""

    name: Final = "http"
    schema: Final = schemas.HTTP

    def write(self, request: Mapping[str, Any], connectors: Mapping[str, Any]) -> tuple[str, Payload]:
        call = by_connector(request, connectors) if "call" in request else _own(request)
        return f"{self.name}:{call.connector}/{call.operation}", written(call)

    def effect(self, function_name: str, input: Payload | None) -> Effect:
        return HttpEffect(function_name, input)

    async def close(self) -> None:
        await close()


async def close() -> None:
    """Close the connections of this event loop, where calls were made on it."""
    import sys

    sender = sys.modules.get("holdfast.transports.http.sender")
    if sender is not None:
        await sender.close()


def _own(request: Mapping[str, Any]) -> HttpCall:
    """A request of its own: its connector is the host, its operation the method."""
    refuse_others(request, _OWN, "an http request")
    said = [method for method in METHODS if method in request]
    if len(said) != 1:
        raise InvalidRequest(f"an http request has one method with a URL ({', '.join(METHODS)}), or `call`")
    (method,) = said
    url = read_url(request[method], f"the URL of {method}")
    writes = method not in READING
    return HttpCall(
        method=method.upper(),
        url=url.text,
        connector=url.host,
        operation=method,
        writes=writes,
        risk="med" if writes else "low",
        safe_to_retry=not writes,
        query=query_of(request.get("query") or {}, "query"),
        headers=headers.given(request.get("headers") or {}, f"{method} {url.target}"),
        auth=own_auth(request, f"{method} {url.target}"),
        **_body(request),
        **options_of(request, f"{method} {url.target}"),
    )


def _body(request: Mapping[str, Any]) -> dict[str, Any]:
    """What the request sends: one of three, or nothing."""
    said = [name for name in ("json", "form", "body") if name in request]
    if len(said) > 1:
        raise InvalidRequest(f"an http request sends one of {', '.join(said)}")
    if not said:
        return {}
    name, value = said[0], request[said[0]]
    if name == "json":
        return {"json": checked_json(value, "json")}
    if name == "form":
        return {"form": query_of(value, "form")}
    if not isinstance(value, str):
        raise InvalidRequest("body is a text; say json for data, or form for the fields of a form")
    return {"body": value}


def by_connector(request: Mapping[str, Any], connectors: Mapping[str, Any]) -> HttpCall:
    """A request by an operation of a connector. Raises InvalidRequest."""
    refuse_others(request, _CALL, "a call by connector")
    operation = called(request["call"], connectors)
    given = request.get("with") or {}
    if not isinstance(given, Mapping):
        raise InvalidRequest(f"{operation.what}: with is a map of arguments")
    method, path = operation.operation.method(operation.what)
    path, left = filled(path, given, operation.what)
    query, body = _divided(operation, method, left)
    return HttpCall(
        method=method.upper(),
        url=read_url(operation.connector.base.rstrip("/") + path, f"the URL of {operation.what}").text,
        query=query_of(query, f"{operation.what}: with"),
        json=checked_json(body, f"{operation.what}: with") if body else msgspec.UNSET,
        **declared_of(operation, writes=method not in READING),
        **sent_of(request, operation),
    )


def _divided(called: Called, method: str, left: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is left of the arguments: what the query has of it, and what the body has."""
    if method in _BY_QUERY:
        return dict(left), {}
    named = called.operation.query
    return {name: left[name] for name in named if name in left}, {
        name: value for name, value in left.items() if name not in named
    }


def declared_of(called: Called, *, writes: bool) -> dict[str, Any]:
    """What the gate must know of an operation: what it declares, else what is usual for it."""
    operation = called.operation
    writes = writes if operation.writes is None else operation.writes
    if not all(is_refusal(status) for status in operation.not_done):
        raise InvalidRequest(f"{called.what}: not_done lists statuses from 400 to 599, such as [503]")
    return {
        "connector": called.name,
        "operation": called.operation_name,
        "writes": writes,
        "risk": operation.risk or ("med" if writes else "low"),
        "safe_to_retry": not writes if operation.safe_to_retry is None else operation.safe_to_retry,
        "not_done": operation.not_done,
    }


def sent_of(request: Mapping[str, Any], called: Called) -> dict[str, Any]:
    """What is sent along with a call by connector, and its options."""
    declared = headers.declared(called.headers, called.what)
    auth = called.auth
    if auth is not None and auth.scheme == "header":
        headers.checked_name(auth.name, f"connector {called.name}")
    return {
        "headers": headers.merged(declared, headers.given(request.get("headers") or {}, called.what)),
        "auth": auth,
        **options_of(request, called.what, called.operation),
    }
