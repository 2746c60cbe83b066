"""What open streams of events cost a server, and what readers cost a worker that has nothing to do."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

from visitors import ServerProcess, Visitor, serving, visit

STREAMS = 200
STARTS = 20
SETTLE_SECONDS = 1.0
"""How long is waited before something is measured."""


async def streams(server: ServerProcess, token: str, seconds: float) -> dict[str, float]:
    """Memory and CPU with and without open streams, and how soon each of them tells of something new."""
    visitor = Visitor(server.port, token)
    run = json.loads(await visitor.ask("GET", "/v1/runs?status=waiting&limit=1"))["items"][0]["id"]
    paths = ["/v1/events/runs", f"/v1/events/runs/{run}", "/v1/events/inbox", "/v1/events/runs?status=failed"]
    silent, before = await _cpu_of(server, seconds), server.memory_kib()
    readers = [Visitor(server.port, token) for _ in range(STREAMS)]
    listening = [await each.listen(paths[place % len(paths)]) for place, each in enumerate(readers)]
    await asyncio.sleep(SETTLE_SECONDS)
    memory = server.memory_kib() - before
    quiet = await _cpu_of(server, seconds)
    heard = [asyncio.create_task(_hear(each)) for each in listening[:: len(paths)]]
    await asyncio.sleep(SETTLE_SECONDS / 2)
    visitor = Visitor(server.port, token)  # the first connection was closed meanwhile: nobody used it
    cpu, late = server.cpu_ms(), []
    for number in range(STARTS):
        began = time.perf_counter()
        body = json.dumps({"workflow": "bench.http", "args": [number], "id": f"heard-{time.time_ns()}"}).encode()
        await visitor.ask("POST", "/v1/runs", body)
        await asyncio.sleep(0.5)
        late += [(at - began) * 1e3 for task in heard if (at := _AT.get(task, 0)) > began]
    busy = (server.cpu_ms() - cpu) / STARTS
    for task in heard:
        task.cancel()
    for each in (*readers, visitor):
        each.close()
    return {
        "streams": STREAMS,
        "memory_kib_each": memory / STREAMS,
        "cpu_ms_a_second_without": silent,
        "cpu_ms_a_second_quiet": quiet,
        "cpu_ms_for_each_change": busy,
        "heard": len(late) / (STARTS * len(heard)),
        "heard_ms_p95": sorted(late)[int(len(late) * 0.95)] if late else 0.0,
    }


_AT: dict[asyncio.Task[None], float] = {}


async def _hear(stream: asyncio.StreamReader) -> None:
    """Remember when something came last."""
    task = asyncio.current_task()
    assert task is not None
    while await stream.read(2**16):
        _AT[task] = time.perf_counter()


async def _cpu_of(server: ServerProcess, seconds: float) -> float:
    """Milliseconds of CPU in a second."""
    await asyncio.sleep(SETTLE_SECONDS)
    began = server.cpu_ms()
    await asyncio.sleep(seconds)
    return (server.cpu_ms() - began) / seconds


async def idle_worker(folder: Path, store: str, token: str, seconds: float) -> dict[str, float]:
    """The CPU of a worker without work, in milliseconds a second: alone, and while another process serves readers."""
    with serving(folder, store) as worker, serving(folder, store, "--no-worker") as server:
        await Visitor(server.port, token).ask("GET", "/v1/runs?limit=1")  # the note of a token's first use is a commit
        alone = await _cpu_of(worker, seconds)
        reading = asyncio.create_task(_read_forever(server, token))
        beside = await _cpu_of(worker, seconds)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        readers = [Visitor(server.port, token) for _ in range(STREAMS)]
        for each in readers:
            await each.listen("/v1/events/runs")
        with_streams = await _cpu_of(worker, seconds)
        for each in readers:
            each.close()
    return {"alone": alone, "beside_reads": beside, "beside_streams": with_streams}


async def _read_forever(server: ServerProcess, token: str) -> None:
    visitor = Visitor(server.port, token)
    while True:
        await visit(server, [visitor], ["/v1/runs?limit=50", "/v1/runs/bench.done"] * 20)
