"""What lists and pages cost with a great many runs in the store, as JSON and as pages of the console."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, urlencode

from visitors import Cost, ServerProcess, Visitor, visit

LIMIT_MS = 50.0
PAGES = "text/html"
FILTERS: dict[str, dict[str, str]] = {
    "all": {},
    "status failed": {"status": "failed"},
    "status completed": {"status": "completed"},
    "status waiting": {"status": "waiting"},
    "state running": {"state": "running"},
    "state waiting_approval": {"state": "waiting_approval"},
    "parked": {"parked": "true"},
    "workflow of half of them": {"workflow": "claims.settle"},
    "workflow of few": {"workflow": "claims.rare"},
    "workflow of none": {"workflow": "claims.none"},
    "workspace": {"workspace": "eu"},
    "workspace of few": {"workspace": "legal"},
    "actor": {"actor": "user7"},
    "actor of few": {"actor": "rose"},
    "reference": {"reference": "C-1003"},
    "parent of 10,000": {"parent": "bench.done"},
    "workflow and status, of none": {"workflow": "claims.rare", "status": "failed"},
    "workflow, workspace and actor": {"workflow": "claims.settle", "workspace": "us", "actor": "user7"},
}


def times() -> dict[str, dict[str, str]]:
    """Filters by time: a day in the past, the last quarter of an hour, what ended long ago."""

    def day(days: float) -> str:
        return (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")

    return {
        "created in one day of the past": {"created_after": day(15), "created_before": day(14)},
        "ended lately": {"ended_after": day(0.01)},
        "ended long ago": {"ended_before": day(28.5)},
        "ended in one day of the past": {"ended_after": day(15), "ended_before": day(14)},
    }


async def _deep(visitor: Visitor, filters: dict[str, str], pages: int) -> list[str]:
    """The addresses of so many pages, one behind the other."""
    found, query = [], dict(filters)
    for _ in range(pages):
        path = f"/v1/runs?{urlencode(query)}"
        found.append(path)
        after = json.loads(await visitor.ask("GET", path))["next"]
        if after is None:
            break
        query["after"] = after
    return found


async def read_all(
    server: ServerProcess, tokens: dict[str, str], repeat: int, progress: Callable[[str, Cost], None]
) -> dict[str, Cost]:
    """Every kind of read, so often each."""
    data = Visitor(server.port, tokens["ann"])
    page = Visitor(server.port, tokens["ann"], PAGES)
    other = Visitor(server.port, tokens["zoe"], PAGES)
    found: dict[str, Cost] = {}

    async def measure(name: str, visitor: Visitor, paths: list[str]) -> None:
        found[name] = await visit(server, [visitor], (paths * (repeat // len(paths) + 1))[:repeat])
        progress(name, found[name])

    for name, query in {**FILTERS, **times()}.items():
        await measure(f"list, {name}", data, [f"/v1/runs?{urlencode({**query, 'limit': '50'})}"])
    await measure("list, pages 1 to 20", data, await _deep(data, {"limit": "50"}, 20))
    for name in ("all", "status failed", "parked", "workflow of few"):
        await measure(f"console list, {name}", page, [f"/runs?{urlencode(FILTERS[name])}"])
    runs = await _samples(data)
    await measure("run", data, [f"/v1/runs/{quote(run, safe='')}" for run in runs])
    await measure("console run", page, [f"/runs/{quote(run, safe='')}" for run in runs])
    await measure("console run with 10,000 children", page, ["/runs/bench.done"])
    tasks = [each["id"] for each in json.loads(await data.ask("GET", "/v1/tasks?limit=50"))["items"]]
    await measure("tasks, mine", data, ["/v1/inbox?limit=50"])
    await measure("console tasks", page, ["/tasks"])
    await measure("console tasks, few are mine", other, ["/tasks"])
    await measure("console task", page, [f"/tasks/{task}" for task in tasks])
    await measure("counts up to 1,000", data, ["/v1/counts/runs?most=1000"])
    for name, path in (("counts, exact", "/v1/counts/runs"), ("list, attribute", "/v1/runs?attribute=ticket%3DT-1004")):
        found[name] = await visit(server, [data], [path] * 3)
        progress(name, found[name])
    for visitor in (data, page, other):
        visitor.close()
    return found


async def _samples(visitor: Visitor) -> list[str]:
    """Runs of every kind."""
    found = []
    for query in ({}, {"status": "failed"}, {"status": "waiting"}, {"parked": "true"}, {"status": "cancelled"}):
        listed = json.loads(await visitor.ask("GET", f"/v1/runs?{urlencode({**query, 'limit': '4'})}"))
        found += [run["id"] for run in listed["items"]]
    return found


async def load(server: ServerProcess, token: str, visitors: int, count: int) -> dict[str, Cost]:
    """Many visitors at once."""
    crowd = [Visitor(server.port, token) for _ in range(visitors)]
    runs = await _samples(crowd[0])
    paths = {
        "list of 50": ["/v1/runs?limit=50"],
        "run": [f"/v1/runs/{quote(run, safe='')}" for run in runs],
    }
    found = {name: await visit(server, crowd, (each * count)[:count]) for name, each in paths.items()}
    for visitor in crowd:
        visitor.close()
    return found
