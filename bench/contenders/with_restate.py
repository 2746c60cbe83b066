"""Restate: its server, a service under Hypercorn with the settings of its documentation, and an aiohttp client.

The parameters name the server's addresses. The service is a separate process, as it would be in production.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import restate
import workloads

HYPERCORN = """
bind = "127.0.0.1:{port}"
h2_max_concurrent_streams = 2147483647
keep_alive_max_requests = 2147483647
keep_alive_timeout = 2147483647
workers = {workers}
"""

bench = restate.Service("Bench")
waiter = restate.Workflow("Waiter")


async def work() -> int:
    return 1


@bench.handler()
async def steps(ctx: restate.Context, request: dict[str, Any]) -> int:
    for _ in range(request["count"]):
        await ctx.run_typed("work", work)
    return int(request["count"])


@bench.handler()
async def slow(ctx: restate.Context, request: dict[str, Any]) -> int:
    for number in range(request["count"]):
        await ctx.run_typed("work", workloads.slow_step, run=request["run"], number=number)
    return int(request["count"])


@bench.handler()
async def fan(ctx: restate.Context, request: dict[str, Any]) -> int:
    return len(await restate.gather(*(ctx.run_typed("work", work) for _ in range(request["count"]))))


@waiter.main()
async def run(ctx: restate.WorkflowContext, request: dict[str, Any]) -> int:
    workloads.note_waiting()
    await ctx.promise("go", type_hint=str)
    return int(request["count"])


@waiter.handler()
async def wake(ctx: restate.WorkflowSharedContext, word: str) -> None:
    await ctx.promise("go", type_hint=str).resolve(word)


counter = restate.VirtualObject("Counter")


@counter.handler()
async def count(ctx: restate.ObjectContext, number: int) -> int:
    total = (await ctx.get("total", type_hint=int) or 0) + number
    ctx.set("total", total)
    return total


app = restate.app([bench, waiter, counter])


class WithRestate:
    """A client of the ingress."""

    def __init__(self, session: aiohttp.ClientSession, ingress: str, others: list[int]) -> None:
        self._session = session
        self._ingress = ingress
        self._others = others

    async def _post(self, path: str, body: object, headers: dict[str, str] | None = None) -> None:
        async with self._session.post(f"{self._ingress}/{path}", json=body, headers=headers) as answer:
            answer.raise_for_status()
            await answer.read()

    async def _get(self, path: str) -> None:
        async with self._session.get(f"{self._ingress}/{path}") as answer:
            answer.raise_for_status()
            await answer.read()

    async def call(self, workflow: str, id: str, count: int) -> None:
        await self._post(f"Bench/{workflow}", {"run": id, "count": count})

    async def start(self, workflow: str, id: str, count: int) -> None:
        body = {"run": id, "count": count}
        if workflow == "wait":
            await self._post(f"Waiter/{id}/run/send", body)
        else:
            await self._post(f"Bench/{workflow}/send", body, {"idempotency-key": id})

    async def result(self, id: str) -> None:
        if id.startswith("w5"):
            await self._get(f"restate/invocation/Bench/slow/{id}/attach")
        else:
            await self._get(f"restate/workflow/Waiter/{id}/attach")

    async def wake(self, id: str) -> None:
        await self._post(f"Waiter/{id}/wake", "now")

    async def event(self, key: str, number: int) -> None:
        await self._post(f"Counter/{key}/count", number)

    async def handled(self, key: str) -> None:
        """Each event was answered when it was handled."""

    def others(self) -> Iterable[int]:
        return self._others


@asynccontextmanager
async def opened(parameters: dict[str, Any]) -> AsyncIterator[WithRestate]:
    port = parameters["service_port"]
    settings = Path(parameters["folder"]) / "hypercorn.toml"
    settings.write_text(HYPERCORN.format(port=port, workers=parameters.get("service_workers", os.cpu_count())))
    service = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hypercorn", "--config", str(settings), "with_restate:app"),
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    try:
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            await _listening(port)
            await _register(session, parameters["admin"], port)
            yield WithRestate(
                session,
                parameters["ingress"],
                [*workloads.family(service.pid), *workloads.family(parameters["server_pid"])],
            )
    finally:
        service.kill()


async def _listening(port: int) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.02)
        else:
            writer.close()
            return


async def _register(session: aiohttp.ClientSession, admin: str, port: int) -> None:
    body = {"uri": f"http://127.0.0.1:{port}", "use_http_11": False}
    async with session.post(f"{admin}/deployments", json=body) as answer:
        if answer.status not in (200, 201):
            raise RuntimeError(await answer.text())


if __name__ == "__main__":
    workloads.main(opened)
