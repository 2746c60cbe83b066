"""What a start over HTTP costs beside one in the process: ``python bench/serving.py [COUNT]``.

It is the CPU time of the server alone. All are on SQLite without a worker, so that nothing but the start is counted.
``bound`` is a start that acts for a user, as each request does: the user and the token are read, and the commit expects
them.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

from holdfast import Holdfast, workflow

APP = """
from holdfast import workflow


@workflow(name="bench.http")
async def nothing(number: int) -> int:
    return number
"""


@workflow(name="bench.http")
async def nothing(number: int) -> int:
    return number


def cpu(process: int) -> float:
    """The CPU seconds that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def in_process(folder: Path, count: int) -> tuple[float, float, str]:
    """Milliseconds for each start in this process, unbound and bound; and a token."""
    async with Holdfast(f"sqlite:///{folder}/http.db", worker=False) as app:
        await app.tenants.create("acme")
        await app.users.create("ann", level=4, tenant="acme")
        token = (await app.tokens.mint("ann", tenant="acme")).text
        bound = app.acting_as(token)
        costs = []
        for client in (app, bound):
            began = time.process_time()
            for number in range(count):
                await client.start("bench.http", number)
            costs.append((time.process_time() - began) / count * 1000)
        return costs[0], costs[1], token


def served(folder: Path) -> subprocess.Popen[str]:
    """A server without a worker on the same store."""
    (folder / "app.py").write_text(APP, encoding="utf-8")
    options = ["--no-worker", "--port", "0", "--json", "--store", f"sqlite:///{folder}/http.db"]
    command = [sys.executable, "-m", "holdfast", "serve", "app.py", *options]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


async def over_http(server: subprocess.Popen[str], count: int, token: str) -> float:
    """Milliseconds of the server's CPU for each start over one kept connection."""
    assert server.stdout is not None
    address = json.loads(server.stdout.readline())["address"].rstrip("/")
    headers = {"Authorization": f"Bearer {token}"}
    try:
        async with httpx.AsyncClient(base_url=address, headers=headers, trust_env=False) as client:
            for number in range(count // 10):
                await client.post("/v1/runs", json={"workflow": "bench.http", "args": [number]})
            began = cpu(server.pid)
            for number in range(count):
                response = await client.post("/v1/runs", json={"workflow": "bench.http", "args": [number]})
                assert response.status_code == 201, response.text
            return (cpu(server.pid) - began) / count * 1000
    finally:
        server.terminate()
        server.wait()


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 800
    with tempfile.TemporaryDirectory() as folder:
        unbound, bound, token = asyncio.run(in_process(Path(folder), count))
        http = asyncio.run(over_http(served(Path(folder)), count, token))
    print(f"{count} starts, ms of CPU for each: unbound {unbound:.2f}, bound {bound:.2f}, over HTTP {http:.2f}")


if __name__ == "__main__":
    main()
