"""Pictures on pages: drawn at once up to a size, larger ones when they are asked for; or a sentence in their place."""

from __future__ import annotations

from typing import Final
from xml.sax.saxutils import escape

from starlette.responses import Response

from holdfast.client.engine import Holdfast
from holdfast.drawing.picture import Picture
from holdfast.server.pictures import MEDIA, SVG_POLICY, PictureQuery, file_of

MOST_BOXES: Final = 300
"""A larger picture is drawn when it is asked for: it would keep a browser busy."""


async def shown_picture(app: Holdfast, found: Picture, query: PictureQuery, *, whole: bool) -> Response:
    """The picture as SVG, or a sentence where it is too large to be drawn unasked."""
    if len(found.boxes) > MOST_BOXES and not whole:
        return sentence(f"{len(found.boxes):,} boxes: press “Draw all of it” below the picture.")
    wanted = PictureQuery(direction=query.direction, theme=query.theme, depth=query.depth)
    return _svg((await file_of(app, found, wanted)).data)


def sentence(text: str) -> Response:
    """A picture that is one sentence: where there is none, the page says why in its place."""
    width = 40 + 7 * len(text)
    style = "text{font:14px system-ui,sans-serif;fill:#566072}@media(prefers-color-scheme:dark){text{fill:#a2acbd}}"
    return _svg(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="48" viewBox="0 0 {width} 48">'
        f'<style>{style}</style><text x="20" y="29">{escape(text)}</text></svg>'.encode()
    )


def _svg(data: bytes) -> Response:
    return Response(data, headers={"Content-Security-Policy": SVG_POLICY}, media_type=MEDIA["svg"])
