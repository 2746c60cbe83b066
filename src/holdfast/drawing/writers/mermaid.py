"""A picture as Mermaid text, for pages that render it. Mermaid lays it out itself: places are lost, nesting stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.drawing.picture import Box, Edge, Picture
from holdfast.drawing.writers.style import STATE_COLOURS

_SHAPES: Final = {
    "card": ("[", "]"),
    "round": ("([", "])"),
    "diamond": ("{", "}"),
    "event": ("{{", "}}"),
    "chip": ("([", "])"),
    "dot": ("((", "))"),
    "ring": ("(((", ")))"),
    "bar": ("[", "]"),
    "frame": ("[", "]"),
    "stack": ("[", "]"),
}
_ARROWS: Final = {"handler": "-.->", "return": "-.->", "undo": "-.->", "after": "-.->"}


def mermaid_of(picture: Picture) -> str:
    """The Mermaid text. Conditions and names of branches are the texts of edges."""
    drawing = _Drawing(picture)
    lines = ["---", f"title: {_quoted(picture.heading.title)}", "---", *drawing.lines()]
    return "\n".join(lines) + "\n"


class _Drawing:
    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._names = {box.id: f"n{at}" for at, box in enumerate(picture.boxes)}
        self._labels = self._edge_labels()
        self._inside: dict[str | None, list[Box]] = {}
        for box in picture.boxes:
            self._inside.setdefault(box.parent, []).append(box)

    def _edge_labels(self) -> dict[str, tuple[Box, Edge | None]]:
        """The labels that become texts of edges: those that something follows."""
        labels = {box.id: box for box in self._picture.boxes if box.kind == "label"}
        follows = {edge.source: edge for edge in self._picture.edges if edge.source in labels}
        return {id: (box, follows[id]) for id, box in labels.items() if id in follows}

    def lines(self) -> Iterator[str]:
        yield f"flowchart {'TD' if self._picture.direction == 'down' else 'LR'}"
        yield from self._boxes(None, "  ")
        for edge in self._picture.edges:
            yield from self._edge(edge)
        yield from self._classes()

    def _boxes(self, parent: str | None, indent: str) -> Iterator[str]:
        for box in self._inside.get(parent, ()):
            if box.id in self._labels:
                continue
            name = self._names[box.id]
            if box.kind == "frame":
                yield f"{indent}subgraph {name}[{_quoted(_words(box))}]"
                yield from self._boxes(box.id, indent + "  ")
                yield f"{indent}end"
            else:
                first, last = _SHAPES[box.shape]
                yield f"{indent}{name}{first}{_quoted(_words(box))}{last}"

    def _edge(self, edge: Edge) -> Iterator[str]:
        if edge.source in self._labels:
            return
        arrow, label, target = _ARROWS.get(edge.kind, "-->"), "", edge.target
        if target in self._labels:
            box, following = self._labels[target]
            label = f"|{_quoted(_words(box))}|"
            target = target if following is None else following.target
        yield f"  {self._names[edge.source]} {arrow}{label} {self._names[target]}"

    def _classes(self) -> Iterator[str]:
        for state in self._picture.legend:
            fill, line = STATE_COLOURS[state][:2]
            yield f"  classDef {state} fill:{fill},stroke:{line}"
            names = [self._names[box.id] for box in self._picture.boxes if box.state == state]
            yield f"  class {','.join(names)} {state}"
        bars = [self._names[box.id] for box in self._picture.boxes if box.kind == "bar"]
        if bars:
            yield "  classDef bar fill:#334155,stroke:#334155"
            yield f"  class {','.join(bars)} bar"


def _words(box: Box) -> str:
    texts = [line.text for line in box.texts if line.style != "note"]
    return "<br>".join(_escaped(text) for text in texts) or " "


def _escaped(text: str) -> str:
    """The text for Mermaid, which reads ``#…;`` as a character by number or name."""
    return "".join(each if each.isalnum() or each in " .,_-:/@…×→=+()'" else f"#{ord(each)};" for each in text)


def _quoted(text: str) -> str:
    return f'"{text}"'
