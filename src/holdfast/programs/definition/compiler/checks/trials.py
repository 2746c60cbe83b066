"""The tests of a document: they have the words of the format, and name tasks and nodes that are there.

They are no part of the definition, so nothing else would look at them before they are played.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from holdfast.programs.definition.compiler.faults import FaultList, Trail, shown

_KINDS: Final[dict[str, tuple[type, str]]] = {
    "object": (Mapping, "a map"),
    "array": (list, "a list"),
    "string": (str, "a text"),
}


def check_trials(document: Any, tasks: Collection[str], faults: FaultList) -> None:
    """Note what is wrong with ``tests:``. The nodes are those whose places are known."""
    if not isinstance(document, Mapping) or not document.get("tests"):
        return
    from holdfast.programs.definition.compiler.schema import TRIALS

    before = faults.count
    _check_words(document["tests"], TRIALS, ("tests",), faults)
    if faults.count > before:
        return
    for number, test in enumerate(document["tests"]):
        trail: Trail = ("tests", number)
        for place, node in _nodes_in(test):
            if node not in faults.places:
                faults.unknown((*trail, *place), "node", node, faults.places)
        for at, answer in enumerate(test.get("answers", ())):
            if answer["task"] not in tasks:
                faults.unknown((*trail, "answers", at, "task"), "task", answer["task"], tasks)


def _nodes_in(test: Mapping[str, Any]) -> Iterator[tuple[Trail, str]]:
    for node in test.get("mock", ()):
        yield ("mock", node), node
    for word in ("done", "skipped", "waits"):
        for at, node in enumerate(test.get("expect", {}).get(word, ())):
            yield ("expect", word, at), node


def _check_words(value: Any, schema: Mapping[str, Any], trail: Trail, faults: FaultList) -> None:
    """Hold a value to a schema of the format, as far as tests have one: kinds, words, what is needed and choices."""
    if "enum" in schema and value not in schema["enum"]:
        faults.unknown(trail, str(trail[-1]), value, schema["enum"])
    kind, article = _KINDS.get(schema.get("type", ""), (object, ""))
    if not isinstance(value, kind):
        faults.add(trail, f"this is {article}, not {shown(value)}")
    elif isinstance(value, list) and "items" in schema:
        for at, item in enumerate(value):
            _check_words(item, schema["items"], (*trail, at), faults)
    elif isinstance(value, Mapping) and "properties" in schema:
        for word in schema.get("required", ()):
            if word not in value:
                faults.add(trail, f"`{word}` is missing")
        for word, inner in value.items():
            if word in schema["properties"]:
                _check_words(inner, schema["properties"][word], (*trail, word), faults)
            else:
                faults.unknown((*trail, word), "word", word, schema["properties"])
