"""Health: whether the process answers, and whether it can do its work."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdfast.client.engine import Holdfast
from holdfast.errors import HoldfastError
from holdfast.server.public import PublicRoute
from holdfast.server.route import JSON

READY_SECONDS: Final = 5.0


class Health:
    """Answers for one engine. It shows nothing of any tenant."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app
        self.routes = (
            PublicRoute(method="GET", path="/healthz", words="Whether the process answers.", handler=self._alive),
            PublicRoute(
                method="GET",
                path="/readyz",
                words="Whether the store answers and the worker, if there is one, runs; else 503.",
                handler=self._ready,
            ),
        )

    async def _alive(self, request: Request) -> Response:
        return _answer(200, {"alive": True})

    async def _ready(self, request: Request) -> Response:
        problem = await self._problem()
        if problem is None:
            return _answer(200, {"ready": True})
        return _answer(503, {"ready": False, "problem": problem})

    async def _problem(self) -> str | None:
        app = self._app
        if not app.is_open:
            return "the engine is not open"
        if app.worker is not None and not app.worker.running:
            return "the worker does not run"
        if app.committer.trouble is not None:
            return "the store does not take changes"
        try:
            async with asyncio.timeout(READY_SECONDS):
                await app.store.get([])
                await app.store.workers()
        except (TimeoutError, HoldfastError):
            return "the store does not answer"
        return None


def _answer(status: int, data: dict[str, object]) -> Response:
    return Response(msgspec.json.encode(data), status, media_type=JSON)
