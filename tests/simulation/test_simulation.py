"""A thousand simulated lives of an engine, each from its seed; what they must reach; and that a seed is a simulation.

A failure's note says which command plays its seed again.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from holdfast.gate import run_calls
from holdfast.gate.call import TRANSITIONS, CallEvent, CallState, next_state
from holdfast.journal.events import EVENTS
from tests.simulation.gated import MANNERS
from tests.simulation.simulate import simulate
from tests.simulation.world import STEERED

SEEDS: Final = 1000
CHUNK: Final = 50
REACHING: Final = range(300)
REPEATED: Final = (1, 4, 7, 10, 21, 43, 61, 68, 157, STEERED + 1, STEERED + 2, STEERED + 3)
MOVED_BY_HAND: Final = frozenset(
    {
        ("abandoned", "news"),
        ("acting", "news"),
        ("blocked", "abandoned"),
        ("blocked", "news"),
        ("checking", "abandoned"),
        ("checking", "news"),
        ("committing", "doubted"),
        ("committing", "found"),
        ("committing", "news"),
        ("concluding", "abandoned"),
        ("concluding", "doubted"),
        ("concluding", "news"),
        ("due", "news"),
        ("due", "unasked"),
        ("over", "abandoned"),
        ("over", "news"),
        ("probing", "news"),
    }
)
"""Transitions of calls that are rare here: tests/unit/gate/test_call.py and the gate's own tests make them."""
STEERED_SEEDS: Final = range(STEERED, STEERED + 60)

SAID: Final = (
    "TaskClosed",
    "TaskForbidden",
    "approved",
    "delegated",
    "did not happen",
    "given up",
    "happened",
    "rejected",
)
"""What people say to tasks, and what they are told where it is too late or not theirs to say."""

WRITES: Final = ("beat", "claim", "claim_work", "commit", "register", "rescue")

REACHED: Final = (
    *(event.__name__ for event in EVENTS),
    *(f"died before {write}" for write in WRITES),
    *(f"died after {write}" for write in WRITES),
    *(f"lost the answer of {write}" for write in WRITES),
    "Advanced",
    "Fenced",
    "cancel",
    "checkpoint damaged",
    "checkpoint loaded",
    "checkpoint lost",
    "frozen",
    "killed",
    "outage",
    "pause",
    "refused",
    "slow",
    "step begun",
    "worker died",
    "Closed",
    "Taken",
    "Tasked",
    *(f"act begun: {manner}" for manner in sorted(set(MANNERS))),
    *(f"a person: {said}" for said in SAID),
    "died after an act was done",
    "died before an act was done",
    "lost the answer of seal",
    "probed",
)
"""What the faults and the workload must bring about: a law that is never put to the test proves nothing."""

STEERED_TO: Final = (
    "OperatedOn",
    "act begun: terminal once",
    "an operator: fork",
    "an operator: fork: InvalidRequest",
    "an operator: retry",
    "an operator: retry: InvalidRequest",
    "an operator: reverse",
    "an operator: reverse: NotReversible",
    "gate.take_back: succeeded",
    "gate.undo: succeeded",
    "two tenants",
)
"""What operators must bring about in the seeds that they steer."""

FOUND: Final = {
    800046: "a queued step's late answer let go of its next attempt, which was begun a second time beside the first",
    800352: "a start came through without its answer: its open receipt was nobody's, and another call waited for ever",
    840402: "a claim's answer came late, and its step, withdrawn and offered again meanwhile, was begun all the same",
    95711: "a task was answered in part as it expired, and stayed open when its run was cancelled in the next turn",
    25: "a forgotten worker claimed a run and died: the leases of owners who are not registered were never taken back",
    28: "the load after a claim failed, and the claimed run was held by nobody for as long as the worker lived",
    48: "a worker claimed after it had been forgotten, joined again under the same id, and did not know of that lease",
    264: "a signal that came before the first turn of a run that at once continued as new was taken for consumed",
    429: "an attempt whose outcome was on its way to the store was begun again, because its lease was still there",
    484: "a doubt about leases that was raised during the look at them was taken for settled by it",
    710: "a claim was answered after the worker had been forgotten and had joined again: a completed step began anew",
    754: "the same answer, come so late, began a step whose lease had been taken back",
    1075: "a doubt about leases that was raised while a claim was under way was lost with the claim's answer",
    11: "two runs under one worker met at a key with the same token, and both acted",
    67: "a person's word about one attempt was taken for the outcome of a later attempt of the same call",
    76: "a call whose retry was due in the turn that cancelled it left its receipt pending for ever",
    126: "a run waited for ever at a key whose act had been given up by a run that had ended",
    177: "a receipt was told under the proposal of newer code, which nobody had allowed: the evidence was broken",
    12871: "a call was denied while its approval was still asked for, and the task stayed open after the run's end",
    18516: "a run waited for ever at a key whose act it had itself stopped waiting for",
    13052: "two calls of one key both asked what became of an act, and only one of them had its receipt told",
    100112: "a retried run was leased without a place, and more runs were under way than the cap",
    100487: "a retried run waited for ever for a child that had ended before the retry, and told nobody again",
    100144: "after a retry, an undo was left out: that of another act had stood at its place, and been done",
    100305: "after a retry, a call was given what another, which had stood at its place, had done",
    40932: "a success that was about to be told was replaced by a word of not knowing, said in the same turn",
    150065: "a run that was still warm was judged before it was known what it had asked, and asked it again",
    140010: "two calls under one key probed what became of an act, and only one of them had its receipt told",
    130011: "what was told twice of an unknown outcome in one turn was written anew when the turn's answer was lost",
    3932: "a run was leased again before its release was answered, and forgotten with that answer",
}
"""Seeds that found a bug, and what it was."""

