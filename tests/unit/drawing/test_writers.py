"""SVG, PNG, JSON and Mermaid: one definition kept as golden files, and what every document of them must be."""

from __future__ import annotations

import json
import re
import struct
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from holdfast.drawing.definitions import draw_definition
from holdfast.drawing.node_views import NodeView
from holdfast.drawing.picture import Picture
from holdfast.drawing.text_widths import fitted, width_of
from holdfast.drawing.writers.json_text import json_of
from holdfast.drawing.writers.mermaid import mermaid_of
from holdfast.drawing.writers.png import LONGEST_SIDE, png_of, zoom_of
from holdfast.drawing.writers.signs import SIGNS
from holdfast.drawing.writers.svg import svg_of
from holdfast.errors import ExtraMissing
from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.compiler import compile_text
from tests.definitions import CLAIMS
from tests.unit.drawing.random_definitions import made

GOLDEN = Path(__file__).parent / "golden"
SVG = "{http://www.w3.org/2000/svg}"
VIEWS = {
    "score": NodeView(state="success", visits=1),
    "sum": NodeView(state="success", visits=1),
    "add": NodeView(state="success", visits=3, notes=["×3"]),
    "checks": NodeView(state="running", visits=1),
    "docs": NodeView(state="waiting", visits=1, notes=["since 2026-05-01 12:00:00 UTC"]),
    "get": NodeView(state="retrying", visits=1, message="no answer in time"),
}


def claims(*, live: bool = False) -> Picture:
    return draw_definition(compile_text(CLAIMS).definition, VIEWS if live else None)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("claims.svg", svg_of(claims())),
        ("claims.json", json_of(claims())),
        ("claims.mmd", mermaid_of(claims())),
        ("claims-live.mmd", mermaid_of(claims(live=True))),
    ],
)
def test_a_picture_is_what_it_was(name: str, text: str) -> None:
    """The same definition gives the same bytes. Delete the golden file and run again where a change is meant."""
    path = GOLDEN / name
    if not path.exists():
        path.write_text(text, encoding="utf-8")
        pytest.fail(f"{name} is written: look at it, and keep it")
    assert text == path.read_text(encoding="utf-8")


def test_an_svg_is_accessible_and_needs_nothing_else() -> None:
    """It has a title and a description, a tooltip for each node, both themes, and no script or link."""
    text = svg_of(claims())
    root = ElementTree.fromstring(text)
    assert root.get("role") == "img"
    labels = (root.get("aria-labelledby") or "").split()
    assert all(root.find(f".//*[@id='{label}']") is not None for label in labels)
    group = root.find(f".//{SVG}g[@id='node-score']")
    assert group is not None
    assert "step fraud.score" in str(group.findtext(f"{SVG}title"))
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"<script|href=|url\((?!#arrow)|@import|@font-face", text)


def test_states_have_a_colour_and_a_sign() -> None:
    """Nobody must tell red from green: each state has its own sign, and the legend names it."""
    root = ElementTree.fromstring(svg_of(claims(live=True)))
    for name, view in VIEWS.items():
        group = root.find(f".//{SVG}g[@id='node-{name}']")
        assert group is not None
        assert view.state in str(group.get("class")).split()
        signs = [path.get("d") for path in group.findall(f"{SVG}g[@class='sign']/{SVG}path")]
        assert signs == [SIGNS[view.state]]
    legend = {text.text for text in root.iter(f"{SVG}text")}
    assert {"running", "waiting", "retrying", "success", "pending"} <= legend
    assert len(set(SIGNS.values())) == len(SIGNS)


def test_texts_of_any_kind_are_written_safely() -> None:
    """Markup, control characters and other scripts neither break the document nor leave their box."""
    bad = '<script>"&\x00\x1b\u202e支払い\ud800' + "W" * 300
    node = m.Node(name="odd", verb=m.WaitVerb(signal=bad), title=bad)
    picture = draw_definition(m.Definition(name="odd", version=1, steps=(node,)))
    root = ElementTree.fromstring(svg_of(picture))
    assert root.find(f".//{SVG}script") is None
    assert "<script>" not in mermaid_of(picture)
    json.loads(json_of(picture))
    box = next(box for box in picture.boxes if box.id == "odd")
    assert all(line.text.endswith("…") for line in box.texts[1:])


@pytest.mark.parametrize("seed", range(10))
def test_every_picture_can_be_written(seed: int) -> None:
    """Whatever the definition."""
    picture = draw_definition(made(seed), {}, direction="across")
    ElementTree.fromstring(svg_of(picture))
    assert {box["id"] for box in json.loads(json_of(picture))["boxes"]} == {box.id for box in picture.boxes}
    assert mermaid_of(picture).count("subgraph") == sum(box.kind == "frame" for box in picture.boxes)


def test_a_png_has_the_size_of_the_picture() -> None:
    """Two pixels for one."""
    picture = claims()
    data = png_of(picture)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (picture.width * 2, picture.height * 2)


def test_a_png_of_a_large_picture_is_limited() -> None:
    """No picture takes all memory."""
    picture = draw_definition(made(3, 200))
    zoom = zoom_of(picture, 2.0)
    assert max(picture.width, picture.height) * zoom <= LONGEST_SIDE


def test_a_missing_renderer_is_told_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """PNG is an extra."""
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(ExtraMissing, match=r"holdfast\[png\]"):
        png_of(claims())


def test_a_cut_text_fits() -> None:
    """Cut at a character, with an ellipsis."""
    text = fitted("payload.claimNo == start.claimNo", 12, 100)
    assert text.endswith("…")
    assert width_of(text, 12) <= 100
    assert fitted("short", 12, 100) == "short"
