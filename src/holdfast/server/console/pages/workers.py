"""Workers and health: whether somebody works, what is stuck, and how long things are kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast.server.call import RouteCall
from holdfast.server.console.page import ConsolePage, Context
from holdfast.server.console.templating import Paths
from holdfast.store.protocol import ENDED

PARKED: Final = 20


async def load(call: RouteCall[Any, None]) -> Context:
    health, now = await call.client.health(tenant=call.tenant), datetime.now(UTC)
    parked = await call.client.page(tenant=call.tenant, parked=True, limit=PARKED) if health.parked else None
    overdue = health.timer_at is not None and health.timer_at <= now
    return {
        "health": health,
        "alive": [worker for worker in health.workers if worker.expires_at > now],
        "moving": sum(count for status, count in health.runs.items() if status not in ENDED),
        "parked": [] if parked is None else parked.items,
        "lag": None if health.ready_since is None else max(now - health.ready_since, timedelta()),
        "overdue": now - health.timer_at if overdue and health.timer_at is not None else None,
        "unserved": [each for each in health.queues if each.waiting and not each.workers],
        "events": Paths(call.request.scope.get("root_path", ""))("v1", "events", "runs"),
    }


PAGES = (
    ConsolePage(
        path="/workers",
        operation="workers.see",
        words="Whether somebody works, what waits for it, and what is stuck.",
        load=load,
        template="workers.html",
        data="/v1/health",
    ),
)
