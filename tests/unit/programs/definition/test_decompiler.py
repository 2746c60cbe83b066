"""What is decompiled compiles to the same digest."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.compiler import compile_document, compile_text
from holdfast.programs.definition.decompiler.python_text import python_of
from holdfast.programs.definition.decompiler.yaml_text import yaml_of
from tests.definitions import CLAIMS
from tests.laws.definitions.grow import case
from tests.scope import each_seed, volume

MORE = """\
holdfast: definition/1
name: more
version: 2
cleanup_timeout: 1h30m
connectors:
  bureau: {base: "https://b.example", auth: {bearer: TOKEN}, operations: {report: {get: "/r/{id}", risk: low}}}
steps:
  - lines:
      repeat: {over: =start.items, at_once: 8, errors: keep}
      do: [{one: {http: {call: bureau.report, with: {id: =item.id}}, as: local.parcel}}]
      gives: =local.parcel
      as: state.lines
  - rework:
      repeat: {until: =state.ok, most: 5}
      do: [{fix: {step: fix.it, with: {text: "==not an expression"}, as: state.ok, retry: {max: 3, first: 500ms}}}]
  - first:
      pick:
        paid: {wait: payment, key: =start.order}
        late: {sleep: 7d, do: [{note: {set: {state.late: true, reference: =start.order}}}]}
  - both:
      fork: {a: [{left: {set: {local.x: 1}}}], b: [{right: {set: {local.x: 2}}}]}
      gives: =local.x
      as: state.both
  - fits: {check: =state.both, schema: {type: object, required: [a]}}
  - named: {do: [{keep: {set: {state.sum: =sum + 1}}}], let: {sum: =2 + 3}}
  - tell: {send: {to: =start.parent, signal: done, value: {n: =1}}}
  - back: {compensate: fix}
  - inner:
      do: [{stop: {raise: {code: NO, message: ="no " + start.order, details: {a: [1, =2 + 3]}}}}]
      timeout: {at: ="2030-01-01T00:00:00Z"}
      on: {failure: [{say: {set: {state.error: =error.code}}}], timeout: []}
  - sap: {transport: {sap: {order: =start.order}}, when: =has(start.order)}
  - rest: {sleep: {until: =start.due}}
  - fin: {end: =-1}
"""


def built(source: str) -> Any:
    names: dict[str, Any] = {}
    exec(source, names)
    return names["definition"].document


def check(found: m.Accepted) -> None:
    assert compile_text(yaml_of(found.definition)).digest == found.digest
    assert compile_document(built(python_of(found.definition))).digest == found.digest


def test_yaml_and_python_give_the_same_definition_back() -> None:
    check(compile_text(CLAIMS))
    check(compile_text(MORE))


@each_seed(0.7)
def test_random_definitions_come_back_with_their_digest(seed: int) -> None:
    """Those of the laws, with every verb."""
    found = case(seed)
    for document in (*found.children.values(), found.document):
        check(compile_document(document))


def _literal(text: str) -> str:
    return f"={text}" if text.startswith("=") else text


TEXTS = st.one_of(
    st.text(max_size=20), st.sampled_from(["yes", "on", "2020-01-01", "1e3", "0o17", "- a", "a: b", "#", "~"])
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXTS.map(_literal),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)


@given(VALUES)
@example({"": [""], "a\nb": "x\n", "c": " y ", "d": "\x85\u2028\ufeff\t", "e": 1e16, "f": -0.0, "g": "==", "h": "0x1F"})
@example({"\x85": None, "\u2028": "\r\n", "\ufeff": "\u2029"})
@settings(max_examples=volume(50, 150), deadline=None)
def test_any_value_comes_back_as_it_was(value: Any) -> None:
    """Texts that YAML would read as something else, all of Unicode, numbers of any size."""
    check(compile_document({"holdfast": "definition/1", "name": "t", "version": 1, "steps": [{"a": {"end": value}}]}))
