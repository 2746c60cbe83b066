"""Errors as ``application/problem+json`` (RFC 9457): with the error's stable code, and what to do about it."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from starlette.responses import Response

from holdfast.errors import HoldfastError, InvalidPolicy, MethodNotAllowed, StoreUnavailable, TooManyRequests
from holdfast.programs.definition.compiler.faults import DefinitionFault

PROBLEM: Final = "application/problem+json"
RETRY_SECONDS: Final = 2


class RequestFault(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One thing that is wrong: where, and what. A definition's fault has the line, column and node."""

    detail: str
    pointer: str = ""
    node: str = ""
    line: int = 0
    column: int = 0


class HttpProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request was not done. ``code`` is stable; ``detail`` is for people; ``remedy`` says what to do."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    remedy: str
    instance: str
    problems: list[RequestFault] = []


def problem_of(error: HoldfastError, instance: str) -> HttpProblem:
    """What an error tells its caller."""
    title, remedy = _words(type(error))
    return HttpProblem(
        type=f"urn:holdfast:error:{error.code}",
        title=title,
        status=error.http_status,
        detail=str(error),
        code=error.code,
        remedy=remedy,
        instance=instance,
        problems=list(_faults(error)),
    )


def answer(error: HoldfastError, instance: str) -> Response:
    """The response to a request that failed."""
    problem = problem_of(error, instance)
    return Response(
        msgspec.json.encode(problem), status_code=problem.status, headers=_headers(error), media_type=PROBLEM
    )


def _headers(error: HoldfastError) -> dict[str, str]:
    match error:
        case MethodNotAllowed(allowed=allowed):
            return {"Allow": ", ".join(allowed)}
        case TooManyRequests(retry_after=seconds):
            return {"Retry-After": str(max(1, math.ceil(seconds)))}
        case StoreUnavailable():
            return {"Retry-After": str(RETRY_SECONDS)}
        case _ if error.http_status == 401:
            return {"WWW-Authenticate": 'Bearer realm="holdfast"'}
        case _:
            return {}


def _words(kind: type[HoldfastError]) -> tuple[str, str]:
    """What happened, and what to do: the docstring of each error says both, with a colon between."""
    text = re.sub(r"`+", "`", (inspect.getdoc(kind) or "").partition("\n\n")[0].replace("\n", " "))
    title, mark, remedy = text.partition(": ")
    return title.rstrip("."), remedy if mark else ""


def _faults(error: HoldfastError) -> Iterator[RequestFault]:
    if isinstance(error, InvalidPolicy):
        yield from (RequestFault(detail=what, line=line, column=column) for line, column, what in error.problems)
        return
    problems: Any = getattr(error, "problems", ())
    for place, what in problems:
        yield RequestFault(detail=what, pointer=place)
    for fault in getattr(error, "faults", ()):
        if isinstance(fault, DefinitionFault):
            yield RequestFault(detail=fault.message, node=fault.node, line=fault.line, column=fault.column)
        else:
            yield RequestFault(detail=str(fault))
