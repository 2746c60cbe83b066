"""Pictures and texts of definitions: small ones are made here, large ones by the processes that read, on a budget."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import msgspec

from holdfast.client.definitions.readers import caller_key, reads_apart
from holdfast.drawing.definitions import DEEPEST, draw_definition
from holdfast.drawing.node_views import NodeView
from holdfast.drawing.picture import Direction, Heading, Picture
from holdfast.drawing.writers.style import Theme
from holdfast.programs.definition.compiler.compiler import load
from holdfast.programs.definition.compiler.document import canonical_bytes, write_document
from holdfast.programs.definition.model import Definition
from holdfast.programs.definition.walks import all_nodes, in_authors_order, order_of

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

PictureForm = Literal["svg", "png", "json", "mmd"]
TextForm = Literal["yaml", "json", "python", "serverless"]

T = TypeVar("T")

SMALL: Final = 40
"""A definition with so many nodes, or a picture with so many boxes, is drawn or written in some milliseconds."""


class Drawing(msgspec.Struct, frozen=True, array_like=True):
    """What is drawn: a definition by its canonical bytes and its author's order, with the views of a run."""

    canonical: bytes
    order: dict[str, tuple[str, ...]]
    views: dict[str, NodeView] | None = None
    direction: Direction = "down"
    heading: Heading | None = None
    deepest: int = DEEPEST


class Writing(msgspec.Struct, frozen=True, array_like=True):
    """A picture that is written."""

    picture: Picture
    form: PictureForm
    theme: Theme


class TextWriting(msgspec.Struct, frozen=True, array_like=True):
    """A definition that is written, by its canonical bytes and its author's order."""

    canonical: bytes
    order: dict[str, tuple[str, ...]]
    form: TextForm


async def drawn(
    app: Holdfast,
    definition: Definition,
    views: dict[str, NodeView] | None = None,
    *,
    direction: Direction = "down",
    heading: Heading | None = None,
    deepest: int = DEEPEST,
) -> Picture:
    """``draw_definition``, in the order that the definition has. Raises TooCostly and TooManyRequests."""
    if not _is_apart(app, definition):
        return draw_definition(definition, views, direction=direction, heading=heading, deepest=deepest)
    canonical = await asyncio.to_thread(canonical_bytes, definition)
    question = Drawing(canonical, order_of(definition), views, direction, heading, deepest)
    return await _ask(app, "draw", question, Picture)


async def picture_file(app: Holdfast, picture: Picture, form: PictureForm, theme: Theme) -> bytes:
    """The picture in a form. Raises ExtraMissing where PNG cannot be made here, TooCostly and TooManyRequests."""
    if len(picture.boxes) <= SMALL or not reads_apart(app):
        return _written(Writing(picture, form, theme))
    return await _ask(app, "write", Writing(picture, form, theme), bytes)


async def definition_text(app: Holdfast, definition: Definition, form: TextForm) -> str:
    """The definition in a form. Raises InvalidDefinition if it cannot be said in it, TooCostly and TooManyRequests."""
    if not _is_apart(app, definition):
        return _text(definition, form)
    canonical = await asyncio.to_thread(canonical_bytes, definition)
    return await _ask(app, "text", TextWriting(canonical, order_of(definition), form), str)


def _is_apart(app: Holdfast, definition: Definition) -> bool:
    return reads_apart(app) and sum(1 for _ in all_nodes(definition.steps)) > SMALL


async def _ask(app: Holdfast, name: str, question: Any, kind: type[T]) -> T:
    data, _ = await app.readers.work(caller_key(app), name, msgspec.msgpack.encode(question))
    return msgspec.msgpack.decode(data, type=kind)


# -- in the process ----------------------------------------------------------------------------------------------------


def draw(data: bytes) -> Picture:
    """A ``Drawing`` as a picture."""
    it = msgspec.msgpack.decode(data, type=Drawing)
    definition = in_authors_order(load(it.canonical), it.order)
    return draw_definition(definition, it.views, direction=it.direction, heading=it.heading, deepest=it.deepest)


def write(data: bytes) -> bytes:
    """A ``Writing`` as a file."""
    return _written(msgspec.msgpack.decode(data, type=Writing))


def write_text(data: bytes) -> str:
    """A ``TextWriting`` as a text."""
    it = msgspec.msgpack.decode(data, type=TextWriting)
    return _text(in_authors_order(load(it.canonical), it.order), it.form)


def _written(it: Writing) -> bytes:
    """A writer is imported when it is used."""
    match it.form:
        case "png":
            from holdfast.drawing.writers.png import png_of

            return png_of(it.picture, theme=it.theme)
        case "json":
            from holdfast.drawing.writers.json_text import json_of

            return json_of(it.picture).encode()
        case "mmd":
            from holdfast.drawing.writers.mermaid import mermaid_of

            return mermaid_of(it.picture).encode()
        case "svg":
            from holdfast.drawing.writers.svg import svg_of

            return svg_of(it.picture, theme=it.theme).encode()


def _text(definition: Definition, form: TextForm) -> str:
    match form:
        case "python":
            from holdfast.programs.definition.decompiler.python_text import python_of

            return python_of(definition)
        case "yaml":
            from holdfast.programs.definition.decompiler.yaml_text import yaml_of

            return yaml_of(definition)
        case "json":
            return msgspec.json.encode(write_document(definition)).decode()
        case "serverless":
            import yaml

            from holdfast.programs.definition.serverless.exporter.workflow import export_definition

            exported = export_definition(definition)
            return str(yaml.safe_dump(exported, sort_keys=False, allow_unicode=True, width=100))
