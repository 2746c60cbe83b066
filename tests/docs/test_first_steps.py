"""README, quickstart and tutorial are exact: every file is saved, every command typed, with an installed wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, all_blocks, blocks
from tests.docs.reader import Reader, file_of
from tests.scope import one_stays

README = ROOT / "README.md"
FIRST_PAGES = (
    README,
    ROOT / "docs" / "quickstart.md",
    ROOT / "docs" / "definitions-tutorial.md",
    ROOT / "docs" / "tenants-and-users.md",
    ROOT / "docs" / "server.md",
    ROOT / "docs" / "schedules.md",
)
CRASHES = {"README.md": ("python shop.py",)}
"""The README's first program ends itself with an error when it is run for the first time."""

for_each_page = pytest.mark.parametrize(
    "page",
    one_stays(FIRST_PAGES),
    ids=lambda page: page.name,
)

pytestmark = [pytest.mark.xdist_group("first_steps"), pytest.mark.timeout(300)]


def test_the_wheel_runs_and_not_the_checkout(installed: dict[str, str], tmp_path: Path) -> None:
    """Otherwise a file that the wheel lacks would be found in the checkout."""
    script = "import holdfast, sys; assert holdfast.__file__.startswith(sys.prefix), holdfast.__file__"
    subprocess.run(["python", "-c", script], env=installed, cwd=tmp_path, check=True)


@for_each_page
def test_a_reader_who_follows_the_page_sees_what_it_shows(
    page: Path, installed: dict[str, str], tmp_path: Path
) -> None:
    """In an empty folder, from top to bottom, each command as it is printed; only times and ids may differ."""
    with Reader(tmp_path, installed) as reader:
        assert reader.follow(page, CRASHES.get(page.name, ())) > 5


@pytest.mark.long
@for_each_page
def test_a_program_can_be_run_again(page: Path, installed: dict[str, str], tmp_path: Path) -> None:
    """No program crashes, or waits forever, because it was run before."""
    programs = []
    for block in all_blocks(page):
        if block.kind in ("python", "yaml"):
            (tmp_path / file_of(block)).write_text(block.text, encoding="utf-8")
        if block.kind == "python":
            programs.append(file_of(block))
    (tmp_path / "crashed").touch()
    for program in programs * 2:
        subprocess.run(["python", program], env=installed, cwd=tmp_path, check=True, timeout=120)


@for_each_page
def test_a_file_of_the_page_does_nothing_when_it_is_imported(
    page: Path, installed: dict[str, str], tmp_path: Path
) -> None:
    """A worker imports the file: code that runs the program is behind an ``if __name__`` guard."""
    for block in all_blocks(page):
        if block.kind in ("python", "yaml"):
            (tmp_path / file_of(block)).write_text(block.text, encoding="utf-8")
    for program in sorted(tmp_path.glob("*.py")):
        script = f"import {program.stem}"
        done = subprocess.run(
            ["python", "-c", script], env=installed, cwd=tmp_path, check=True, capture_output=True, text=True
        )
        assert done.stdout == ""
    assert list(tmp_path.glob("*.db")) == []


def test_the_output_of_make_run_is_what_the_readme_shows() -> None:
    """Process ids and times may differ, and the README shows only extracts. It runs in the environment of the tests."""
    stamp = Path(sys.prefix) / ".holdfast-installed"
    environment = {**os.environ, "VIRTUAL_ENV": sys.prefix, "MAKEFLAGS": "", "PYTHONIOENCODING": "utf-8"}
    # -o counts on the command line only. Without it make would install this checkout into the environment of the tests.
    command = ["make", "-o", str(stamp), "run"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "pip install" not in done.stdout
    printed = set(map(_shape, done.stdout.splitlines()))
    (expected,) = [block.text for block in blocks(README, "text") if "kill -9" in block.text]
    assert [line for line in expected.splitlines() if _shape(line) not in printed] == []


def _shape(line: str) -> str:
    """A line without the parts that differ in every run."""
    line = re.sub(r"p-[0-9a-f]{6}", "p-…", line)
    line = re.sub(r"\d+(\.\d+)? m?s\b", "…", line)
    return re.sub(r"\s+", " ", re.sub(r"(process|-9) \d+", r"\1 …", line))
