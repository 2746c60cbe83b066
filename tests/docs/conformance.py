"""Reads ``docs/conformance.md``: which tests prove which requirement, and which of those tests did not pass.

A proof is written `` `path::name` ``. ``tests/conformance::name`` stands for the test in the suite of every store.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Final

import msgspec
import pytest

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "conformance.md"

STORES: Final = {
    "test_memory.py": "TestMemoryStore",
    "test_postgres.py": "TestPostgresStore",
    "test_sqlite.py": "TestSqliteStore",
}
OPEN: Final = "Not yet:"
"""Marks, at the beginning of a row's claim or inside it, what is not built yet."""

LEFT_OUT: Final = pytest.StashKey[set[str]]()
"""The plain node ids of the tests that this session leaves out, with all their parameters or with some."""

_ROW = re.compile(r"^\| ([A-Z]-\d+\w?) \| (.+?) \| (.*?) \|$", re.MULTILINE)
_PROOF = re.compile(r"`(tests/[^`]+?::[^`]+)`")


class Row(msgspec.Struct, frozen=True):
    """One requirement, the claim about it, and the node ids of the tests that prove it."""

    id: str
    claim: str
    proofs: tuple[str, ...]


def rows(text: str | None = None) -> list[Row]:
    """The table's rows, in order."""
    page = PAGE.read_text() if text is None else text
    return [
        Row(id, claim, tuple(node for proof in _PROOF.findall(proofs) for node in _nodes(proof)))
        for id, claim, proofs in _ROW.findall(page)
    ]


def _nodes(proof: str) -> Iterable[str]:
    path, _, name = proof.partition("::")
    if path != "tests/conformance":
        return [proof]
    return [f"{path}/{file}::{suite}::{name}" for file, suite in STORES.items()]


def plain(node: str) -> str:
    """A node id without its parameters, and without the group that xdist appends."""
    return node.partition("[")[0].partition("@")[0]


def unproved(table: Iterable[Row], outcomes: Mapping[str, set[str]], left_out: Set[str] = frozenset()) -> list[str]:
    """The proofs that did not run, were skipped, or failed in a session, and rows of which it left out every proof.

    ``outcomes`` and ``left_out`` are by plain node id.
    """
    found = []
    for row in table:
        expected = [node for node in row.proofs if node in outcomes or node not in left_out]
        if row.proofs and not expected:
            found.append(f"{row.id}: all of its proofs are left out: one of them must not be long")
        found += [
            f"{row.id}: {node} {_summary(outcomes.get(node, set()))}"
            for node in expected
            if outcomes.get(node) != {"passed"}
        ]
    return found


def _summary(outcomes: set[str]) -> str:
    return "did not run" if not outcomes else " and ".join(sorted(outcomes - {"passed"}) or ["passed"])
