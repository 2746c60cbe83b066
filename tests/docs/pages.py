"""The pages of the documentation and their parts: blocks of code, shell commands, links, headings."""

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
    """A fenced block. ``why_not`` is the reason why it is not run; None if it is. ``before`` is the paragraph above."""

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
            text[: block.start("text")].count("\n") + 1,
            block["kind"],
            block["text"],
            block["why"],
            text[: block.start()].rstrip().rpartition("\n\n")[2],
        )
        for block in _BLOCK.finditer(text)
    ]


def blocks(page: Path, kind: str) -> list[Block]:
    """The page's blocks of one kind, in order."""
    return [block for block in all_blocks(page) if block.kind == kind]


def commands(page: Path) -> Iterator[str]:
    """Every ``holdfast …`` command line in the page's blocks, with the argument that ``xargs`` adds."""
    for block in blocks(page, "console"):
        for line in block.text.splitlines():
            parts = line.removeprefix("$ ").split(" | ") if line.startswith("$ ") else []
            for part in parts:
                command = re.sub(r"^xargs -n1 (.*)$", r"\1 RUN", part)
                if command.startswith("holdfast "):
                    yield command


def mentions(page: Path) -> Iterator[str]:
    """The commands in the page's prose: ``holdfast NAME …``."""
    prose = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    yield from re.findall(r"`holdfast ([a-z]\w*)", prose)


def links(page: Path) -> list[str]:
    """The targets of the page's links, without those to other sites."""
    prose = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", prose) if "://" not in link]


def anchors(page: Path) -> set[str]:
    """The names of the page's headings, as links write them."""
    prose = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
