"""Writes ``docs/http-api.md`` from the table of routes: ``python -m tests.docs.http_api``. A test compares the page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast import Holdfast
from holdfast.server import Server
from holdfast.server.route import JSON, Route
from holdfast.server.routes.table import SUBJECTS

PAGE = Path(__file__).parents[2] / "docs" / "http-api.md"

INTRODUCTION = """# The HTTP API

Every route of the server, made from its table of routes by `python -m tests.docs.http_api`. The same is served as an
OpenAPI 3.1 document at `/openapi.json`. [The server](server.md) says how to run it, how to say who you are, and has
examples.

- **Who may.** Each route needs a level, which the table of [levels](tenants-and-users.md) explains. What belongs to
  another tenant is not found.
- **Requests.** Bodies are JSON. A member that is not known is refused, and all that is wrong is said at once. A `/` in
  a part of a path is quoted as `%2F`, a `+` in a query as `%2B`. Browsers and proxies resolve segments `.` and `..`,
  quoted or not, so an id with such a segment, or an empty one, is sent as `~` and the quoted id with `.` in the place
  of `%`: `..` is `~.2E.2E`, `../a` is `~.2E.2E.2Fa`. New ids have no segment `.` or `..`; keys of cells may have any.
- **Answers.** JSON in UTF-8. Times are ISO 8601 in UTC. Whole numbers are written in full, however large: a reader that
  makes all numbers floating point, as JavaScript's `JSON.parse` does, must read those over 2^53 from the text. In
  values of workflows `{"$base64": …}` stands for bytes, `{"$float": "nan"}` for what JSON lacks, `{"$blob": …}` for a
  large value that was not asked for. The first two are read in the same way.
- **Lists** have `items` and `next`: `?after=NEXT` gives the rest; `next` is null at the end.
- **Refusals** are `application/problem+json` (RFC 9457): `code` is stable, `detail` and `remedy` are for people,
  `problems` names each place that is wrong. The codes are those of the [errors](reference.md#errors).
"""


def write() -> str:
    """The whole page."""
    server = Server(Holdfast("memory://", worker=False))
    document = server.document()
    parts = [INTRODUCTION]
    for subject, title in SUBJECTS.items():
        parts.append(f"## {title}\n")
        for route in server.routes:
            if route.subject == subject:
                parts.extend(_route(route, document))
    parts.append("## For everybody\n\nThese need no token and show nothing of any tenant.\n")
    parts.extend(f"- `{each.method} {each.path}`: {each.words}" for each in server.public)
    parts.append("\n## Types\n")
    for name, schema in sorted(document["components"]["schemas"].items()):
        parts.extend(_type(name, schema))
    return "\n".join(parts).rstrip() + "\n"


def _route(route: Route, document: dict[str, Any]) -> Iterator[str]:
    found = document["paths"][route.path][route.method.lower()]
    yield f"### {route.method} {route.path}\n"
    yield f"{route.words}\n"
    facts = [f"Needs level {route.least_level} (`{route.operation}`)."]
    if route.body is not None:
        facts.append(f"The body is {_link(found['requestBody']['content'][JSON]['schema'])}.")
    facts.append(f"Answers {_answer(route, found)}.")
    yield " ".join(facts) + "\n"
    rows = [each for each in found["parameters"] if each["in"] != "path"]
    if rows:
        yield "| parameter | in | type | meaning |\n|---|---|---|---|"
        for each in rows:
            meaning = each.get("description") or _described(each["schema"])
            yield f"| `{each['name']}` | {each['in']} | {_kind(each['schema'])} | {_cell(meaning)} |"
        yield ""


def _answer(route: Route, found: dict[str, Any]) -> str:
    content = found["responses"][str(route.status)]["content"]
    schema = content.get(JSON, {}).get("schema")
    if schema:
        return f"{route.status} with {_link(schema)}"
    return f"{route.status} with {' or '.join(f'`{media}`' for media in content)}"


def _type(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"### {name}\n"
    if "description" in schema:
        yield _prose(schema["description"]) + "\n"
    members = schema.get("properties", {})
    if members:
        yield "| member | type | |\n|---|---|---|"
        for member, kind in members.items():
            needed = "" if member not in schema.get("required", ()) else "always"
            default = f"`{json.dumps(kind['default'], ensure_ascii=False)}` by default" if "default" in kind else ""
            note = ", ".join(filter(None, [needed, default, _described(kind)]))
            yield f"| `{member}` | {_kind(kind)} | {_cell(note)} |"
        yield ""


def _link(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if schema.get("type") == "array":
        return f"a list of {_link(schema['items'])}"
    return _kind(schema)


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return _link(schema)
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" if value is not None else "null" for value in schema["enum"])
    match schema.get("type"):
        case "array":
            return f"list of {_kind(schema.get('items', {}))}"
        case "object":
            more = schema.get("additionalProperties")
            return f"object of {_kind(more)}" if isinstance(more, dict) and more else "object"
        case "string":
            return "time" if schema.get("format") == "date-time" else "text"
        case "null":
            return "null"
        case str(kind):
            return kind
        case _:
            return "anything"


def _described(schema: dict[str, Any]) -> str:
    if "description" in schema:
        return str(schema["description"])
    for each in schema.get("anyOf", ()):
        if found := _described(each):
            return found
    low, high = schema.get("minimum"), schema.get("maximum")
    return f"from {low} to {high}" if low is not None and high is not None else ""


def _prose(text: str) -> str:
    return re.sub(r"``([^`]+)``", r"`\1`", text).strip()


def _cell(text: str) -> str:
    return _prose(text).replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    PAGE.write_text(write(), encoding="utf-8")
