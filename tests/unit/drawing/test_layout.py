"""The laws of the layout: nothing overlaps, no edge runs through a box, texts fit; measured on many definitions."""

from __future__ import annotations

import random
from typing import Final

import msgspec
import pytest

from holdfast.drawing.definitions import draw_definition
from holdfast.drawing.layout import layers
from holdfast.drawing.node_views import NodeView
from holdfast.drawing.picture import Direction, State
from holdfast.programs.definition.compiler.compiler import compile_text
from holdfast.programs.definition.walks import all_nodes
from tests.definitions import CLAIMS
from tests.scope import volume
from tests.unit.drawing.geometry import faults
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
    assert len(edge.points) > 3


def test_a_cycle_is_refused() -> None:
    """The compiler refuses cycles; the layout does not hang on one."""
    with pytest.raises(ValueError, match="cycle"):
        layers._layers(2, [_link(0, 1), _link(1, 0)])


def _link(source: int, target: int) -> layers.Link:
    return layers.Link(source, target, "needs")
