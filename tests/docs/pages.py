"""The pages of the documentation, and what is in them: blocks of code, shell commands, links, headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])

_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<why>.+?) -->\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


class Block(msgspec.Struct, frozen=True):
    """A fenced block; ``why_not`` says why it is not run, if it is not; ``before`` is the paragraph above it."""

    line: int
    kind: str
    text: str
    why_not: str | None
    before: str


def all_blocks(page: Path) -> list[Block]:
    """The page's blocks, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            text[: found.start("text")].count("\n") + 1,
            found["kind"],
            found["text"],
            found["why"],
            text[: found.start()].rstrip().rpartition("\n\n")[2],
        )
        for found in _BLOCK.finditer(text)
    ]


def blocks(page: Path, kind: str) -> list[Block]:
    """The page's blocks of one kind, in order."""
    return [block for block in all_blocks(page) if block.kind == kind]


def commands(page: Path) -> Iterator[str]:
    """Every ``holdfast …`` command line in the page's blocks. What ``xargs`` adds is there too."""
    for block in blocks(page, "console"):
        for line in block.text.splitlines():
            parts = line.removeprefix("$ ").split(" | ") if line.startswith("$ ") else []
            for part in parts:
                command = re.sub(r"^xargs -n1 (.*)$", r"\1 RUN", part)
                if command.startswith("holdfast "):
                    yield command


def mentions(page: Path) -> Iterator[str]:
    """The commands that the page's prose speaks of: ``holdfast NAME …``."""
    prose = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    yield from re.findall(r"`holdfast ([a-z]\w*)", prose)


def links(page: Path) -> list[str]:
    """Where the page's links lead, those to other sites left out."""
    prose = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", prose) if "://" not in link]


def anchors(page: Path) -> set[str]:
    """The names of the page's headings, as links write them."""
    prose = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
