"""Types are part of the interface: right programs pass, wrong ones are refused where they are wrong."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def mypy(file: str, cache: Path) -> str:
    """mypy's output for a file, as a user's project would run it."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={cache}", file]
    return subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=110).stdout


def pyright(file: str, folder: Path) -> set[int]:
    """The lines of a file that pyright refuses, with its usual rules."""
    settings = folder / "pyrightconfig.json"
    settings.write_text(json.dumps({"typeCheckingMode": "standard", "include": [str(HERE / file)]}), encoding="utf-8")
    command = [sys.executable, "-m", "basedpyright", "-p", str(settings), "--level", "error", "--outputjson"]
    command += ["--pythonpath", sys.executable]
    report = json.loads(subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=110).stdout)
    assert report["summary"]["filesAnalyzed"] == 1
    return {problem["range"]["start"]["line"] + 1 for problem in report["generalDiagnostics"]}


def marks() -> dict[int, str]:
    """The lines that are wrong, each with mypy's name for the mistake."""
    lines = (HERE / "wrong.py").read_text(encoding="utf-8").splitlines()
    return {number: mark[1] for number, line in enumerate(lines, 1) if (mark := re.search(r"  # wrong: (\S+)$", line))}


def test_a_typed_program_passes(tmp_path: Path) -> None:
    """Decorated functions keep their arguments and give their results, in strict mode and without a plugin."""
    assert mypy("good.py", tmp_path) == "Success: no issues found in 1 source file\n"


def test_a_typed_program_passes_pyright(tmp_path: Path) -> None:
    """Editors mark the wrong lines and nothing else."""
    assert pyright("good.py", tmp_path) == set()


def test_pyright_refuses_the_same_mistakes(tmp_path: Path) -> None:
    """All but the use of a result that is always None, which it allows."""
    expected = {number for number, code in marks().items() if code != "func-returns-value"}
    assert pyright("wrong.py", tmp_path) == expected


def test_mistakes_are_refused_each_in_its_line(tmp_path: Path) -> None:
    """No mistake passes, and no other line is reported."""
    reported = re.findall(r"^wrong\.py:(\d+): error: .*\[([a-z-]+)\]$", mypy("wrong.py", tmp_path), re.MULTILINE)
    found = {(int(number), code) for number, code in reported}
    assert {number for number, _ in found} == set(marks())
    assert set(marks().items()) <= found
