"""The laws of the layout: nothing overlaps, no edge runs through a box, texts fit; measured on many definitions."""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path
from typing import Final

import msgspec
import pytest

from holdfast.drawing.definitions import draw_definition
from holdfast.drawing.layout import layers
from holdfast.drawing.node_views import NodeView
from holdfast.drawing.picture import Direction, State
from holdfast.drawing.writers.svg import svg_of
from holdfast.programs.definition.compiler.compiler import compile_document, compile_text
from holdfast.programs.definition.model import Definition
from holdfast.programs.definition.walks import all_nodes
from tests.definitions import CLAIMS
from tests.scope import volume
from tests.unit.drawing.geometry import bends, bends_of, crossings, faults
from tests.unit.drawing.large_definition import month_close
from tests.unit.drawing.random_definitions import made


@pytest.mark.parametrize("block", range(volume(1, 10)))
def test_nothing_overlaps_and_no_edge_runs_through_a_box(block: int) -> None:
    """In random definitions, every other one from left to right. The seed is in the message."""
    for seed in range(block * 100, block * 100 + 100):
        direction: Direction = "across" if seed % 2 else "down"
        picture = draw_definition(made(seed), direction=direction)
        assert faults(picture) == [], f"seed {seed}, {direction}"


STATES: Final[tuple[State, ...]] = ("pending", "running", "waiting", "success", "failed", "skipped", "cancelled")
LONG: Final = "since 5 minutes, at most until in 12 days, 23 hours and 59 minutes, 支払い"


@pytest.mark.parametrize("seed", range(40))
def test_so_it_is_with_the_states_of_a_run_and_with_folded_blocks(seed: int) -> None:
    source, definition = random.Random(seed), made(seed)
    views = {
        node.name: NodeView(state=source.choice(STATES), visits=seed, notes=[LONG] * source.randrange(3), message=LONG)
        for node in all_nodes(definition.steps)
        if source.random() < 0.8
    }
    direction: Direction = "across" if seed % 2 else "down"
    assert faults(draw_definition(definition, views, direction=direction, deepest=source.choice((0, 2, 12)))) == []


@pytest.mark.parametrize("seed", range(20))
def test_every_node_is_drawn_once(seed: int) -> None:
    """A box for each node, with its name as the id."""
    definition = made(seed, 40)
    drawn = [box.id for box in draw_definition(definition).boxes if box.kind in ("node", "frame")]
    assert sorted(drawn) == sorted(node.name for node in all_nodes(definition.steps))


def test_the_measure_finds_what_is_wrong() -> None:
    """A box that is moved onto another, and an edge through a box, are told."""
    picture = draw_definition(compile_text(CLAIMS).definition)
    boxes = {box.id: box for box in picture.boxes}
    score, auto = boxes["score"], boxes["auto"]
    moved = msgspec.structs.replace(auto, x=score.x, y=score.y)
    found = faults(
        msgspec.structs.replace(picture, boxes=tuple(moved if box is auto else box for box in picture.boxes))
    )
    assert "score overlaps auto" in found or "auto overlaps score" in found
    edge = next(edge for edge in picture.edges if edge.source == "rest")
    detour = (edge.points[0], (score.x + 20, score.y + 20), edge.points[-1])
    bent = msgspec.structs.replace(edge, points=detour)
    found = faults(msgspec.structs.replace(picture, edges=(bent,)))
    assert "the edge rest → route runs through score" in found


@pytest.mark.parametrize("direction", ["down", "across"])
def test_two_hundred_nodes_are_readable(direction: Direction) -> None:
    """The picture has the shape of a page, little empty room, and no box is cut to nothing."""
    definition = month_close()
    picture = draw_definition(definition, direction=direction)
    count = sum(1 for _ in all_nodes(definition.steps))
    assert count == 200
    assert faults(picture) == []
    assert 0.8 <= picture.width / picture.height <= 2.6
    assert picture.width * picture.height / count < 70_000  # pixels for each node, with the room around it
    names = {box.id: box.texts[0].text for box in picture.boxes if box.kind in ("node", "frame")}
    assert all(name == text for name, text in names.items())


def test_blocks_deeper_than_asked_are_folded() -> None:
    """A folded block says how many nodes it has."""
    picture = draw_definition(compile_text(CLAIMS).definition, deepest=0)
    boxes = {box.id: box for box in picture.boxes}
    assert "docs" not in boxes
    assert [line.text for line in boxes["checks"].texts][-1] == "3 nodes inside"
    assert faults(picture) == []


