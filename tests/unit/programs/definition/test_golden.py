"""Canonical bytes and digests are for ever: an accepted definition has the same in every release."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from holdfast.programs.definition.compiler.compiler import accepted, compile_document, compile_text, load
from holdfast.programs.definition.compiler.document import write_document
from holdfast.programs.definition.compiler.schema import definition_schema
from holdfast.programs.definition.compiler.source import read_source
from holdfast.programs.definition.compiler.words import (
    GRAPH_WORDS,
    NODE_WORDS,
    SCHEDULE_WORDS,
    TASK_WORDS,
    TOP_WORDS,
    VERB_WORDS,
)
from holdfast.programs.definition.decompiler.python_text import python_of
from holdfast.programs.definition.decompiler.yaml_text import yaml_of
from tests.unit.programs.definition.golden_files import DOCUMENTS, bytes_of, compiled
from tests.unit.programs.definition.test_decompiler import built

VALIDATOR = jsonschema_rs.validator_for(definition_schema())

golden = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)


@golden
def test_a_document_compiles_to_the_bytes_that_it_always_did(document: Path) -> None:
    """Where this fails, runs of older releases would be of another digest: mend the compiler, never the file."""
    found = compiled(document)
    assert found.canonical == bytes_of(document).read_bytes()
    assert found.digest == hashlib.sha256(found.canonical).hexdigest()


@golden
def test_the_kept_bytes_are_read_as_the_same_definition(document: Path) -> None:
    data = bytes_of(document).read_bytes()
    assert load(data) == compiled(document).definition
    assert accepted(load(data)).canonical == data


@golden
def test_what_is_decompiled_has_the_same_digest(document: Path) -> None:
    """As YAML, as Python and as a document."""
    found = compiled(document)
    assert compile_text(yaml_of(found.definition)).digest == found.digest
    assert compile_document(write_document(found.definition)).digest == found.digest
    assert compile_document(built(python_of(found.definition))).digest == found.digest


@golden
def test_the_published_schema_accepts_it_and_its_canonical_form(document: Path) -> None:
    VALIDATOR.validate(read_source(document.read_text(encoding="utf-8"))[0])
    VALIDATOR.validate(write_document(compiled(document).definition))


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _names(item)


def test_the_golden_documents_have_every_word_of_the_format() -> None:
    """A word that is in none of them could change its meaning unseen."""
    found = {name for path in DOCUMENTS for name in _names(read_source(path.read_text(encoding="utf-8"))[0])}
    verbs = {word for verb, words in VERB_WORDS.items() for word in (verb, *words)}
    options = {"over", "times", "while", "until", "most", "item", "index", "at_once", "errors", "try", "all", "at"}
    policy = {"max", "first", "factor", "cap", "jitter", "groups", "users", "exclude", "remind", "escalate", "expire"}
    words = {*TOP_WORDS, *SCHEDULE_WORDS, *TASK_WORDS, *NODE_WORDS, *GRAPH_WORDS}
    wanted = {*words, *verbs, *options, *policy} - {"inline", "every"}
    assert wanted - found == set()
