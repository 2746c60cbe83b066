"""A picture as PNG, by way of its SVG. The renderer is an optional dependency, imported when it is used."""

from __future__ import annotations

import math
from typing import Final

from holdfast.drawing.picture import Picture
from holdfast.drawing.writers.style import Theme
from holdfast.drawing.writers.svg import svg_of
from holdfast.errors import ExtraMissing

MOST_PIXELS: Final = 60_000_000
LONGEST_SIDE: Final = 16_000
ZOOM: Final = 2.0
"""Pixels of the PNG for one of the picture, as sharp screens need them. Large pictures get fewer."""


def png_of(picture: Picture, *, theme: Theme = "light", zoom: float = ZOOM) -> bytes:
    """The PNG file. Raises ExtraMissing where the renderer is not installed."""
    try:
        from resvg_py import svg_to_bytes
    except ImportError:
        raise ExtraMissing("PNG needs a renderer: pip install 'holdfast[png]', or draw as SVG.") from None
    svg = svg_of(picture, theme="light" if theme == "auto" else theme)
    return bytes(svg_to_bytes(svg_string=svg, zoom=zoom_of(picture, zoom)))


def zoom_of(picture: Picture, wanted: float) -> float:
    """The zoom that keeps a file within its limits."""
    side = LONGEST_SIDE / max(picture.width, picture.height)
    area = math.sqrt(MOST_PIXELS / (picture.width * picture.height))
    return min(wanted, side, area)
