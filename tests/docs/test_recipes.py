"""Recipes that need a caller: the page's code is run, and then used as a reader would use it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "how-to.md"

REQUESTS = """

from fastapi.testclient import TestClient

with TestClient(web) as browser:
    sent = {"params": {"item": "a book", "count": 2}, "headers": {"Idempotency-Key": "k-1"}}
    for _ in range(2):
        answer = browser.post("/orders", **sent)
        assert (answer.status_code, answer.json()) == (202, {"order": "order-k-1"}), answer.text
    browser.portal.call(shop_engine.run("order-k-1").result, 30)
    state = browser.get("/orders/order-k-1").json()
    assert (state["status"], state["result"]) == ("completed", "2 × a book is reserved")

    other = browser.post("/orders", params={"item": "a pen", "count": 2}, headers={"Idempotency-Key": "k-1"})
    assert (other.status_code, other.json()["error"]) == (409, "run_conflict")
    missing = browser.get("/orders/nothing")
    assert (missing.status_code, missing.json()["error"]) == (404, "run_not_found")
print("served")
"""


def _program(*needed: str) -> str:
    """The page's first block, and the blocks that contain one of these words."""
    first, *others = [block.text for block in blocks(PAGE, "python")]
    return "\n".join([first, *(text for text in others if any(word in text for word in needed))])


def test_a_web_application_starts_a_run_once_for_a_key_and_gives_its_state(tmp_path: Path) -> None:
    """A request that is sent twice starts one run. A key of another order is a 409, an unknown order a 404."""
    (tmp_path / "web.py").write_text(_program("FastAPI(") + REQUESTS, encoding="utf-8")
    done = subprocess.run([sys.executable, "web.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "served\n"), done.stderr


def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    """With the fixture that they use, in virtual time."""
    (tmp_path / "test_page.py").write_text(_program("holdfast_app"), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:anyio"]
    command += ["-p", "no:hypothesispytest", "-p", "no:schemathesis", "-p", "no:valkey"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "3 passed" in done.stdout, done.stdout + done.stderr
