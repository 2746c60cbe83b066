"""A definition as parts: nested blocks, decisions, forks, graphs, handlers, and the state of a run on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from holdfast.drawing.layout.layout import lay_out
from holdfast.drawing.node_views import NodeView
from holdfast.drawing.node_words import WAITS, essential, extras, verb_word
from holdfast.drawing.parts import Beside, Frame, Layered, Link, Part, Sequence, Side, SingleBox, Split, goes_on
from holdfast.drawing.picture import Direction, Element, Heading, Picture, Shape, TextLine
from holdfast.programs.definition import model as m
from holdfast.programs.definition.walks import all_nodes

DEEPEST: Final = 12
"""Blocks that stand deeper than this are folded: their nodes are counted, not drawn."""

_PENDING: Final = NodeView()


def draw_definition(
    definition: m.Definition,
    views: Mapping[str, NodeView] | None = None,
    *,
    direction: Direction = "down",
    heading: Heading | None = None,
    deepest: int = DEEPEST,
) -> Picture:
    """The picture of a definition, with the views of a run where they are given."""
    parts = _Parts(views, deepest).whole(definition)
    return lay_out(parts, heading or heading_of(definition), direction)


def heading_of(definition: m.Definition) -> Heading:
    """A definition's name and version, and its title."""
    return Heading(title=f"{definition.name} version {definition.version}", subtitle=definition.title)


