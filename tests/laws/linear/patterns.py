"""Every regular expression of the package, found in the syntax trees of its modules.

A pattern is what ``re.compile`` and its like are called with, ``pattern=`` of a type, and ``pattern`` or
``patternProperties`` of a schema. It is evaluated with the names of its module. A pattern that is only known when it
runs needs samples here.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
from collections.abc import Iterator
from fnmatch import translate
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import holdfast
from tests.laws.linear.attacks import attacks_on
from tests.laws.linear.growth import faster_than_linear

ROOT: Final = Path(holdfast.__file__).parent
MAKERS: Final = frozenset({"compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"})
SEARCHES: Final = frozenset({"search", "sub", "subn", "split", "findall", "finditer", "scanner"})
"""Methods that try a pattern at every place of a text."""

RUNTIME: Final[dict[tuple[str, str], tuple[bool, tuple[str, ...]]]] = {
    ("gate/policy/policy.py", "fnmatch.translate(part)"): (False, tuple(map(translate, ("a*", "*a*b*c", "[ab]*?")))),
    ("journal/quotes.py", "f'(?<!\\\\w){re.escape(form)}(?!\\\\w)'"): (
        True,
        (r"(?<!\w)abc(?!\w)", r"(?<!\w)\ \ (?!\w)"),
    ),
    ("gate/policy/shape.py", "schema.get('pattern', '')"): (True, ()),  # of policy.schema.json, which is read here
}
"""Patterns that are made of what others give, by module and expression: whether they search, and some like them."""


class Pattern(NamedTuple):
    """One pattern. ``searches`` if it is tried at every place of a text."""

    place: str
    text: str | bytes
    flags: int
    searches: bool


class Module(NamedTuple):
    path: str
    tree: ast.Module

    def value(self, node: ast.AST) -> Any:
        """The value of an expression at the module's level. Raises NameError for one that is only known later."""
        name = "holdfast." + self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        return eval(ast.unparse(node), dict(vars(importlib.import_module(name))))


@cache
def modules(root: Path = ROOT) -> tuple[Module, ...]:
    paths = sorted(root.rglob("*.py"))
    return tuple(Module(str(path.relative_to(root)), ast.parse(path.read_text())) for path in paths)


@cache
def all_patterns() -> list[Pattern]:
    """Every pattern of the package, each at its place."""
    searched = frozenset(_searched())
    found = [pattern for module in modules() for pattern in _of_module(module, searched)]
    for path in sorted(ROOT.rglob("*.json")):
        texts = _of_schema(json.loads(path.read_text()))
        found += [Pattern(str(path.relative_to(ROOT)), text, 0, searches=True) for text in texts]
    return found


def other_ways() -> list[str]:
    """Where ``re`` is imported in a way that this search does not follow."""
    found = []
    for module in modules():
        for node in ast.walk(module.tree):
            names = [alias for alias in getattr(node, "names", ()) if isinstance(alias, ast.alias)]
            strange = isinstance(node, ast.ImportFrom) and node.module in ("re", "regex", "sre_compile")
            strange |= any(alias.name in ("re", "regex") and alias.asname for alias in names)
            strange |= any(alias.name == "regex" for alias in names)
            if strange:
                found.append(f"{module.path}:{node.lineno}")  # type: ignore[attr-defined]
    return found


def _searched() -> Iterator[tuple[str, str]]:
    """The names on which a method that searches is used, with their module; public names count everywhere."""
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute) and node.attr in SEARCHES:
                name = ast.unparse(node.value).rpartition(".")[2]
                yield (module.path if name.startswith("_") else "", name)


def _of_module(module: Module, searched: frozenset[tuple[str, str]]) -> Iterator[Pattern]:
    named = {
        id(node.value): target.id
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and (maker := _maker(node)):
            name = named.get(id(node), "")
            is_searched = (module.path if name.startswith("_") else "", name) in searched if name else True
            searches = is_searched if maker == "compile" else maker in SEARCHES
            yield from _values(module, _argument(node), _flags(module, node), searches=searches)
        for value in _in_tables(node):
            yield from _values(module, value, 0, searches=True)


def _maker(node: ast.Call) -> str:
    """The function of ``re`` that is called; empty if none is."""
    of = node.func
    is_re = isinstance(of, ast.Attribute) and isinstance(of.value, ast.Name) and of.value.id == "re"
    return of.attr if is_re and isinstance(of, ast.Attribute) and of.attr in MAKERS else ""


def _argument(node: ast.Call) -> ast.expr:
    return node.args[0] if node.args else next(each.value for each in node.keywords if each.arg == "pattern")


def _flags(module: Module, node: ast.Call) -> int:
    at = {"compile": 1, "sub": 4, "subn": 4, "split": 3}.get(_maker(node), 2)
    given = [each.value for each in node.keywords if each.arg == "flags"] or node.args[at : at + 1]
    return int(module.value(given[0])) if given else 0


def _in_tables(node: ast.AST) -> Iterator[ast.expr]:
    """Patterns of types and schemas."""
    if isinstance(node, ast.Call) and not _maker(node):
        yield from (each.value for each in node.keywords if each.arg == "pattern")
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "pattern":
                yield value
            if isinstance(key, ast.Constant) and key.value == "patternProperties" and isinstance(value, ast.Dict):
                yield from (each for each in value.keys if each is not None)


def _values(module: Module, node: ast.expr, flags: int, *, searches: bool) -> Iterator[Pattern]:
    place = f"{module.path}:{node.lineno}"
    key = module.path, ast.unparse(node)
    if key in RUNTIME:
        searches, samples = RUNTIME[key]
    else:
        try:
            samples = (module.value(node),)
        except NameError:
            raise AssertionError(f"{place}: {key[1]} is only known later: give samples of it in RUNTIME") from None
    for text in samples:
        if isinstance(text, str | bytes):
            yield Pattern(place, text, flags, searches)


def _of_schema(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "pattern" and isinstance(inner, str):
                yield inner
            if name == "patternProperties" and isinstance(inner, dict):
                yield from inner
            yield from _of_schema(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _of_schema(inner)


def slowness(pattern: Pattern, characters: int) -> str | None:
    """An attack on which a pattern takes more than linear time."""
    compiled = re.compile(pattern.text, pattern.flags)
    act = (lambda text: compiled.sub(text[:0], text)) if pattern.searches else compiled.fullmatch
    found = (faster_than_linear(each, act, characters) for each in attacks_on(pattern.text, pattern.flags))
    return next((said for said in found if said is not None), None)
