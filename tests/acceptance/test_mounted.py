"""The example of a FastAPI application that mounts the server, run as a reader would run it, by uvicorn."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]
SOON = 60.0
"""Seconds. A server that waited for its streams would wait for ten minutes, which is how long they may last."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def answering(client: httpx.Client, process: subprocess.Popen[bytes]) -> None:
    """Wait until it answers."""
    while True:
        try:
            client.get("/engine/healthz")
        except httpx.TransportError:
            assert process.poll() is None, "it did not start"
            time.sleep(0.05)
        else:
            return


def test_a_run_of_the_applications_own_route_is_in_the_mounted_api_and_console_and_streams_end_at_once(
    tmp_path: Path,
) -> None:
    """Under the prefix every link leads under the prefix. An open stream does not delay the end of the process."""
    port = free_port()
    url = f"sqlite:///{tmp_path / 'orders.db'}"
    environment = {**os.environ, "HOLDFAST_STORE": url}
    made = subprocess.run(
        [sys.executable, "-m", "holdfast", "init", "ann", "--tenant", "default", "--store", url],
        capture_output=True,
        text=True,
        check=True,
    )
    key = {"Authorization": f"Bearer {made.stdout.strip()}"}
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(ROOT / "examples" / "fastapi"), "main:web"]
    process = subprocess.Popen([*command, "--port", str(port), "--log-level", "warning"], env=environment)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
            answering(client, process)
            placed = {"number": "7", "item": "lamp"}
            for _ in range(2):
                answer = client.post("/orders", json=placed)
                assert (answer.status_code, answer.json()) == (201, {"order": "7", "run": "order-7"})
            assert client.get("/orders/8").status_code == 404
            assert client.get("/engine/v1/runs/order-7").status_code == 401
            run = client.get("/engine/v1/runs/order-7", headers=key).json()
            assert (run["run"]["id"], run["run"]["workflow"]) == ("order-7", "order")
            page = client.get("/engine/runs/order-7", headers={**key, "Accept": "text/html"})
            assert page.status_code == 200
            assert "order-7" in page.text
            assert 'href="/engine/' in page.text
            assert 'href="/runs' not in page.text
            with client.stream("GET", "/engine/v1/events/runs/order-7", headers=key) as stream:
                events = stream.iter_bytes()
                assert b"retry:" in next(events)
                process.send_signal(signal.SIGTERM)
                began = time.monotonic()
                for _ in events:
                    pass
                assert time.monotonic() - began < SOON
        process.wait(timeout=SOON)
    finally:
        process.kill()
        process.wait()
    assert process.returncode in (0, -signal.SIGTERM)
