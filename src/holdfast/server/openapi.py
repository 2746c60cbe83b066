"""The OpenAPI 3.1 document, made from the table of routes."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import Any, Final

import msgspec

from holdfast.server.problems import PROBLEM, HttpProblem
from holdfast.server.public import PublicRoute
from holdfast.server.route import JSON, PARAMETER, Header, Nothing, Route
from holdfast.server.routes.table import SUBJECTS

REFERENCE: Final = "#/components/schemas/{name}"

_ABOUT: Final = (
    "Every answer is made by a client that is bound to whoever sent the request: what belongs to another tenant is not "
    "found. A refusal is `application/problem+json` with a stable `code`."
)
_PARTS: Final = {
    "machine": "The machine's name.",
    "key": "The key of the cell: a text, or JSON; `-` for a machine without keys.",
    "letter": "The dead letter's id.",
    "run": "The run's id. A slash in it is quoted as %2F.",
    "task": "The task's id.",
    "receipt": "The receipt's id.",
    "name": "The definition's name.",
    "user": "The user's name, in any spelling.",
    "token": "The token's id: the part of the token between the underscores.",
    "workspace": "The workspace's name.",
    "tenant": "The tenant's name.",
    "template": "The template's id.",
    "schedule": "The schedule's id.",
    "account": "The member id of somebody's account in Slack, such as U0123456789.",
    "webhook": "The webhook's id.",
    "subscription": "The subscription's id.",
    "message": "The delivery's id, which is its `webhook-id`.",
}
"""What stands at the variable parts of paths."""


def document(routes: Sequence[Route], public: Sequence[PublicRoute], server: str = "/") -> dict[str, Any]:
    """The whole document. ``server`` is the prefix under which the API is mounted."""
    kinds = _kinds(routes)
    schemas, components = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
    known = dict(zip(map(repr, kinds), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, known, components)
    for name in _only_queries(routes):
        components.pop(name, None)  # their members are parameters
    for each in public:
        paths.setdefault(each.path, {})[each.method.lower()] = {
            "operationId": f"public.{each.path.partition('/{')[0].strip('/').replace('.', '_')}",
            "summary": each.words,
            "tags": ["Public"],
            "security": [],
            "parameters": [_part(name) for name in PARAMETER.findall(each.path)],
            "responses": {"200": {"description": "Good."}, "503": {"description": "Not ready."}},
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast", "version": metadata.version("holdfast"), "description": _ABOUT},
        "servers": [{"url": server}],
        "security": [{"token": []}],
        "tags": [*({"name": title} for title in SUBJECTS.values()), {"name": "Public"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "hf_…"}},
        },
    }


def _kinds(routes: Sequence[Route]) -> list[Any]:
    """All types of the table, each once."""
    found: dict[str, Any] = {repr(HttpProblem): HttpProblem}
    for route in routes:
        for kind in (route.query, route.body, route.answer):
            if kind is not None:
                found.setdefault(repr(kind), kind)
    return list(found.values())


def _only_queries(routes: Sequence[Route]) -> list[str]:
    """The types that are queries and nothing else."""
    bodies = {route.body for route in routes}
    return [route.query.__name__ for route in routes if route.query not in bodies]


def _operation(route: Route, known: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.words.partition(". ")[0].rstrip(".") + ".",
        "description": f"{route.words}\n\nNeeds level {route.least_level} (`{route.operation}`).",
        "tags": [SUBJECTS[route.subject]],
        "parameters": [
            *map(_part, route.parameters),
            *_query(route, known, components),
            *map(_header, route.headers),
        ],
        "responses": _responses(route, known),
    }
    if route.body is not None:
        required = any(field.required for field in msgspec.structs.fields(route.body))
        found["requestBody"] = {"required": required, "content": {JSON: {"schema": known[repr(route.body)]}}}
    return found


def _part(name: str) -> dict[str, Any]:
    schema = {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "description": _PARTS[name], "schema": schema}


def _query(route: Route, known: dict[str, Any], components: dict[str, Any]) -> list[dict[str, Any]]:
    if route.query is Nothing:
        return []
    schema = known[repr(route.query)]
    members = components[schema["$ref"].rpartition("/")[2]]
    return [
        {"name": name, "in": "query", "required": name in members.get("required", ()), "schema": _given(member)}
        for name, member in members["properties"].items()
    ]


def _given(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a parameter: where it may be left out, nothing stands for that."""
    kept = {name: value for name, value in schema.items() if value is not None or name != "default"}
    if "anyOf" in kept:
        real = [each for each in kept["anyOf"] if each.get("type") != "null"]
        if len(real) == 1:
            return {**{name: value for name, value in kept.items() if name != "anyOf"}, **real[0]}
    if "enum" in kept:
        kept["enum"] = [value for value in kept["enum"] if value is not None]
    return kept


def _header(header: Header) -> dict[str, Any]:
    return {
        "name": header.name,
        "in": "header",
        "required": False,
        "description": header.words,
        "schema": {"type": "string"},
    }


def _responses(route: Route, known: dict[str, Any]) -> dict[str, Any]:
    schema = {} if route.answer is None else known[repr(route.answer)]
    content = {media: {"schema": schema} if media == JSON and schema else {} for media in route.media}
    good = {str(route.status): {"description": "Done.", "content": content}}
    if "text/event-stream" in route.media:
        good["204"] = {"description": "There is nothing more to come."}
    return {**good, "default": {"description": "Why not.", "content": {PROBLEM: {"schema": known[repr(HttpProblem)]}}}}
