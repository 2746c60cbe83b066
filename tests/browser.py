"""A Chromium for tests: the one that is named, the system's, or npm's ``@sparticuz/chromium`` in a cache.

``python -m tests.browser`` fetches the last one where there is no other; it needs Node.js, and without it does nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMED = "HOLDFAST_TEST_CHROMIUM"
SYSTEM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGE = "@sparticuz/chromium@147"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "holdfast-chromium"
ARGUMENTS = ["--no-sandbox", "--disable-gpu"]
"""Not the package's own arguments: ``--single-process`` among them hangs."""

_UNPACK = 'import c from "@sparticuz/chromium"; console.log(await c.executablePath());'


def chromium() -> str | None:
    """The path of a Chromium; None where there is none."""
    if named := os.environ.get(NAMED):
        return named
    found = next((path for name in SYSTEM if (path := shutil.which(name)) is not None), None)
    unpacked = CACHE / "chromium"
    return found or (str(unpacked) if unpacked.exists() else None)


def fetch() -> None:
    """Put npm's Chromium into the cache, where there is no other and npm can be run."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if chromium() is not None or npm is None or node is None:
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    print(f"fetching a Chromium for the tests into {CACHE} …", flush=True)
    quiet = ["--silent", "--no-fund", "--no-audit", "--prefix", str(CACHE)]
    fetched = subprocess.run([npm, "install", *quiet, PACKAGE], check=False, cwd=CACHE)
    if fetched.returncode == 0:
        environment = {**os.environ, "TMPDIR": str(CACHE)}
        subprocess.run([node, "--input-type=module", "-e", _UNPACK], check=False, cwd=CACHE, env=environment)


if __name__ == "__main__":
    fetch()
    print(f"Chromium for the tests: {chromium() or 'none, tests in a browser are skipped'}", file=sys.stderr)
