"""The conformance page has every row, and every test that it names exists.

The hooks in ``tests/conftest.py`` check at the end of a full session that these tests ran and passed.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.docs.conformance import LEFT_OUT, OPEN, ROOT, Row, plain, rows, unproved
from tests.scope import LONG, VARIABLE

REQUIRED = [
    *(f"J-{number:02d}" for number in range(1, 49)),
    "J-48a",
    *(f"J-{number}" for number in range(49, 73)),
    *("J-72a", "J-72b"),
    *(f"J-{number}" for number in range(73, 77)),
    *("G-01", "G-02", "G-02a"),
    *(f"G-{number:02d}" for number in range(3, 26)),
    "G-25a",
    *(f"G-{number}" for number in range(26, 35)),
    "G-34a",
    *("G-35", "G-36", "G-36a"),
    *(f"G-{number}" for number in range(37, 50)),
    *(f"D-{number:02d}" for number in range(1, 6)),
    "D-05a",
    *(f"D-{number:02d}" for number in range(6, 13)),
    *("D-12a", "D-13", "D-14", "D-15", "D-15a"),
    *(f"D-{number}" for number in range(16, 34)),
    "D-33a",
    *(f"D-{number}" for number in range(34, 48)),
    *("D-47a", "D-48", "D-49"),
    *(f"D-{number}" for number in range(51, 61)),
    *(f"T-{number:02d}" for number in range(1, 6)),
    "T-05a",
    *(f"T-{number:02d}" for number in range(6, 42)),
    *(f"W-{number:02d}" for number in range(1, 9)),
    *(f"M-{number:02d}" for number in range(1, 28)),
    "M-27a",
    *(f"M-{number}" for number in range(28, 49)),
    "M-48a",
    *(f"M-{number}" for number in (*range(49, 67), *range(69, 74))),
    "X-03",
    "X-08",
]


def test_the_page_has_every_row_once_and_in_order() -> None:
    """A requirement cannot be dropped by deleting its row."""
    assert [row.id for row in rows()] == REQUIRED


def test_every_row_names_a_test_or_says_that_it_is_not_built_yet() -> None:
    """A claim has a proof."""
    assert [row.id for row in rows() if not row.proofs and not row.claim.startswith(OPEN)] == []


def test_every_test_on_the_page_is_collected(request: pytest.FixtureRequest) -> None:
    """No row names a test that was renamed or deleted."""
    named = {proof for row in rows() for proof in row.proofs}
    files = {proof.partition("::")[0] for proof in named}
    assert sorted(file for file in files if not (ROOT / file).exists()) == []
    collected = {plain(item.nodeid) for item in request.session.items} | request.config.stash[LEFT_OUT]
    others = {proof.partition("::")[0] for proof in named - collected}
    assert sorted(named - collected - _collected(others)) == []


def _collected(files: set[str]) -> set[str]:
    """The tests in files that this session did not collect; a session of all tests collected them itself."""
    if not files:
        return set()
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    environment = {**os.environ, VARIABLE: LONG}
    listed = subprocess.run(
        [*command, *sorted(files)], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    return {plain(line) for line in listed.stdout.splitlines() if "::" in line}


def test_a_test_that_did_not_run_was_skipped_or_failed_proves_nothing() -> None:
    """A test counts only if it ran and passed with all its parameters."""
    table = [Row("J-01", "claim", ("a::x", "a::y")), Row("J-02", "claim", ("a::z", "a::w"))]
    outcomes = {"a::x": {"passed"}, "a::y": {"passed", "skipped"}, "a::z": {"failed"}}
    assert unproved(table, outcomes) == ["J-01: a::y skipped", "J-02: a::z failed", "J-02: a::w did not run"]


def test_a_row_keeps_a_proof_that_is_not_left_out() -> None:
    """What a session leaves out need not have run, what it ran must have passed, and no row goes without."""
    table = [Row("J-01", "claim", ("a::x", "a::y")), Row("J-02", "claim", ("a::y",)), Row("J-03", "claim", ("a::z",))]
    outcomes = {"a::x": {"passed"}, "a::z": {"failed"}}
    assert unproved(table, outcomes, {"a::y", "a::z"}) == [
        "J-02: all of its proofs are left out: one of them must not be long",
        "J-03: a::z failed",
    ]


def test_a_proof_in_the_store_suite_stands_for_every_store() -> None:
    """A law of the stores is proved only if all stores pass its test."""
    (row,) = rows("| J-99 | what is claimed | `tests/conformance::test_it` |\n")
    assert row.proofs == (
        "tests/conformance/test_memory.py::TestMemoryStore::test_it",
        "tests/conformance/test_postgres.py::TestPostgresStore::test_it",
        "tests/conformance/test_sqlite.py::TestSqliteStore::test_it",
    )
