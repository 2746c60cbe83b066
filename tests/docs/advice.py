"""The table of codes of advice in ``docs/operations.md``: ``python -m tests.docs.advice``. Tests compare it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from holdfast.people.permissions import LEAST
from holdfast.runs.advice import MEANINGS, AdviceCode

PAGE: Final = Path(__file__).parents[2] / "docs" / "operations.md"
HEAD: Final = "| code | why it does not move | what moves it | who may |\n|---|---|---|---|\n"
PASSES: Final = {"passes": "nobody: it passes", "rests": "nothing is to move"}


def write() -> str:
    """The table."""
    return HEAD + "".join(f"{row}\n" for row in rows())


def rows() -> Iterator[str]:
    for code in AdviceCode:
        found = MEANINGS[code]
        calls = "".join(f", `{call}`" for call in found.call.split(", ") if call)
        way = f"`{found.command}`{calls}" if found.command else PASSES[found.sort]
        who = f"level {LEAST[found.operation]} (`{found.operation}`)" if found.operation else ""
        if found.sort == "act" and not who:
            who = "who runs the workers"
        yield f"| `{code}` | {found.words} | {way} | {who} |"


def put(page: str) -> str:
    """The page with the table of this code."""
    before, _, rest = page.partition(HEAD)
    after = rest.partition("\n\n")[2]
    return f"{before}{write()}\n{after}"


if __name__ == "__main__":
    PAGE.write_text(put(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
