"""The worker of this example: a separate process that can be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HOLDFAST = [sys.executable, "-m", "holdfast.cli.main"]
ACTIONS = Path(__file__).with_name("actions.py")


class Worker:
    """``holdfast worker actions.py``, while the block lasts. Its output goes to a file."""

    def __init__(self, log: Path, environment: dict[str, str]) -> None:
        with log.open("ab") as file:
            command = [*HOLDFAST, "worker", str(ACTIONS)]
            self._process = subprocess.Popen(
                command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL: the process has no chance to tidy up."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
