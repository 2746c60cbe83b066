"""``examples/orders`` does what it says: every order ends once, through payment, parcel, deadline and refund."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.acceptance.processes import ROOT


def test_every_order_ends_as_it_must() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            str(ROOT / "examples" / "orders" / "run.py"),
            "--keys",
            "60",
            "--patience",
            "4",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("\n")
    assert lines[-2].startswith("All have ended as they must")
    assert "        6  refused" in lines
    assert "60 orders are placed" in lines
