"""The oracle of the model, which lies beside the corpora: it judges a list of actions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CORPORA = Path(os.environ.get("HOLDFAST_CORPORA") or Path(__file__).parents[4] / "shared" / "data")
TEMPLATES = CORPORA / "templates"

needs_templates = pytest.mark.skipif(
    not TEMPLATES.exists(), reason="the corpus of templates is not here: set HOLDFAST_CORPORA"
)


def judged(trace: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The verdict of the oracle on an audit."""
    file = folder / "audit.json"
    file.write_text(json.dumps(trace))
    command = [sys.executable, str(TEMPLATES / "oracle.py"), "--audit", str(file)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    verdict: dict[str, Any] = json.loads(said[len(str(file)) :])
    return verdict
