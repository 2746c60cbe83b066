"""The documentation is complete and holds together."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast
from holdfast import testing
from holdfast.errors import HoldfastError
from holdfast.worker.worker import WorkerOptions
from tests.docs import reference
from tests.docs.pages import PAGES, ROOT, anchors, links

REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def test_the_reference_is_what_the_code_says() -> None:
    """`python -m tests.docs.reference` writes it; a change of the code without it fails here."""
    assert reference.write() == REFERENCE


@pytest.mark.parametrize("name", [*holdfast.__all__, *testing.__all__])
def test_every_public_name_is_in_the_reference(name: str) -> None:
    """What is exported is documented: under a heading, or in the table of errors."""
    assert f"\n### {name}\n" in REFERENCE or f"| **`{name}`** |" in REFERENCE


@pytest.mark.parametrize("kind", reference.classes(), ids=lambda kind: kind.__name__)
def test_every_error_is_in_the_reference_with_its_code(kind: type[HoldfastError]) -> None:
    """An error without a line there cannot be looked up."""
    assert any(f"`{kind.__name__}`" in line and f"| `{kind.code}` |" in line for line in REFERENCE.splitlines())


def test_error_codes_are_unique() -> None:
    """A code names one class."""
    codes = [kind.code for kind in reference.classes()]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize("field", WorkerOptions.__struct_fields__)
def test_every_option_of_a_worker_is_in_the_reference_with_its_meaning(field: str) -> None:
    """A setting that nobody explains is a trap."""
    section = REFERENCE.partition("\n### WorkerOptions\n")[2].partition("\n## ")[0]
    (row,) = [line for line in section.splitlines() if line.startswith(f"| `{field}` |")]
    assert row.split(" | ")[-1].strip(" |") != ""


def test_every_parked_reason_is_explained() -> None:
    """The first words of each reason that the engine gives are in the operator's table."""
    for reason in (
        "nondeterminism:",
        "blocked_loop:",
        "undecodable:",
        "poison:",
        "the workflow waits for something that nothing can settle",
        "the run cannot be rebuilt:",
        "engine:",
    ):
        assert f"`{reason}" in OPERATIONS


def test_the_exports_are_sorted() -> None:
    """Sorted as ruff sorts: constants, classes, functions; and without repetition."""
    for names in (holdfast.__all__, testing.__all__):
        assert names == sorted(set(names))
    assert all(hasattr(holdfast, name) for name in holdfast.__all__)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_resolve(page: Path) -> None:
    """A link leads to a file that is there, and to a heading that is in it."""
    for link in links(page):
        place, _, anchor = link.partition("#")
        target = page if not place else (page.parent / place).resolve()
        assert target.exists(), f"{page.name}: {link}"
        if anchor:
            assert anchor in anchors(target), f"{page.name}: {link}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    """A page that nothing leads to is lost."""
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        seen.add(page)
        found = {(page.parent / link.partition("#")[0]).resolve() for link in links(page)}
        waiting += [target for target in found if target.suffix == ".md" and target.exists() and target not in seen]
    assert set(PAGES) <= seen
