"""The laws of sagas, over random programs. A failure's notes show the smallest program that was found.

What they reach is checked, too, and that a seed is always the same program, schedule and journal.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.laws.sagas import tree as t
from tests.laws.sagas.grow import program
from tests.laws.sagas.runner import check, digests, play
from tests.scope import play_seeds, volume

COVERING: Final = (
    15,
    16,
    61,
    71,
    96,
    101,
    107,
    108,
    144,
    179,
    200,
    203,
    208,
    251,
    257,
    263,
    275,
    276,
    279,
    281,
    293,
    299,
    301,
    304,
    306,
    312,
    318,
    338,
    357,
    365,
    376,
    389,
    48,
    51,
    93,
    98,
    102,
    193,
    196,
    219,
    437,
    462,
)
"""Each thing that must be reached is reached by three of them, where that can be."""
REACHING: Final = volume(COVERING, range(400))
REPEATED: Final = range(volume(20, 60))

REACHED: Final = (
    "completed",
    "failed",
    "cancelled",
    "continued",
    "continue, then completed",
    "continue, then failed",
    "retry, then completed",
    "retry, then failed",
    "undone",
    "not undone",
    "cancelled while compensating",
    "done after it was given up, then completed",
    "done after it was given up, then failed",
    "done after it was given up, then cancelled",
    "done after it was given up, then continued",
    "form answered",
    "form answered as a timer fires",
    "form answered in a retried run",
    "form expired",
    "form given up",
    "cancelled while a form is open",
)
"""What the programs and schedules must reach: a law that is never tried proves nothing."""


def test_every_law_holds_for_random_programs_and_schedules() -> None:
    """L1 to L7, each seed a program and a schedule. ``make sagas SEED=…`` plays one again."""
    play_seeds(check, 1.0)


def test_every_law_holds_on_the_whole_engine(caplog: pytest.LogCaptureFixture) -> None:
    """The same, with real workers on virtual time that die around their commits."""
    caplog.set_level(logging.CRITICAL)
    play_seeds(lambda seed: check(seed, whole=True), 1.0)


def test_the_programs_reach_every_situation() -> None:
    """Every kind of node is played, and every end that the laws speak of is reached."""
    reached: Counter[str] = Counter()
    for seed in REACHING:
        play(program(seed), seed, reached=reached)
    assert [what for what in REACHED if not reached[what]] == []
    nodes = {type(node) for seed in REACHING for node in t.walk(program(seed))}
    assert nodes == set(t.Node.__args__)
    members = {type(node) for tree in map(program, REACHING) for one in _members(tree) for node in t.walk(one)}
    assert t.Ask in members


def _members(tree: t.Node) -> list[t.Node]:
    """The members of all join sets of a program."""
    return [item for node in t.walk(tree) if isinstance(node, t.Join) for item in node.items]


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_a_seed_is_the_same_under_every_hash_seed(hash_seed: str) -> None:
    """In another process, with other hashes and addresses, each seed has the same schedule and the same journals."""
    command = [sys.executable, "-m", "tests.laws.sagas", "--digests", str(REPEATED.start), str(len(REPEATED))]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    root = Path(__file__).parents[3]
    other = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True)
    mine = dict(zip(REPEATED, digests(REPEATED), strict=True))
    others = dict(zip(REPEATED, other.stdout.split(), strict=True))
    assert [seed for seed in REPEATED if mine[seed] != others[seed]] == []
