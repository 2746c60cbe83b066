"""Workers and health: whether somebody works, what is stuck, and how long things are kept."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from holdfast.server.call import RouteCall
from holdfast.server.console.page import ConsolePage, Context
from holdfast.server.console.templating import MOST_COUNTED
from holdfast.store.protocol import ENDED

PARKED: Final = 20


async def load(call: RouteCall[Any, None]) -> Context:
    client, tenant, now = call.client, call.tenant, datetime.now(UTC)
    workers = list(await client.workers())
    counts: dict[str, int] = {}
    for each in await client.counts(tenant=tenant, most=MOST_COUNTED):
        counts[each.status] = counts.get(each.status, 0) + each.count
    parked = await client.page(tenant=tenant, parked=True, limit=PARKED)
    queued = await client.page(tenant=tenant, status="queued", limit=1000) if counts.get("queued") else None
    waited = [now - run.updated_at for run in queued.items] if queued is not None else []
    return {
        "workers": workers,
        "alive": [worker for worker in workers if worker.expires_at > now],
        "counts": counts,
        "moving": sum(count for status, count in counts.items() if status not in ENDED),
        "parked": parked.items,
        "parked_more": parked.next is not None,
        "oldest": max(waited, default=None),
        "retention_days": client.options.retention_days,
        "events": None,
    }


PAGES = (
    ConsolePage(
        path="/workers",
        operation="workers.see",
        words="Whether somebody works, and what is stuck.",
        load=load,
        template="workers.html",
        data="/v1/workers",
    ),
)
