"""The source is in small pieces, is explained, and names nothing outside the project."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec
import pytest

from tests.docs.pages import ROOT
from tests.tables import table

pytestmark = pytest.mark.xdist_group("tidy")

SOURCES = sorted((ROOT / "src").rglob("*.py"))
FILE_LINES = 400
LONGEST_LINES = 600
FUNCTION_LINES = 60

LONG_FILES: dict[str, str] = {
    "src/holdfast/client/runs/explanation.py": "each reason for which a run does not move, and its advice",
    "src/holdfast/client/runs/handle.py": "all that can be done to one run, with the contract of each",
    "src/holdfast/client/sync/engine.py": "one blocking twin for each part of the client",
    "src/holdfast/expressions/checker.py": "the types of all operators and functions",
    "src/holdfast/kernel/execution.py": "one run in memory: its turns, and what the worker asks of it",
    "src/holdfast/programs/machine/lanes/cell_turn.py": "all that can become of a cell in a turn",
    "src/holdfast/programs/machine/lanes/lane.py": "a lane's side of the kernel, of its worker and of its cells",
    "src/holdfast/programs/function/decorators.py": "steps and workflows, and what their decorators accept",
    "src/holdfast/store/protocol.py": "the store's operations, with the contract of each",
    "src/holdfast/store/sqlite/store.py": "the operations on SQLite, one after the other",
    "src/holdfast/worker/gate/governor.py": "one method for each verdict",
}
LONG_FUNCTIONS: dict[str, str] = {
    "src/holdfast/programs/function/actions.py:action": "a parameter and its sentence for each fact that it declares",
}

OUTSIDE = [re.escape(f"{place}/") for place in (ROOT, Path.home() / "holdfast") if len(place.parts) > 2]
"""Paths of the machine on which the project is developed."""

THIS = Path(__file__).resolve()


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


class Outline(msgspec.Struct, frozen=True):
    """What is asked about a module. Each is parsed once: see the group of these tests."""

    docstring: str
    functions: list[tuple[str, int]]
    """With the number of their lines."""
    classes: list[str]


@cache
def _outline(path: Path) -> Outline:
    module = ast.parse(path.read_text(encoding="utf-8"))
    functions = [
        (node.name, (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in _statements(module)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    classes = [node.name for node in module.body if isinstance(node, ast.ClassDef)]
    return Outline(ast.get_docstring(module) or "", functions, classes)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements inside: an expression has none, and most of a module is expressions."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(node, field, ()) if not isinstance(node, ast.expr) else ():
            yield each
            yield from _statements(each)


def _texts() -> Iterator[Path]:
    """Every text file of the project; in a git checkout, the files that git knows or would add."""
    git = shutil.which("git") if (ROOT / ".git").exists() else None
    if git is not None:
        command = [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        files = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        folders = ("src", "tests", "docs", "examples", "bench")
        inside = [path for folder in folders for path in (ROOT / folder).rglob("*")]
        files = [path for path in inside if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)]
    for path in files:
        if path.is_file() and path.suffix in {".py", ".md", ".sql", ".toml", ".sh", ".qnt", ""} and path != THIS:
            yield path


def test_files_are_short() -> None:
    """A long file does two things: divide it. The few that may be long are named, with the reason."""
    lines = {_name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    limits = {name: LONGEST_LINES if name in LONG_FILES else FILE_LINES for name in lines}
    assert {name: count for name, count in lines.items() if count > limits[name]} == {}


def test_functions_are_short() -> None:
    """A function fits on a screen."""
    long = {
        f"{_name(path)}:{name}"
        for path in SOURCES
        for name, lines in _outline(path).functions
        if lines > FUNCTION_LINES
    }
    assert long - LONG_FUNCTIONS.keys() == set()


@table("path", SOURCES, ids=_name)
def test_a_module_says_what_it_owns(path: Path) -> None:
    """A module opens with a docstring."""
    assert _outline(path).docstring.strip() != ""


def test_nothing_is_left_for_later() -> None:
    """Open work is described in ARCHITECTURE.md, not in notes in the code."""
    marks = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
    assert [_name(path) for path in SOURCES if marks.search(path.read_text(encoding="utf-8"))] == []


def test_no_file_names_a_path_of_this_machine() -> None:
    """No path of the folder in which the project is checked out."""
    pattern = re.compile("|".join(OUTSIDE) or "(?!)")
    assert [
        _name(path) for path in _texts() if pattern.search(path.read_text(encoding="utf-8", errors="replace"))
    ] == []


def test_every_folder_has_its_place() -> None:
    """A folder of the package is a row of the table in ARCHITECTURE.md, and a layer of the import contract."""
    folders = {path.parent.name for path in (ROOT / "src" / "holdfast").glob("*/__init__.py")}
    rows = set(re.findall(r"^\| `(\w+)/` \|", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), re.MULTILINE))
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = {layer.removeprefix("holdfast.") for layer in contracts[0]["layers"]}
    assert rows == folders
    assert layers == folders


def test_a_name_means_one_class() -> None:
    """A class's name in a message or a signature is unambiguous."""
    places: dict[str, list[str]] = {}
    for path in SOURCES:
        for name in _outline(path).classes:
            if not name.startswith("_"):
                places.setdefault(name, []).append(_name(path))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}
