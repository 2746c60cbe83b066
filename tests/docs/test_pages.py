"""The documentation is complete, and its parts agree with each other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import holdfast
from holdfast import testing, views
from holdfast.client.runs.parking import ENDINGS
from holdfast.errors import HoldfastError
from holdfast.runs.advice import MEANINGS, AdviceCode
from holdfast.server import OpenIdSettings, ServerSettings
from holdfast.server.openid.settings import read_settings
from holdfast.worker.options import WorkerOptions
from tests.docs import advice, definition_format, http_api, reference
from tests.docs.pages import PAGES, ROOT, anchors, blocks, links
from tests.tables import table

REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
SECURITY = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
SERVER = (ROOT / "docs" / "server.md").read_text(encoding="utf-8")
OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def test_the_reference_is_what_the_code_says() -> None:
    """`python -m tests.docs.reference` writes it; after a change of the code it must be written again."""
    assert reference.write() == REFERENCE


def test_the_format_of_definitions_is_what_the_schema_says() -> None:
    """`python -m tests.docs.definition_format` writes it; after a change of the schema it must be written again."""
    assert definition_format.write() == definition_format.PAGE.read_text(encoding="utf-8")


def test_the_page_of_the_http_api_is_what_its_table_says() -> None:
    """`python -m tests.docs.http_api` writes it; after a change of a route it must be written again."""
    assert http_api.write() == http_api.PAGE.read_text(encoding="utf-8")


@table("name", [*holdfast.__all__, *views.__all__, *testing.__all__])
def test_every_public_name_is_in_the_reference(name: str) -> None:
    """Each exported name is documented: under a heading, or in the table of errors."""
    assert f"\n### {name}\n" in REFERENCE or f"| **`{name}`** |" in REFERENCE


@table("kind", reference.classes(), ids=lambda kind: kind.__name__)
def test_every_error_is_in_the_reference_with_its_code(kind: type[HoldfastError]) -> None:
    """An error that is not in the table cannot be looked up."""
    assert any(f"`{kind.__name__}`" in line and f"| `{kind.code}` |" in line for line in REFERENCE.splitlines())


def test_error_codes_are_unique() -> None:
    """A code stands for one class."""
    codes = [kind.code for kind in reference.classes()]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize("field", WorkerOptions.__struct_fields__)
def test_every_option_of_a_worker_is_in_the_reference_with_its_meaning(field: str) -> None:
    """A setting without an explanation cannot be used."""
    section = REFERENCE.partition("\n### WorkerOptions\n")[2].partition("\n## ")[0]
    (row,) = [line for line in section.splitlines() if line.startswith(f"| `{field}` |")]
    assert row.split(" | ")[-1].strip(" |") != ""


@pytest.mark.parametrize("field", ServerSettings.__struct_fields__)
def test_every_setting_of_a_server_is_in_the_page_on_security(field: str) -> None:
    """Each limit, and each refusal that can be changed, names its setting."""
    assert f"`{field}`" in SECURITY


@pytest.mark.parametrize("field", OpenIdSettings.__struct_fields__)
def test_every_setting_of_openid_connect_is_explained(field: str) -> None:
    rows = [line.split(" | ")[0] for line in SERVER.splitlines() if line.startswith("| `")]
    assert any(f"`{field}`" in row for row in rows)


def test_the_file_of_settings_on_the_page_can_be_used(tmp_path: Path) -> None:
    (block,) = [each for each in blocks(ROOT / "docs" / "server.md", "yaml") if "issuer:" in each.text]
    (tmp_path / "oidc.yaml").write_text(block.text, encoding="utf-8")
    assert read_settings(tmp_path / "oidc.yaml").make_users


def test_every_code_of_advice_is_in_the_table() -> None:
    """The table is written from the enumeration."""
    assert set(MEANINGS) == set(AdviceCode)
    assert advice.write() in OPERATIONS, "python -m tests.docs.advice"


@pytest.mark.parametrize("reason", ENDINGS)
def test_every_reason_of_a_pause_is_explained_with_its_code(reason: str) -> None:
    """The codes in the table for operators are those that advice has."""
    (row,) = [line for line in OPERATIONS.splitlines() if re.search(rf"`{re.escape(reason.strip())}[ `]", line)]
    assert row.endswith(f"| `{ENDINGS[reason]}` |")


def test_every_parked_reason_is_explained() -> None:
    """The first words of each reason are in the table for operators."""
    for reason in (
        "nondeterminism:",
        "blocked_loop:",
        "undecodable:",
        "poison:",
        "the workflow waits for something that nothing can settle",
        "the run cannot be rebuilt:",
        "engine:",
        "manifest:",
    ):
        assert f"`{reason}" in OPERATIONS


def groups_of_names() -> list[list[str]]:
    """The names of ``holdfast.__all__`` as its source groups them: a comment stands above each group."""
    source = Path(holdfast.__file__).read_text(encoding="utf-8").partition("__all__ = [")[2].partition("\n]")[0]
    above, *blocks = re.split(r"^    # .+$", source, flags=re.MULTILINE)
    assert re.findall(r'"(\w+)"', above) == [], "each name belongs to a group"
    groups = [re.findall(r'"(\w+)"', block) for block in blocks]
    assert [name for group in groups for name in group] == holdfast.__all__
    return groups


def test_the_exports_are_sorted() -> None:
    """Those of the package in groups, each of which is sorted; and without repetition."""
    assert testing.__all__ == sorted(set(testing.__all__))
    assert views.__all__ == sorted(set(views.__all__))
    assert len(holdfast.__all__) == len(set(holdfast.__all__))
    for group in groups_of_names():
        assert group == sorted(group)
    assert all(hasattr(holdfast, name) for name in holdfast.__all__)


@table("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_resolve(page: Path) -> None:
    """The file of a link exists, and has the heading that the link names."""
    for link in links(page):
        place, _, anchor = link.partition("#")
        target = page if not place else (page.parent / place).resolve()
        assert target.exists(), f"{page.name}: {link}"
        if anchor:
            assert anchor in anchors(target), f"{page.name}: {link}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    """Nobody finds a page without a link to it."""
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        targets = {(page.parent / link.partition("#")[0]).resolve() for link in links(page)} - reached
        waiting += [target for target in targets if target.suffix == ".md" and target.exists()]
    assert set(PAGES) <= reached
