"""The transport ``graphql``: what a definition says under the verb, as a recorded HTTP call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.errors import InvalidRequest
from holdfast.gate.effects import Effect
from holdfast.journal.payload import Payload
from holdfast.transports import schemas
from holdfast.transports.connectors import called
from holdfast.transports.graphql.document import kind_of
from holdfast.transports.http import headers
from holdfast.transports.http.call import HttpCall, written
from holdfast.transports.http.effect import HttpEffect
from holdfast.transports.http.options import COMMON, checked_json, options_of, own_auth, refuse_others
from holdfast.transports.http.transport import close, declared_of, sent_of
from holdfast.transports.http.urls import read_url

_OWN: Final = frozenset({*COMMON, "endpoint", "query", "variables", "operation", "auth"})
_CALL: Final = frozenset({*COMMON, "call", "with"})


class GraphqlTransport:
    """Queries and mutations. A query reads, whatever the method that it is sent by."""

    name: Final = "graphql"
    schema: Final = schemas.GRAPHQL

    def write(self, request: Mapping[str, Any], connectors: Mapping[str, Any]) -> tuple[str, Payload]:
        call = _by_connector(request, connectors) if "call" in request else _own(request)
        return f"{self.name}:{call.connector}/{call.operation}", written(call)

    def effect(self, function_name: str, input: Payload | None) -> Effect:
        return HttpEffect(function_name, input)

    async def close(self) -> None:
        await close()


def _own(request: Mapping[str, Any]) -> HttpCall:
    """A request of its own: its connector is the host, its operation ``query`` or ``mutation``."""
    refuse_others(request, _OWN, "a graphql request")
    url = read_url(request.get("endpoint"), "the endpoint")
    name = request.get("operation")
    if name is not None and not isinstance(name, str):
        raise InvalidRequest("operation is the name of one in the document")
    kind = kind_of(request.get("query"), name, "the query")
    writes = kind == "mutation"
    return HttpCall(
        method="POST",
        url=url.text,
        connector=url.host,
        operation=kind,
        writes=writes,
        risk="med" if writes else "low",
        safe_to_retry=not writes,
        headers=headers.given(request.get("headers") or {}, f"graphql {url.target}"),
        auth=own_auth(request, f"graphql {url.target}"),
        json=_body(request["query"], request.get("variables"), name),
        answers="graphql",
        **options_of(request, f"graphql {url.target}"),
    )


def _by_connector(request: Mapping[str, Any], connectors: Mapping[str, Any]) -> HttpCall:
    """A request by an operation of a connector: its arguments are the variables, its base is the endpoint."""
    refuse_others(request, _CALL, "a call by connector")
    operation = called(request["call"], connectors)
    document = operation.operation.graphql
    if document is None:
        raise InvalidRequest(f"{operation.what} is no GraphQL operation: call it by http, or declare `graphql: …`")
    writes = kind_of(document, None, operation.what) == "mutation"
    return HttpCall(
        method="POST",
        url=read_url(operation.connector.base, f"the base of {operation.name}").text,
        json=_body(document, request.get("with"), None),
        answers="graphql",
        **declared_of(operation, writes=writes),
        **sent_of(request, operation),
    )


def _body(document: str, variables: object, name: str | None) -> dict[str, Any]:
    body: dict[str, Any] = {"query": document}
    if variables is not None:
        if not isinstance(variables, Mapping):
            raise InvalidRequest("variables are a map of names and values")
        body["variables"] = checked_json(dict(variables), "variables")
    if name is not None:
        body["operationName"] = name
    return body
