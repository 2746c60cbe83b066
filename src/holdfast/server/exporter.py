"""The exporter: metrics and health of a worker that has no server, and nothing else."""

from __future__ import annotations

from starlette.routing import Route as StarletteRoute
from starlette.routing import Router as StarletteRouter
from starlette.types import ASGIApp

from holdfast.client.engine import Holdfast
from holdfast.server.health import Health
from holdfast.server.metrics import Metrics
from holdfast.server.protection.headers import SecurityHeaders
from holdfast.server.settings import ServerSettings


class Exporter:
    """``/metrics``, ``/healthz`` and ``/readyz`` of an engine. With a ``token`` only those who send it see metrics."""

    def __init__(self, app: Holdfast, token: str | None) -> None:
        self.is_open_to_all = token is None
        self.settings = ServerSettings()
        self.metrics = Metrics(app, None, token, is_open_to_all=self.is_open_to_all)
        routes = [
            StarletteRoute(each.path, each.handler, methods=[each.method])
            for each in (*Health(app).routes, self.metrics.route)
        ]
        self.asgi: ASGIApp = SecurityHeaders(StarletteRouter(routes))

    async def stop_streams(self) -> None:
        """It has none."""
