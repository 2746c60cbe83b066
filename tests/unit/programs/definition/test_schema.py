"""The published schema: it accepts what the compiler accepts, and knows every word."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from holdfast.programs.definition.compiler.compiler import compile_text
from holdfast.programs.definition.compiler.document import write_document
from holdfast.programs.definition.compiler.faults import FaultList
from holdfast.programs.definition.compiler.reader import read_document
from holdfast.programs.definition.compiler.schema import definition_schema, node_schema
from holdfast.programs.definition.compiler.source import read_source
from holdfast.programs.definition.compiler.words import TOP_WORDS, VERB_WORDS
from tests.definitions import CLAIMS

VALIDATOR = jsonschema_rs.validator_for(definition_schema())


def test_the_schema_accepts_a_definition_and_its_canonical_form() -> None:
    document, _ = read_source(CLAIMS)
    VALIDATOR.validate(document)
    VALIDATOR.validate(write_document(compile_text(CLAIMS).definition))


def test_the_schema_knows_every_word() -> None:
    assert set(definition_schema()["properties"]) == set(TOP_WORDS)
    for verb, words in VERB_WORDS.items():
        assert {verb, *words} <= set(node_schema(verb)["properties"])


@pytest.mark.parametrize("node", [{}, {"stp": "x"}, {"step": "x", "wiht": {}}, {"step": "x", "set": {}}, {"set": 1}])
def test_the_schema_refuses_what_is_no_node(node: object) -> None:
    document = {"holdfast": "definition/1", "name": "t", "version": 1, "steps": [{"a": node}]}
    assert not VALIDATOR.is_valid(document)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 0},
        {"version": "1"},
        {"holdfast": "definition/2"},
        {"language": "js"},
        {"titel": "x"},
        {"steps": {}},
        {"uses": {"stpes": []}},
        {"retries": {"r": {"max": 0}}},
        {"retries": {"r": {"on": ["network"]}}},
        {"tasks": {"t": {"for": {"group": []}}}},
        {"tasks": {"t": {"check": [{"when": "=true"}]}}},
        {"connectors": {"c": {"base": "b.example", "operations": {}}}},
        {"connectors": {"c": {"base": "https://b.example", "operations": {"o": {}}}}},
        {"tests": [{"mocks": {}}]},
        {"tests": [{"expect": {"status": "done"}}]},
        {"steps": [{"a": {"sleep": "1s", "timeout": {"each": "1s"}}}]},
        {"steps": [{"a": {"sleep": "1s", "on": {"error": []}}}]},
        {"steps": [{"a": {"sleep": "1s", "as": "result"}}]},
        {"steps": [{"a": {"sleep": "1s", "when": "state.x"}}]},
        {"steps": [{"a": {"http": {"gett": "https://x.example"}}}]},
        {"steps": [{"a": {"step": "x", "needs": ["b"]}}]},
        {"steps": [{"a b": {"sleep": "1s"}}]},
    ],
    ids=range(22),
)
def test_the_schema_and_the_compiler_refuse_the_same(change: dict[str, Any]) -> None:
    """What a schema can tell, an editor shows while one writes."""
    document = {"holdfast": "definition/1", "name": "t", "version": 1, "steps": [{"a": {"sleep": "1s"}}]}
    assert VALIDATOR.is_valid(document)
    assert not VALIDATOR.is_valid({**document, **change})


def test_the_schema_refuses_the_document_with_every_fault() -> None:
    faulty = Path(__file__).parent / "documents" / "faulty.yaml"
    assert not VALIDATOR.is_valid(read_source(faulty.read_text(encoding="utf-8"))[0])


@pytest.mark.parametrize("verb", VERB_WORDS)
def test_every_verb_has_an_example_that_can_be_read(verb: str) -> None:
    (example,) = node_schema(verb)["examples"]
    document = {"holdfast": "definition/1", "name": "t", "version": 1, "steps": [{"a": example}]}
    VALIDATOR.validate(document)
    faults = FaultList()
    read_document(document, faults)
    assert faults.found == []


def _properties(schema: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(schema, dict):
        for name, member in schema.get("properties", {}).items():
            yield f"{path}/{name}", member
        for name, member in schema.items():
            if name != "examples":
                yield from _properties(member, f"{path}/{name}")
    for at, member in enumerate(schema if isinstance(schema, list) else ()):
        yield from _properties(member, f"{path}/{at}")


def test_every_word_is_explained() -> None:
    """An editor shows it where one writes."""
    schema = definition_schema()
    plain = [
        path
        for path, member in _properties(schema, "")
        if "description" not in member
        and "description" not in schema["$defs"].get(str(member.get("$ref")).rpartition("/")[2], {})
        and not any(word in path for word in ("/auth/", "/secret", "/undo/"))
    ]
    assert plain == []
