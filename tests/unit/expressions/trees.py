"""Random trees of expressions: everything that the grammar can say, whether or not it means something."""

from __future__ import annotations

import string
from typing import Any

from hypothesis import strategies as st

from holdfast.expressions.syntax import (
    RESERVED,
    WORDS,
    Application,
    Comprehension,
    Conditional,
    Constant,
    Junction,
    ListDisplay,
    ListItem,
    MapDisplay,
    MapItem,
    Operation,
    Prefix,
    Presence,
    Selection,
    Subscript,
    Tree,
    Variable,
)

OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "in", "+", "-", "*", "/", "%")
FUNCTIONS = ("size", "contains", "startsWith", "string", "double", "f", "orValue", "class", "value", "D")

letters = st.text(string.ascii_letters + "_", min_size=1, max_size=4)
names = st.one_of(
    st.sampled_from(["state", "start", "item", "D", "value", "when", "has", "cel", "map", "class", "lambda", "x", "y"]),
    letters.filter(lambda name: not name.startswith("__")),
).filter(lambda name: name not in RESERVED | WORDS)
members = st.one_of(
    st.sampled_from(["score", "map", "is_in", "class", "size", "if", "in", "true", "_x", "__x", "odd key", "a.b/c-d"]),
    letters,
)


def _constants() -> st.SearchStrategy[Tree]:
    texts = st.text(st.characters(codec="utf-8"), max_size=6) | st.text("\"'\\\n\t\x00\u2028é%{}`", max_size=6)
    doubles = st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 1e21, 1e-7, 2.5, float("inf")])
    return st.one_of(
        st.just(Constant("null", None)),
        st.booleans().map(lambda value: Constant("bool", value)),
        st.integers(-(2**63), 2**63 - 1).map(lambda value: Constant("int", value)),
        st.integers(0, 2**64 - 1).map(lambda value: Constant("uint", value)),
        doubles.map(lambda value: Constant("double", value)),
        texts.map(lambda value: Constant("string", value)),
        st.binary(max_size=6).map(lambda value: Constant("bytes", value)),
    )


def _branches(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    def build(kind: Any, *parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Tree]:
        return st.builds(kind, *parts)

    few = st.lists(inner, max_size=3).map(tuple)
    return st.one_of(
        build(Selection, inner, members, st.booleans()),
        build(Presence, inner, members),
        build(Subscript, inner, inner, st.booleans()),
        build(Application, st.sampled_from(FUNCTIONS), st.none() | inner, few),
        build(Comprehension, st.sampled_from(["all", "exists", "exists_one", "filter", "optMap", "optFlatMap"]), inner,
              names, inner.map(lambda part: (part,))),
        build(Comprehension, st.just("map"), inner, names, st.lists(inner, min_size=1, max_size=2).map(tuple)),
        build(Prefix, st.sampled_from("-!"), inner),
        build(Operation, st.sampled_from(OPERATORS), inner, inner),
        build(Junction, st.sampled_from(["&&", "||"]), st.lists(inner, min_size=2, max_size=3).map(tuple)),
        build(Conditional, inner, inner, inner),
        build(ListDisplay, st.lists(build(ListItem, inner, st.booleans()), max_size=3).map(tuple)),
        build(MapDisplay, st.lists(build(MapItem, inner, inner, st.booleans()), max_size=2).map(tuple)),
    )  # fmt: skip


trees: st.SearchStrategy[Tree] = st.recursive(
    _constants() | st.builds(Variable, names, st.booleans()), _branches, max_leaves=12
)
