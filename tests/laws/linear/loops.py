"""Functions that go through a text, or a list of words, by an index of their own: scanners that are written by hand.

Such a function has a loop that moves an index, and reads something at that index. Or it calls a pattern at a place. Or
it goes through all places, and reads all before or after each. Or it calls itself with a part of what it was given.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.laws.linear.patterns import modules

_AT_A_PLACE = frozenset(
    {"match", "find", "rfind", "index", "startswith", "raw_decode", "unpack_from", "fullmatch", "search"}
)
_REPEATED = frozenset({"partition", "rpartition", "removeprefix", "lstrip"})


def scanners() -> Iterator[str]:
    """Each by its module and name."""
    for module in modules():
        for owner in ast.walk(module.tree):
            moved = _moved(owner) if isinstance(owner, ast.ClassDef) else frozenset()
            for function in ast.iter_child_nodes(owner):
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and _scans(function, moved):
                    yield f"{module.path}:{function.name}"


def _scans(function: ast.FunctionDef | ast.AsyncFunctionDef, of_class: frozenset[str]) -> bool:
    """``of_class`` are the indices that the methods of its class move."""
    if of_class and any(_reads_at(node, of_class) for node in ast.walk(function)):
        return True
    for loop in ast.walk(function):
        if isinstance(loop, ast.While):
            moved = _moved(loop)
            if any(_reads_at(node, moved) or _shortens(node) for node in ast.walk(loop)):
                return True
        places = _places(loop)
        if places and any(_reads_rest(node, places) for node in ast.walk(loop)):
            return True
        if isinstance(loop, ast.Call) and _ends_with(loop.func, function.name) and any(map(_is_part, loop.args)):
            return True
    return False


def _places(loop: ast.AST) -> frozenset[str]:
    """The names of the places through which a ``for`` goes, also within a list: of ``enumerate`` and ``range``."""
    inner = getattr(loop, "generators", [loop] if isinstance(loop, ast.For | ast.AsyncFor) else [])
    return frozenset(
        name.id
        for each in inner
        if isinstance(each.iter, ast.Call) and ast.unparse(each.iter.func) in ("enumerate", "range")
        for name in (each.target.elts[0] if isinstance(each.target, ast.Tuple) else each.target,)
        if isinstance(name, ast.Name)
    )


def _reads_rest(node: ast.AST, places: frozenset[str]) -> bool:
    """Whether all before or after a place is read, or looked through from there."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        lower, upper = node.slice.lower, node.slice.upper
        return (lower is None) != (upper is None) and _mentions(node.slice, places)
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _AT_A_PLACE
    return is_call and any(_mentions(each, places) for each in node.args)  # type: ignore[attr-defined]


def _ends_with(of: ast.expr, name: str) -> bool:
    return ast.unparse(of).rpartition(".")[2] == name


def _is_part(given: ast.expr) -> bool:
    """``text[1:]``: copied each time, and as deep as the text is long."""
    return isinstance(given, ast.Subscript) and isinstance(given.slice, ast.Slice)


def _moved(node: ast.AST) -> frozenset[str]:
    """What is increased, or set by a sum or the end of a match: names, and attributes of a class's objects."""
    found = set()
    is_class = isinstance(node, ast.ClassDef)
    for each in ast.walk(node):
        target = each.target if isinstance(each, ast.AugAssign) and isinstance(each.op, ast.Add) else None
        if isinstance(each, ast.Assign) and _is_sum(each.value):
            target = each.targets[0]
        if target is not None and isinstance(target, ast.Attribute if is_class else ast.Attribute | ast.Name):
            found.add(ast.unparse(target))
    return frozenset(found)


def _is_sum(node: ast.expr) -> bool:
    ends = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("end", "find")
    return ends or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add))


def _reads_at(node: ast.AST, moved: frozenset[str]) -> bool:
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        return _mentions(node.slice, moved)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _AT_A_PLACE:
        return any(_mentions(each, moved) for each in node.args)
    return False


def _mentions(node: ast.expr, moved: frozenset[str]) -> bool:
    if not moved:
        return False
    return any(isinstance(each, ast.Name | ast.Attribute) and ast.unparse(each) in moved for each in ast.walk(node))


def _shortens(node: ast.AST) -> bool:
    """``text = text.partition(…)``, again and again, copies the rest each time."""
    if not isinstance(node, ast.Assign):
        return False
    value = node.value
    while isinstance(value, ast.Subscript):
        value = value.value
    is_cut = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _REPEATED
    is_slice = isinstance(node.value, ast.Subscript) and isinstance(node.value.slice, ast.Slice)
    of = ast.unparse(value.func.value) if is_cut else ast.unparse(value)  # type: ignore[attr-defined]
    names = {ast.unparse(each) for target in node.targets for each in ast.walk(target) if isinstance(each, ast.expr)}
    return (is_cut or is_slice) and of in names
