"""The cost of the gate: the same function as a step, and as an action that its policy allows.

There are three functions. One does nothing, so that the gate is compared with the engine alone. One makes an HTTP
request to a server in another process, with the standard library. One exchanges the same bytes over an open connection
by hand, which is the cheapest possible request. Rounds alternate, so that a noisy machine affects both in the same way.
The figure is the CPU time of the whole process per call, in the best round of each, including the sealing of the audit.
Evidence is made once per run, at its end, so it is measured separately: with short runs of steps, of actions, and of
actions with evidence.
"""

from __future__ import annotations

import asyncio
import http.server
import json
import multiprocessing
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from holdfast import Holdfast, WorkerOptions, action, step, workflow
from holdfast.gate.policy.policy import parse
from holdfast.store.protocol import Query

RUNS, CALLS, ROUNDS = 20, 100, 5
SHORT_RUNS, SHORT_CALLS = 200, 3

POLICY = """
version: 1
rules:
  - {name: reading is free, when: "!action.writes", effect: allow}
  - {name: nobody deletes, when: 'action.operation == "delete"', effect: deny}
  - {name: tenant eve may do nothing, when: 'run.tenant == "eve"', effect: deny}
  - {name: expensive calls need a person, when: action.cost_estimate > 10.0, effect: needs_approval, tier: high}
  - {name: the bench, when: 'action.connector == "bench" && action.risk in ["low", "med"]', effect: allow}
"""


async def _nothing(number: int, other: int, address: str) -> int:  # noqa: ARG001  # the same signature
    return number + other


def _request(number: int, other: int, address: str) -> int:
    body = json.dumps({"number": number, "other": other}).encode()
    with urllib.request.urlopen(urllib.request.Request(address, body)) as answer:
        return int(json.load(answer)["sum"])


_open: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []


async def _exchange(number: int, other: int, address: str) -> int:
    at = urllib.parse.urlsplit(address)
    reader, writer = _open.pop() if _open else await asyncio.open_connection(at.hostname, at.port)
    body = b'{"number": %d, "other": %d}' % (number, other)
    writer.write(b"POST / HTTP/1.1\r\nHost: bench\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.partition(b"Content-Length: ")[2].split(b"\r\n", 1)[0])
    answer = json.loads(await reader.readexactly(size))
    _open.append((reader, writer))
    return int(answer["sum"])


def _both(name: str, function: Any) -> dict[str, Any]:
    declared = action(connector="bench", operation="add", target="{number}", name=f"{name}_action")
    return {"step": step(name=f"{name}_step")(function), "action": declared(function)}


WAYS = {
    "nothing": _both("nothing", _nothing),
    "exchange": _both("exchange", _exchange),
    "request": _both("request", _request),
}


@workflow
async def calling(what: str, way: str, calls: int, address: str) -> int:
    """Call the function ``calls`` times, one after the other."""
    total = 0
    for _ in range(calls):
        total = await WAYS[what][way](total, 1, address)
    return total


class _Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        terms = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps({"sum": terms["number"] + terms["other"]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class _Listener(http.server.ThreadingHTTPServer):
    request_queue_size = 256


def serve(parent: Connection) -> None:
    """Send the server's address to the parent process, then answer requests."""
    server = _Listener(("127.0.0.1", 0), _Server)
    parent.send(f"http://127.0.0.1:{server.server_port}/")
    server.serve_forever()


async def cost(
    app: Holdfast, what: str, way: str, address: str, runs: int = RUNS, calls: int = CALLS
) -> tuple[float, int]:
    """The CPU seconds and commits of ``runs`` runs, from their start until audit and evidence are done."""
    commits, begun = app.committer.commits, time.process_time()
    handles = [await app.start(calling, what, way, calls, address) for _ in range(runs)]
    for handle in handles:
        assert await handle.result() == calls
    while await app.store.unsealed(1):  # noqa: ASYNC110  # another role seals
        await asyncio.sleep(0.02)
    while app.options.evidence and await app.store.evidence_due(1):  # noqa: ASYNC110  # another role makes evidence
        await asyncio.sleep(0.02)
    return time.process_time() - begun, app.committer.commits - commits


async def short_runs(folder: Path) -> dict[str, float]:
    """Microseconds of CPU per short run: of steps, of actions, of actions with evidence; and the evidence's size."""
    figures: dict[str, float] = {}
    for name, way, evidence in (("steps", "step", False), ("actions", "action", False), ("evidence", "action", True)):
        options = WorkerOptions(retention_days=None, evidence=evidence)
        url = f"sqlite:///{folder / name}.db"
        async with Holdfast(url, policy=parse(POLICY, "the bench"), options=options) as app:
            rounds = [await cost(app, "nothing", way, "", SHORT_RUNS, SHORT_CALLS) for _ in range(ROUNDS)]
            figures[f"{name}_microseconds"] = round(min(seconds for seconds, _ in rounds) / SHORT_RUNS * 1e6)
            if evidence:
                files = [await app.store.files(run.key) for run in await app.store.find(Query(), SHORT_RUNS)]
                figures["evidence_bytes"] = sum(bundle.size for (bundle,) in files) // len(files)
    return figures


async def compare(url: str, address: str) -> dict[str, dict[str, float]]:
    """For each function: microseconds of CPU per call, as a step and as an action, their ratio, and the commits."""
    functions: dict[str, dict[str, float]] = {}
    options = WorkerOptions(retention_days=None, evidence=False)
    async with Holdfast(url, policy=parse(POLICY, "the bench"), options=options) as app:
        for what, ways in WAYS.items():
            best: dict[str, float] = {}
            figures = functions[what] = {}
            for _ in range(ROUNDS):
                for way in ways:
                    seconds, figures[f"{way}_commits"] = await cost(app, what, way, address)
                    best[way] = min(best.get(way, seconds), seconds)
            for way, seconds in best.items():
                figures[f"{way}_microseconds"] = round(seconds / (RUNS * CALLS) * 1e6, 1)
            figures["ratio"] = round(best["action"] / best["step"], 2)
    return functions


def main() -> None:
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            url = sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{Path(folder) / 'gate.db'}"
            figures = asyncio.run(compare(url, ours.recv()))
            figures["short runs"] = asyncio.run(short_runs(Path(folder)))
            print(json.dumps(figures, indent=2))
    finally:
        server.terminate()


if __name__ == "__main__":
    main()
