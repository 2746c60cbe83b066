"""A page and a form: the rows of the console's table. Routes are made of them, so they are judged like the API's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from starlette.datastructures import FormData
from starlette.responses import Response

from holdfast.server.call import RouteCall
from holdfast.server.route import Nothing

Context = Mapping[str, Any]
Load = Callable[[RouteCall[Any, None]], Awaitable[Context | Response]]


class ConsolePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page at a path. ``load`` gives what its template shows.

    ``data`` is the path of the API that answers the same as JSON; its variable parts are the page's.
    """

    path: str
    operation: str
    words: str
    load: Load
    template: str
    data: str
    query: type[msgspec.Struct] = Nothing


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What a form does when it has succeeded: it leads to ``path`` and says ``words`` there."""

    path: tuple[str, ...]
    words: str = ""
    query: Mapping[str, str] = {}


class ShownInstead(msgspec.Struct, frozen=True, kw_only=True):
    """The other thing that a form can do: show something at its own address, such as a plan to be confirmed."""

    template: str
    context: Context
    status: int = 200


class ConsoleForm(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a person asks for on a page. Where it is refused, that page is shown again with what was typed."""

    path: str
    operation: str
    words: str
    act: Callable[[RouteCall[Any, None], FormData], Awaitable[Done | ShownInstead]]
    page: ConsolePage
    only_looks: bool = False