FOUND_IN_LONGER_PLANS: Final = {
    (22358, 5): "a claim was answered after the worker had been forgotten, and a step began when it had joined again",
}


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Workers complain of every fault; here faults are the point."""
    caplog.set_level(logging.CRITICAL, logger="holdfast")


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_law_holds_in_every_simulated_life(first: int) -> None:
    """Whatever fails, whenever: nothing is lost, nothing is done again once it is done, and every run ends."""
    for seed in range(first, first + CHUNK):
        simulate(seed)


def test_every_law_holds_where_people_steer() -> None:
    """Retried, forked and reversed, in several tenants at once, with undos: the same laws, and everything happens."""
    total: Counter[str] = Counter()
    for seed in STEERED_SEEDS:
        total += simulate(seed)
    assert [what for what in STEERED_TO if not total[what]] == []


@pytest.mark.parametrize("seed", FOUND)
def test_a_seed_that_found_a_bug_finds_it_no_more(seed: int) -> None:
    """Seeds that found a bug are kept; ``FOUND`` says what each one was."""
    simulate(seed)


@pytest.mark.parametrize(("seed", "steps"), FOUND_IN_LONGER_PLANS)
def test_a_longer_plan_that_found_a_bug_finds_it_no_more(seed: int, steps: int) -> None:
    """As above, with the number of steps that it takes."""
    simulate(seed, steps)


@pytest.mark.parametrize("seed", range(5000, 5010))
def test_longer_plans_keep_the_laws_too(seed: int) -> None:
    """The laws do not depend on how much a run has to do."""
    simulate(seed, 10)


def test_the_simulation_reaches_what_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every event, every kind of death and every refusal happens: a simulator that has gone tame fails here.

    So do the transitions of calls at the gate. One that the table does not have would have parked a run.
    """
    total: Counter[str] = Counter()
    moves: set[tuple[str, str]] = set()

    def recorded(state: CallState, event: CallEvent) -> CallState:
        moves.add((state, event))
        return next_state(state, event)

    monkeypatch.setattr(run_calls, "next_state", recorded)
    for seed in REACHING:
        total += simulate(seed)
    assert [what for what in REACHED if not total[what]] == []
    table = {(state, event) for state, row in TRANSITIONS.items() for event in row}
    assert table - moves <= MOVED_BY_HAND


def test_a_seed_gives_the_same_simulation_every_time_in_one_process() -> None:
    """Nothing of one simulation is left for the next one."""
    first = [simulate(seed) for seed in REPEATED]
    assert [simulate(seed) for seed in REPEATED] == first


def test_a_seed_gives_the_same_simulation_in_every_process() -> None:
    """Nothing depends on the order of sets, on addresses or on process ids."""
    here = [dict(simulate(seed)) for seed in REPEATED]
    assert [_elsewhere(hash_seed) for hash_seed in (1, 2)] == [here, here]


def _elsewhere(hash_seed: int) -> list[dict[str, int]]:
    """The counters of the same seeds from a process of its own."""
    program = (
        "import json, logging, sys; logging.disable(); from tests.simulation.simulate import simulate; "
        "print(json.dumps([simulate(int(seed)) for seed in sys.argv[1:]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, REPEATED)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[dict[str, int]] = json.loads(done.stdout)
    return found
