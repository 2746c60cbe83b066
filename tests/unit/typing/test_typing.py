"""Types are part of the interface: right programs pass, wrong ones are refused where they are wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def mypy(file: str, cache: Path) -> str:
    """What mypy says of a file, as a user's project would run it."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={cache}", file]
    return subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=110).stdout


def test_a_typed_program_passes(tmp_path: Path) -> None:
    """Decorated functions keep their arguments and give their results, in strict mode and without a plugin."""
    assert mypy("good.py", tmp_path) == "Success: no issues found in 1 source file\n"


def test_mistakes_are_refused_each_in_its_line(tmp_path: Path) -> None:
    """No mistake passes, and no other line is complained of."""
    lines = (HERE / "wrong.py").read_text(encoding="utf-8").splitlines()
    marks = {number: mark[1] for number, line in enumerate(lines, 1) if (mark := re.search(r"  # wrong: (\S+)$", line))}
    said = re.findall(r"^wrong\.py:(\d+): error: .*\[([a-z-]+)\]$", mypy("wrong.py", tmp_path), re.MULTILINE)
    found = {(int(number), code) for number, code in said}
    assert {number for number, _ in found} == set(marks)
    assert set(marks.items()) <= found
