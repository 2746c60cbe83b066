"""The console's style sheet, script and icon. Their addresses change with their content, so browsers may keep them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial
from importlib import resources
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from holdfast.server.public import PublicRoute

_MEDIA: Final = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}
_FILES: Final = {
    name: resources.files("holdfast.server.console").joinpath("assets", name).read_bytes() for name in _MEDIA
}

ASSETS: Final[Mapping[str, str]] = {
    name: f"{name}?{hashlib.sha256(data).hexdigest()[:12]}" for name, data in _FILES.items()
}
"""The last part of each file's address."""


def asset_routes() -> tuple[PublicRoute, ...]:
    """A route for each file."""
    return tuple(
        PublicRoute(method="GET", path=f"/assets/{name}", words="A file of the console.", handler=partial(_give, name))
        for name in _MEDIA
    )


async def _give(name: str, _: Request) -> Response:
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(_FILES[name], headers=headers, media_type=_MEDIA[name])
