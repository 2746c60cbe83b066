"""The first thing that a reader sees is true to the letter."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.pages import ROOT, blocks
from tests.docs.test_snippets import run

README = ROOT / "README.md"


def test_the_first_program_crashes_and_goes_on(tmp_path: Path) -> None:
    """Run twice, as the README does, it prints what the README says, and charges once."""
    program = blocks(README, "python")[0]
    assert program.why_not is not None
    script = tmp_path / "shop.py"
    script.write_text(program.text, encoding="utf-8")
    first, second = run(script, tmp_path), run(script, tmp_path)
    assert (first.returncode, second.returncode) == (1, 0), second.stderr
    shown = "$ python shop.py\n" + first.stdout + "$ python shop.py\n" + second.stdout
    assert blocks(README, "console")[0].text == shown


def test_the_output_of_make_run_is_what_the_readme_shows(tmp_path: Path) -> None:
    """Numbers of processes, times and the header apart."""
    done = run(ROOT / "examples" / "survive.py", tmp_path)
    assert done.returncode == 0, done.stderr
    printed = set(map(_shape, done.stdout.splitlines()))
    shown = [block.text for block in blocks(README, "text") if "kill -9" in block.text]
    assert len(shown) == 1
    assert [line for line in shown[0].splitlines() if _shape(line) not in printed] == []


def _shape(line: str) -> str:
    """A line without what differs from run to run."""
    line = re.sub(r"p-[0-9a-f]{6}", "p-…", line)
    line = re.sub(r"\d+(\.\d+)? m?s\b", "…", line)
    return re.sub(r"\s+", " ", re.sub(r"(process|-9) \d+", r"\1 …", line))
