"""Writes ``docs/definition-format.md`` from the JSON Schema: ``python -m tests.docs.definition_format``.

The schema has the words and what they mean; this module only orders them for readers. A test compares the page with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from holdfast.programs.definition.compiler.schema import definition_schema, node_schema
from holdfast.programs.definition.compiler.words import GRAPH_WORDS, NODE_WORDS, VERB_WORDS

PAGE = Path(__file__).parents[2] / "docs" / "definition-format.md"

INTRODUCTION = """# The format of definitions

Every word that a definition may have. `python -m tests.docs.definition_format` writes this page from the JSON Schema
that `holdfast def schema` prints; editors complete and check a file by that schema. What the words do together is
explained in [definitions](definitions.md), expressions in [expressions](expressions.md), requests in
[transports](transports.md).

A text that begins with `=` is an expression, and `==x` is the text `=x`. A duration is written as `90s`, `2h`,
`1h30m`, `10d` or in ISO 8601 without years and months (`PT30M`, `P10D`); a day has 24 hours.
"""

Schema = Mapping[str, Any]


def write() -> str:
    """The whole page."""
    schema = definition_schema()
    parts = [INTRODUCTION, "## The document\n", *_table(schema, schema)]
    parts += [
        "\n## Every node\n",
        "A node is a map of its name to its body: one verb, its words, and any of these:\n",
    ]
    anything = node_schema("do", *GRAPH_WORDS)
    common = {word: anything["properties"][word] for word in (*NODE_WORDS, *GRAPH_WORDS)}
    parts += [*_table({"properties": common}, schema), "\n`needs` and `after` are for the nodes of a `graph`.\n"]
    parts.append("## Verbs\n")
    for verb in VERB_WORDS:
        parts += _verb(verb, schema)
    for title, name in (("Tasks", "task"), ("Retries", "retry")):
        parts += [f"## {title}\n", *_table(schema["$defs"][name], schema), ""]
    connector = schema["properties"]["connectors"]["additionalProperties"]
    parts += ["## Connectors\n", "By name; see [transports](transports.md).\n", *_table(connector, schema), ""]
    parts += ["## Tests\n", *_table(schema["properties"]["tests"]["items"], schema)]
    return "\n".join(parts) + "\n"


def _verb(verb: str, schema: Schema) -> Iterator[str]:
    node = node_schema(verb)
    example = yaml.safe_dump([{"name": node["examples"][0]}], sort_keys=False, default_flow_style=None, width=100)
    yield f"### {verb}\n\n{node['description']}\n"
    words = {word: node["properties"][word] for word in VERB_WORDS[verb]}
    inner = node["properties"][verb]
    rows = [*_rows({"properties": words}, schema), *_rows(_inside(inner, schema), schema, f"{verb}.")]
    if rows:
        yield from ("| word | meaning |", "|---|---|", *rows, "")
    yield f"```yaml\n{example}```\n"


def _inside(schema: Schema, whole: Schema) -> Schema:
    """The object among the ways to write a value, if there is one that people write."""
    if schema.get("$ref") == "#/$defs/workflow":
        return {}
    schema = _resolved(schema, whole)
    if "properties" in schema:
        return schema
    ways = [_resolved(way, whole) for way in schema.get("anyOf", ())]
    found = [way for way in ways if "properties" in way]
    return {"properties": {name: each for way in found for name, each in way["properties"].items()}} if found else {}


def _resolved(schema: Schema, whole: Schema) -> Schema:
    reference = schema.get("$ref")
    return schema if reference is None else {**whole["$defs"][reference.rpartition("/")[2]], **schema}


def _table(schema: Schema, whole: Schema) -> list[str]:
    return ["| word | meaning |", "|---|---|", *_rows(schema, whole)]


def _rows(schema: Schema, whole: Schema, before: str = "") -> list[str]:
    rows = []
    for name, member in schema.get("properties", {}).items():
        needed = " Required." if name in schema.get("required", ()) else ""
        rows.append(f"| `{before}{name}` | {_meaning(member, whole)}{needed} |")
        if not before:
            inner = _inside(member, whole) if "$ref" not in member or name == "retry" else {}
            rows += _rows(inner, whole, f"{name}.") if name not in _APART else []
    return rows


_APART = ("retry", "tests", "inline", "operations", "undo")
"""The words whose inner words have a place of their own, or are said by their meaning."""


def _meaning(member: Schema, whole: Schema) -> str:
    text = str(_resolved(member, whole).get("description", "")).replace("|", "\\|")
    choices = member.get("enum")
    return f"{text} One of {', '.join(f'`{each}`' for each in choices)}.".strip() if choices else text


if __name__ == "__main__":
    PAGE.write_text(write(), encoding="utf-8")
