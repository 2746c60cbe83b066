"""The office of ``make serve``, as its own process: a store with runs of every kind, and the console over it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

SCRIPT = Path(__file__).parents[3] / "examples" / "console" / "serve.py"


class Office:
    """A served office."""

    def __init__(self, link: str) -> None:
        self.link = link
        self.address, _, key = link.partition("/?key=")
        headers = {"Authorization": f"Bearer {key}"}
        self._client = httpx.Client(base_url=self.address, headers=headers, timeout=60, trust_env=False)

    def close(self) -> None:
        self._client.close()

    def get(self, path: str) -> Any:
        """What the API answers."""
        answer = self._client.get(f"/v1/{path}")
        answer.raise_for_status()
        return answer.json()

    def post(self, path: str, **body: Any) -> Any:
        """Do something through the API."""
        answer = self._client.post(f"/v1/{path}", json=body, headers={"Prefer": "wait=60"})
        answer.raise_for_status()
        return answer.json()

    def task_of(self, run: str) -> str:
        """The id of a run's open task."""
        found: str = self.get(f"tasks?run={run}&status=requested")["items"][0]["id"]
        return found

    def receipt_of(self, run: str) -> str:
        """The id of a run's first receipt."""
        found: str = self.get(f"receipts?run={run}")["items"][0]["id"]
        return found


@contextmanager
def served_office() -> Iterator[Office]:
    """Serve the office until the end of the block."""
    environment = {**os.environ, "PORT": "0", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    assert process.stdout is not None
    seen = []
    try:
        for line in process.stdout:
            seen.append(line)
            if found := re.search(r"http://\S+/\?key=\S+", line):
                break
        else:
            raise AssertionError(f"it was not served: {''.join(seen)}")
        drain = threading.Thread(target=process.stdout.read, daemon=True)
        drain.start()
        office = Office(found[0])
        yield office
        office.close()
    finally:
        process.terminate()
        process.wait(60)
        drain.join(60)
        process.stdout.close()
