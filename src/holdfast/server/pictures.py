"""Pictures as files: SVG, PNG, JSON or Mermaid."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from holdfast.client.definitions.drawn import PictureForm, picture_file
from holdfast.client.engine import Holdfast
from holdfast.drawing.definitions import DEEPEST
from holdfast.drawing.picture import Direction, Picture
from holdfast.drawing.writers.style import Theme
from holdfast.server.call import FileAnswer

MEDIA: Final[dict[PictureForm, str]] = {
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

    form: PictureForm = "svg"
    direction: Direction = "down"
    theme: Theme = "auto"
    depth: Depth = DEEPEST


async def file_of(app: Holdfast, picture: Picture, query: PictureQuery) -> FileAnswer:
    """The picture in the wanted form. Raises as ``picture_file``."""
    headers = {"Content-Security-Policy": SVG_POLICY} if query.form == "svg" else {}
    data = await picture_file(app, picture, query.form, query.theme)
    return FileAnswer(data, MEDIA[query.form], headers=headers)
