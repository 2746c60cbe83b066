"""Starting the office: what goes wrong is said in a sentence, before anything is made."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from tests.acceptance.console.office import SCRIPT


def started_on(port: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PORT": port}
    return subprocess.run(
        [sys.executable, str(SCRIPT)], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_port_that_is_taken_is_said_at_once() -> None:
    """With what to do about it, and without a traceback."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        failed = started_on(port)
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr == (
        f"Port {port} cannot be used: another process listens there. Stop it, or run `PORT=8421 make serve`.\n"
    )