class _Parts:
    """``views`` is None for a definition alone: then nothing has a state."""

    def __init__(self, views: Mapping[str, NodeView] | None, deepest: int) -> None:
        self._views = views
        self._deepest = deepest

    def whole(self, definition: m.Definition) -> Sequence:
        """Everything between the start and the end."""
        start = SingleBox(Element(id=":start", kind="start", shape="dot", tip="start"))
        steps = tuple(self._node(node, 0) for node in definition.steps)
        ends = (
            ()
            if not all(map(goes_on, steps))
            else (SingleBox(Element(id=":end", kind="end", shape="ring", tip="end")),)
        )
        return Sequence((start, *steps, *ends))

    def _nodes(self, nodes: m.Nodes, depth: int) -> tuple[Part, ...]:
        return tuple(self._node(node, depth) for node in nodes)

    def _node(self, node: m.Node, depth: int, *, in_graph: bool = False) -> Part:
        """A node, with its handlers and its undo beside it."""
        body = self._body(node, depth, in_graph)
        sides = self._sides(node, depth)
        return Beside(node.name, body, sides) if sides else body

    def _body(self, node: m.Node, depth: int, in_graph: bool) -> Part:
        verb = node.verb
        if depth >= self._deepest and m.children_of(verb):
            return self._folded(node)
        match verb:
            case m.SwitchVerb(cases=cases) if cases:
                return Split(head=self._element(node, "diamond"), branches=self._cases(node, depth), meets=in_graph)
            case m.PickVerb(options=options) if options:
                ways = tuple(Sequence(self._nodes((each.trigger, *each.do), depth + 1)) for each in options)
                return Split(head=self._element(node, "event"), branches=ways, meets=in_graph)
            case m.ForkVerb(branches=branches) if branches:
                lines = tuple(self._branch(node, each.name, each.name, each.do, depth) for each in branches)
                return Split(head=self._element(node, "card"), branches=lines, bars=True)
            case m.RepeatVerb(do=do, at_once=at_once):
                inside = Sequence(self._nodes(do, depth + 1))
                shape: Shape = "frame" if at_once is None else "stack"
                return Frame(element=self._frame(node, shape), inside=inside, loops=at_once is None)
            case m.BlockVerb(do=do):
                inside = Sequence(self._nodes(do, depth + 1))
                return Frame(element=self._frame(node, "frame"), inside=inside, ends=not goes_on(inside))
            case m.GraphVerb(nodes=nodes):
                return Frame(element=self._frame(node, "frame"), inside=self._graph(nodes, depth))
            case _:
                ends = isinstance(verb, m.EndVerb | m.RaiseVerb)
                return SingleBox(self._element(node, "round" if ends else "card"), ends)

    def _folded(self, node: m.Node) -> Part:
        count = sum(1 for _ in all_nodes((node,))) - 1
        return SingleBox(self._element(node, "card", f"{count} nodes inside"))

    # -- blocks --------------------------------------------------------------------------------------------------------

    def _cases(self, node: m.Node, depth: int) -> tuple[Sequence, ...]:
        verb = node.verb
        assert isinstance(verb, m.SwitchVerb)
        found = [
            self._branch(node, f"case.{at}", case.when or "else", case.do, depth)
            for at, case in enumerate(verb.cases, 1)
        ]
        if all(case.when is not None for case in verb.cases):
            found.append(self._branch(node, "else", "else", (), depth))
        return tuple(found)

    def _branch(self, node: m.Node, key: str, text: str, nodes: m.Nodes, depth: int) -> Sequence:
        label = Element(
            id=f"{node.name}:{key}", kind="label", shape="chip", texts=(TextLine(text, "detail"),), tip=text
        )
        return Sequence((SingleBox(label), *self._nodes(nodes, depth + 1)))

    def _graph(self, nodes: m.Nodes, depth: int) -> Layered:
        places = {node.name: at for at, node in enumerate(nodes)}
        parts = tuple(self._node(node, depth + 1, in_graph=True) for node in nodes)
        links = []
        for at, node in enumerate(nodes):
            links += [Link(places[name], at, "needs") for name in dict.fromkeys(node.needs) if name in places]
            others = [name for name in dict.fromkeys(node.after) if name in places and name not in node.needs]
            links += [Link(places[name], at, "after") for name in others]
        return Layered(parts, tuple(links))

    # -- beside a node -------------------------------------------------------------------------------------------------

    def _sides(self, node: m.Node, depth: int) -> tuple[Side, ...]:
        found = []
        if node.undo is not None:
            text = f"undo by {essential(node.undo.verb)}"
            label = Element(
                id=f"{node.name}:undo", kind="undo", shape="chip", texts=(TextLine(text, "detail"),), tip=text
            )
            found.append(Side(Sequence((SingleBox(label),)), "undo", False))
        for name in ("success", "failure", "timeout"):
            nodes: m.Nodes | None = getattr(node.on, name)
            if nodes is not None:
                text = f"on {name}" if nodes else f"on {name}: ignore"
                content = self._branch(node, f"on.{name}", text, nodes, depth)
                found.append(Side(content, "handler", goes_on(content)))
        return tuple(found)

    # -- boxes ---------------------------------------------------------------------------------------------------------

    def _frame(self, node: m.Node, shape: Shape) -> Element:
        return msgspec.structs.replace(self._element(node, shape), kind="frame")

    def _element(self, node: m.Node, shape: Shape, note: str = "") -> Element:
        view = None if self._views is None else self._views.get(node.name, _PENDING)
        details = extras(node) + ([note] if note else [])
        spoken = [] if isinstance(node.verb, m.SwitchVerb) else [essential(node.verb)]
        notes = [] if view is None else view.notes
        lines = [TextLine(node.name, "name")]
        lines += [TextLine(node.title, "title")] if node.title else []
        lines += [TextLine(text, "detail") for text in spoken]
        lines += [TextLine(text, "note") for text in [*details, *notes]]
        if view is not None and view.message:
            lines.append(TextLine(view.message, "note"))
        return Element(
            id=node.name,
            shape=shape,
            verb=verb_word(node.verb),
            texts=tuple(lines),
            tip=_tip(node, details, view),
            state="" if view is None else view.state,
        )


def _tip(node: m.Node, details: list[str], view: NodeView | None) -> str:
    """All that is known of a node, uncut."""
    state = [] if view is None else [view.state, *view.notes, view.message]
    waits = ["it waits here"] if view is None and isinstance(node.verb, WAITS) else []
    return "\n".join(text for text in [node.name, node.title, essential(node.verb), *details, *waits, *state] if text)
