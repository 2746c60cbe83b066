"""Calls and runs of a definition as tasks: the inverse of the importer's ``calls``."""

from __future__ import annotations

import re
from typing import Any, Final

from holdfast.programs.definition.serverless.exporter.pieces import Export, Item, Piece, put_value
from holdfast.programs.definition.serverless.exporter.values import (
    NotSayable,
    read_jq,
    said_address,
    said_value,
    split_jq,
)
from holdfast.programs.definition.serverless.importer.calls import METHODS
from holdfast.programs.definition.serverless.vocabulary import RESPONSE, document_version

_OPENAPI: Final = re.compile(r"=openapi\((.*)\)", re.DOTALL)


def write_call(export: Export, piece: Piece) -> dict[str, Any] | None:
    """``call``; None where the core is no call."""
    core, shaped = _without_shape(piece)
    if len(core) == 2 and core[0][1].get("as") == "local.document" and isinstance(core[1][1].get("http"), str):
        return export.task(piece.name, lambda items: _openapi(items, shaped), core)
    if len(core) != 1 or "http" not in core[0][1]:
        return None
    name, body = core[0]
    export.plain(name, body, "http", "as")
    if body.get("as") != "local.data":
        export.refuse(name, "a call gives the data: `as: local.data`")
    if not isinstance(body["http"], dict):
        export.refuse(name, "a request that is one expression cannot be said in a Serverless Workflow document")
        return {}
    return export.task(piece.name, lambda request: _http(request, shaped), body["http"])


def _without_shape(piece: Piece) -> tuple[list[Item], bool]:
    core = piece.core
    shaped = len(core) > 1 and put_value(core[-1][1]) == (True, RESPONSE)
    return (core[:-1], True) if shaped else (core, False)


def _http(request: dict[str, Any], shaped: bool) -> dict[str, Any]:
    rest = dict(request)
    method = next((word for word in METHODS if word in rest), None)
    if method is None:
        raise NotSayable("only a request with a method and a URL can be said, and none by a connector")
    endpoint = _endpoint(rest.pop(method), rest.pop("auth", None))
    found: dict[str, Any] = {"method": method, "endpoint": endpoint}
    for word, said in (("headers", "headers"), ("query", "query"), ("json", "body")):
        if word in rest:
            found[said] = said_value(rest.pop(word))
    return {"call": "http", "with": {**found, **_options(rest, shaped)}}


def _options(rest: dict[str, Any], shaped: bool) -> dict[str, Any]:
    """What is left of a request, but for its options."""
    found: dict[str, Any] = {}
    give = rest.pop("give", "content")
    if (give == "response") is not shaped:
        raise NotSayable("the response of a call is brought into the document's words right behind it")
    if give != "content":
        found["output"] = give
    if rest.get("redirect") is True and rest.get("accept") == ["3xx"]:
        found["redirect"] = True
        del rest["redirect"], rest["accept"]
    if rest:
        raise NotSayable(f"`{next(iter(rest))}` of a request cannot be said in a Serverless Workflow document")
    return found


def _endpoint(url: Any, auth: Any) -> Any:
    address = said_address(url)
    return address if auth is None else {"uri": address, "authentication": _authentication(auth)}


def _authentication(auth: Any) -> dict[str, Any]:
    match auth:
        case {"basic": {"username": username, "password": {"value": password}}}:
            return {"basic": {"username": said_value(username), "password": said_value(password)}}
        case {"bearer": {"value": token}}:
            return {"bearer": {"token": said_value(token)}}
        case _:
            raise NotSayable("only basic and bearer authentication can be said, with their values")


def _openapi(items: list[Item], shaped: bool) -> dict[str, Any]:
    (_, document), (_, call) = items
    request = dict(document["http"])
    first, *more = split_jq(call["http"], " + ")
    inner = _OPENAPI.fullmatch(first)
    if inner is None or len(more) > 1 or set(document) != {"http", "as"} or set(call) != {"http", "as"}:
        raise NotSayable("a request that is one expression cannot be said in a Serverless Workflow document")
    _, operation, parameters = (part.strip() for part in split_jq(inner[1], ";"))
    endpoint = _endpoint(request.pop("get", None), request.pop("auth", None))
    rest = dict(read_jq(more[0])) if more else {}
    found: dict[str, Any] = {"document": {"endpoint": endpoint}, "operationId": said_value(read_jq(operation))}
    given = said_value(read_jq(parameters))
    found |= {"parameters": given} if given else {}
    if "auth" in rest:
        found["authentication"] = _authentication(rest.pop("auth"))
    return {"call": "openapi", "with": {**found, **_options(rest, shaped)}}


def write_run(export: Export, piece: Piece) -> dict[str, Any] | None:
    """``run`` of another workflow; None where the core is none."""
    if len(piece.core) != 1 or not {"run", "continue"} & piece.core[0][1].keys():
        return None
    name, body = piece.core[0]
    waits = "run" in body
    export.plain(name, body, "run", "continue", "with", "as")
    if waits and body.get("as") != "local.data":
        export.refuse(name, "a child gives the data: `as: local.data`")
    workflow = export.sayable(name, _workflow, body["run" if waits else "continue"], {})
    given = export.sayable(name, said_value, body.get("with", {}), {})
    found = {**workflow, **({"input": given} if given else {})}
    return {"run": {"workflow": found, **({} if waits else {"await": False})}}


def _workflow(reference: Any) -> dict[str, Any]:
    if isinstance(reference, dict):
        name, version = reference["name"], str(reference.get("version", "latest"))
    else:
        name, _, version = str(reference).partition("@")
    namespace, _, own = name.rpartition(".")
    if not namespace or "." in namespace or not (version.isdigit() or version in ("", "latest")):
        raise NotSayable(f"a workflow is named as namespace.name, with one version or none, not {reference!r:.60}")
    number = document_version(int(version)) if version.isdigit() else "latest"
    return {"namespace": namespace, "name": own, "version": number}
