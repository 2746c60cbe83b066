"""Types are part of the interface: right programs pass, wrong ones are refused where they are wrong."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("typing")  # each checker runs once

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


@pytest.fixture(scope="module")
def mypy() -> str:
    """mypy's output for the package and both programs, from the one time that it runs."""
    command = [sys.executable, "-m", "mypy", "src", *(str(HERE / name) for name in ("good.py", "wrong.py"))]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280).stdout


@pytest.fixture(scope="module")
def pyright(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[int]]:
    """The lines of each program that pyright refuses, with its usual rules."""
    settings = tmp_path_factory.mktemp("pyright") / "pyrightconfig.json"
    files = [str(HERE / "good.py"), str(HERE / "wrong.py")]
    settings.write_text(json.dumps({"typeCheckingMode": "standard", "include": files}), encoding="utf-8")
    command = [sys.executable, "-m", "basedpyright", "-p", str(settings), "--level", "error", "--outputjson"]
    command += ["--pythonpath", sys.executable]
    report = json.loads(subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=250).stdout)
    assert report["summary"]["filesAnalyzed"] == 2
    refused: dict[str, set[int]] = {"good.py": set(), "wrong.py": set()}
    for problem in report["generalDiagnostics"]:
        refused[Path(problem["file"]).name].add(problem["range"]["start"]["line"] + 1)
    return refused


def marks() -> dict[int, str]:
    """The lines that are wrong, each with mypy's name for the mistake."""
    lines = (HERE / "wrong.py").read_text(encoding="utf-8").splitlines()
    return {number: mark[1] for number, line in enumerate(lines, 1) if (mark := re.search(r"  # wrong: (\S+)$", line))}


def test_the_package_and_a_typed_program_pass(mypy: str) -> None:
    """In strict mode. Decorated functions keep their arguments and give their results, without a plugin."""
    assert [line for line in mypy.splitlines() if ": error: " in line and "wrong.py:" not in line] == []
    assert re.search(r"\(checked \d{4,} source files\)", mypy), mypy


def test_a_user_gets_the_types() -> None:
    """Without this file type checkers take nothing from an installed package."""
    assert (ROOT / "src" / "holdfast" / "py.typed").exists()


def test_a_typed_program_passes_pyright(pyright: dict[str, set[int]]) -> None:
    """Editors mark the wrong lines and nothing else."""
    assert pyright["good.py"] == set()


def test_pyright_refuses_the_same_mistakes(pyright: dict[str, set[int]]) -> None:
    """All but the use of a result that is always None, which it allows."""
    expected = {number for number, code in marks().items() if code != "func-returns-value"}
    assert pyright["wrong.py"] == expected


def test_mistakes_are_refused_each_in_its_line(mypy: str) -> None:
    """No mistake passes, and no other line is reported."""
    reported = re.findall(r"wrong\.py:(\d+): error: .*\[([a-z-]+)\]$", mypy, re.MULTILINE)
    found = {(int(number), code) for number, code in reported}
    assert {number for number, _ in found} == set(marks())
    assert set(marks().items()) <= found
