"""Which route a request means: by its path, cut at the slashes before anything is unquoted.

An id may have a slash in it, so the path is read as it was sent: ``runs/addresses`` says how an id is written there. A
path has one spelling: with a slash too many, or a fixed part that is quoted, it is none. So a proxy that keeps a path
from the public keeps all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import quote

from starlette.types import Scope

from holdfast.errors import MethodNotAllowed, RouteNotFound
from holdfast.runs.addresses import part_text


class Routed(Protocol):
    """What the router needs of a route."""

    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...


R = TypeVar("R", bound=Routed)


class Match(NamedTuple, Generic[R]):
    """A route, and the variable parts of the path by name."""

    route: R
    parameters: Mapping[str, str]


class _Place(Generic[R]):
    """A place in the tree of paths."""

    def __init__(self) -> None:
        self.fixed: dict[str, _Place[R]] = {}
        self.variable: tuple[str, _Place[R]] | None = None
        self.methods: dict[str, R] = {}


class Router(Generic[R]):
    """Finds routes. A fixed part of a path comes before a variable one."""

    def __init__(self, routes: Iterable[R]) -> None:
        self._root: _Place[R] = _Place()
        for route in routes:
            self._add(route)

    def _add(self, route: R) -> None:
        place = self._root
        for part in _parts(route.path):
            if part.startswith("{"):
                name = part.strip("{}")
                if place.variable is None:
                    place.variable = name, _Place()
                if place.variable[0] != name:
                    raise ValueError(f"{route.path}: {place.variable[0]!r} and {name!r} are at the same place")
                place = place.variable[1]
            else:
                place = place.fixed.setdefault(part, _Place())
        if route.method in place.methods:
            raise ValueError(f"{route.method} {route.path} is there twice")
        place.methods[route.method] = route

    def route_of(self, method: str, path: str) -> R:
        """The route of a path as the table has it."""
        place = self._root
        for part in _parts(path):
            place = place.variable[1] if part.startswith("{") and place.variable is not None else place.fixed[part]
        return place.methods["GET" if method == "HEAD" else method]

    def find(self, method: str, path: str) -> Match[R]:
        """The route of a path as it was sent. Raises RouteNotFound or MethodNotAllowed."""
        place, parameters = self._root, dict[str, str]()
        for part in _parts(path):
            if part in place.fixed:
                place = place.fixed[part]
            elif place.variable is not None and part:
                name, place = place.variable
                parameters[name] = part_text(part)
            else:
                raise RouteNotFound(f"there is nothing at {path}: /openapi.json lists what there is.")
        if not place.methods:
            raise RouteNotFound(f"there is nothing at {path}: /openapi.json lists what there is.")
        found = place.methods.get("GET" if method == "HEAD" else method)
        if found is None:
            allowed = sorted(place.methods)
            raise MethodNotAllowed(f"{method} is not for {path}: use {' or '.join(allowed)}.", allowed=allowed)
        return Match(found, parameters)


def _parts(path: str) -> list[str]:
    return path.removeprefix("/").split("/")


def path_of(scope: Scope) -> str:
    """The path of a request as it was sent, below the prefix where the server is mounted."""
    raw: bytes | None = scope.get("raw_path")
    path = quote(scope["path"]) if not raw else raw.partition(b"?")[0].decode("latin-1")
    root = quote(scope.get("root_path", ""))
    if root and (path == root or path.startswith(f"{root}/")):
        return path[len(root) :] or "/"
    return path
