"""Where a login leads back to: a path of this server, whatever was asked for."""

from __future__ import annotations

from urllib.parse import unquote

from starlette.requests import Request

from holdfast.runs.addresses import has_dots
from holdfast.server.console.templating import Paths


def local_path(request: Request, to: str) -> str:
    """A path of this server below its prefix; that of the runs where ``to`` is none."""
    paths = Paths(request.scope.get("root_path", ""))
    path = unquote(to.partition("?")[0])
    is_local = to.startswith("/") and not to.startswith("//") and "\\" not in to and to.isprintable()
    return paths.root + to if is_local and not has_dots(path) else paths("runs")
