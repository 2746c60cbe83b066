"""Kill a worker in the middle of a run, start another, and see the run finish: ``make run``.

The workflow is ``checkout`` in ``shop.py``, the store one SQLite file. The worker is a separate process and is really
killed, with SIGKILL, while it ships the parcel. The next worker continues the run. It ships again, because nobody can
know how far the dead worker came. It neither reserves nor charges again, because those steps were completed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from shop import Order, checkout

from holdfast import SyncHoldfast

RUN = "order-42"
SHOP = Path(__file__).with_name("shop.py")
HOLDFAST = [sys.executable, "-m", "holdfast.cli.main"]


class Worker:
    """A worker process. It counts the steps that the process begins, by their lines on stdout."""

    def __init__(self, url: str, begun: Counter[str]) -> None:
        command = [*HOLDFAST, "worker", str(SHOP), "--store", url, "--log-level", "error"]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"}
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8", env=environment
        )
        self._begun = begun
        print(f"A worker starts: process {self.pid}.", flush=True)

    @property
    def pid(self) -> int:
        return self._process.pid

    def until(self, wanted: str) -> None:
        """Print the worker's lines and count the steps, until the step ``wanted`` has begun."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            print(line, end="", flush=True)
            step = line.partition("│")[2].split()[0]
            self._begun[step] += 1
            if step == wanted:
                return
        raise SystemExit(f"the worker ended before it reached {wanted!r}")

    def kill(self) -> None:
        """SIGKILL: the process has no chance to tidy up."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:  # closes the pipe, and waits
            self._process.terminate()


def survive(url: str) -> Counter[str]:
    """Start, kill, continue. Returns how often each step was begun."""
    begun: Counter[str] = Counter()
    with SyncHoldfast(url, worker=False) as client:
        run = client.start(checkout, Order("a book", 12.0), id=RUN)
        with Worker(url, begun) as worker:
            worker.until("charge")
            run.signal("approval", value=True)
            worker.until("ship")
            worker.kill()
        print(f"kill -9 {worker.pid}: it dies while it ships.\n", flush=True)

        with Worker(url, begun) as worker:
            worker.until("email")
            result = run.result(timeout=30)
        print(f"The run is {run.status()}, and its result is {result!r}.\n", flush=True)
        if not (check := run.verify()).good:
            raise SystemExit(check.problem)
    return begun


def main() -> None:
    """Run the example on a new file, print the journal, and check the guarantees."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'shop.db'}"
        begun = survive(url)
        print(f"$ holdfast show {RUN}", flush=True)
        subprocess.run([*HOLDFAST, "show", RUN, "--store", url], check=True)
    times = ", ".join(f"{step} {count}×" for step, count in begun.items())
    print(f"\nBegun: {times}.")
    if begun != {"reserve": 1, "charge": 1, "ship": 2, "email": 1}:
        raise SystemExit("A completed step ran twice!")
    print("Only the step that was cut off ran again; no completed step ran twice.")


if __name__ == "__main__":
    main()