def test_an_edge_that_passes_a_layer_goes_around_its_nodes() -> None:
    """Without a place of its own in the layers between, it would run through a node."""
    definition = month_close()
    picture = draw_definition(definition)
    (edge,) = [edge for edge in picture.edges if (edge.source, edge.target) == ("north.accruals", "north.report")]
    assert edge.kind == "after"
    assert edge.points[0][0] == edge.points[1][0], "it goes down beside them, on one line"
    boxes = {box.id: box for box in picture.boxes}
    source = boxes[edge.source]
    passed = [box for box in picture.boxes if box.parent == source.parent and source.y < box.y < edge.points[1][1]]
    assert passed
    assert faults(picture) == []


def graph_of(edges: dict[str, list[str]]) -> Definition:
    """A graph whose nodes need these others."""
    nodes = {name: {"step": "work", **({"needs": needs} if needs else {})} for name, needs in edges.items()}
    document = {"holdfast": "definition/1", "name": "dag", "version": 1, "steps": [{"g": {"graph": nodes}}]}
    return compile_document(document).definition


def dag(seed: int, count: int = 30) -> Definition:
    """A random graph of so many nodes, most of which need one or two of the twelve before them."""
    source = random.Random(seed)
    edges: dict[str, list[str]] = {}
    for at in range(count):
        near = range(max(0, at - 12), at)
        number = source.choice((0, 1, 1, 2, 2, 3)) if at else 0
        edges[f"n{at:02}"] = sorted({f"n{source.choice(near):02}" for _ in range(number)})
    return graph_of(edges)


@pytest.mark.parametrize("direction", ["down", "across"])
def test_graphs_of_thirty_nodes_have_few_crossings_and_few_bends(direction: Direction) -> None:
    """Twelve graphs with 530 edges together. Sorted by barycentres alone they had 260 crossings, and with places by
    least squares 780 bends."""
    pictures = [draw_definition(dag(seed), direction=direction) for seed in range(12)]
    assert [faults(picture) for picture in pictures] == [[]] * 12
    assert sum(map(crossings, pictures)) <= 200
    assert sum(map(bends, pictures)) <= {"down": 240, "across": 330}[direction]  # a card is higher than wide to edges


def test_a_long_edge_is_straight_between_its_ends() -> None:
    """However many layers it passes, it turns beside its ends alone; of two that cross one has to turn."""
    chain = {"a": [], **{f"b{at}": [f"b{at - 1}" if at else "a"] for at in range(6)}, "z": ["b5", "a"]}
    picture = draw_definition(graph_of(chain))
    (edge,) = [edge for edge in picture.edges if (edge.source, edge.target) == ("a", "z")]
    boxes = {box.id: box for box in picture.boxes}
    longest = max(abs(first[1] - last[1]) for first, last in itertools.pairwise(edge.points) if first[0] == last[0])
    assert longest >= boxes["b5"].y + boxes["b5"].height - boxes["b0"].y
    assert len(edge.points) <= 4
    steps = [each for each in picture.edges if each is not edge]
    assert [bends_of(each) for each in steps] == [0] * len(steps)


@pytest.mark.parametrize("direction", ["down", "across"])
def test_edges_at_one_side_of_a_box_are_spread_over_it(direction: Direction) -> None:
    """In the order of what they lead to, so that they do not cross there."""
    across = direction == "across"
    wide = {"a": [], **{f"b{at}": ["a"] for at in range(4)}, "z": [f"b{at}" for at in range(4)]}
    picture = draw_definition(graph_of(wide), direction=direction)
    for name, end in (("a", 0), ("z", -1)):
        edges = [edge for edge in picture.edges if name in (edge.source, edge.target)]
        places = [(edge.points[end][across], edge.points[-1 - end][across]) for edge in edges]
        assert len({own for own, _ in places}) == 4
        assert [own for own, _ in sorted(places)] == [own for own, _ in sorted(places, key=lambda each: each[1])]
    assert crossings(picture) == 0


@pytest.mark.parametrize("direction", ["down", "across"])
def test_the_picture_of_a_graph_is_as_it_was(direction: Direction) -> None:
    """A picture that changes is looked at: ``UPDATE=1`` writes it anew."""
    kept = Path(__file__).parent / "golden" / f"dag-{direction}.svg"
    written = svg_of(draw_definition(dag(0), direction=direction))
    if os.environ.get("UPDATE"):
        kept.write_text(written)
    assert written == kept.read_text()


def test_a_cycle_is_refused() -> None:
    """The compiler refuses cycles; the layout does not hang on one."""
    with pytest.raises(ValueError, match="cycle"):
        layers._layers(2, [_link(0, 1), _link(1, 0)])


def _link(source: int, target: int) -> layers.Link:
    return layers.Link(source, target, "needs")
