"""Pictures as files: SVG, PNG, JSON or Mermaid."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from holdfast.drawing.definitions import DEEPEST
from holdfast.drawing.picture import Direction, Picture
from holdfast.drawing.writers.style import Theme
from holdfast.server.call import FileAnswer

Form = Literal["svg", "png", "json", "mmd"]

MEDIA: Final[dict[Form, str]] = {
    "svg": "image/svg+xml",
    "png": "image/png",
    "json": "application/json",
    "mmd": "text/vnd.mermaid",
}

SVG_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
"""A picture is styled by the style sheet inside it. It has no script, and loads nothing."""

Depth = Annotated[int, msgspec.Meta(ge=0, le=100)]


class PictureQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How it is drawn."""

    form: Form = "svg"
    direction: Direction = "down"
    theme: Theme = "auto"
    depth: Depth = DEEPEST


def file_of(picture: Picture, query: PictureQuery) -> FileAnswer:
    """The picture in the wanted form. Raises ExtraMissing where PNG cannot be made here."""
    headers = {"Content-Security-Policy": SVG_POLICY} if query.form == "svg" else {}
    return FileAnswer(_written(picture, query), MEDIA[query.form], headers=headers)


def _written(picture: Picture, query: PictureQuery) -> bytes:
    """A writer is imported when it is used."""
    match query.form:
        case "png":
            from holdfast.drawing.writers.png import png_of

            return png_of(picture, theme=query.theme)
        case "json":
            from holdfast.drawing.writers.json_text import json_of

            return json_of(picture).encode()
        case "mmd":
            from holdfast.drawing.writers.mermaid import mermaid_of

            return mermaid_of(picture).encode()
        case "svg":
            from holdfast.drawing.writers.svg import svg_of

            return svg_of(picture, theme=query.theme).encode()
