"""The law of checkpoints, over random scripts: a checkpoint and the tail behind it equal a replay from the start."""

from __future__ import annotations

import random
from typing import Any

import cbor2
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.journal import events as e
from holdfast.journal.payload import Err, Failure, Ok
from holdfast.kernel.arrivals import Arrival, AttemptFailed, CallSettled
from holdfast.kernel.checkpoint import Checkpoint
from holdfast.kernel.requests import Invoke
from holdfast.programs.function.values import encode
from tests.laws.driver import TURNS, Driver
from tests.laws.programs import MAX_ATTEMPTS
from tests.runs import Run, cancel, signal
from tests.strands import Script, script, strands
from tests.volume import volume

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 14)

lawful = settings(deadline=None, print_blob=True)


class Constant(random.Random):
    """Entropy that does not depend on how much of it was used: a replay draws values that it throws away."""

    def random(self) -> float:
        return 0.5

    def randbytes(self, n: int) -> bytes:
        return b"\7" * n


class Player(Driver):
    """Answers what scripts ask for; now and then it cancels the run, or pauses it for a turn."""

    def __init__(self, run: Run, source: random.Random, *, restless: float = 0.0) -> None:
        super().__init__(run, source)
        self._restless = restless

    def turn(self) -> None:
        if self._source.random() < self._restless:
            chance = self._source.random()
            name = e.REVISION if chance > 0.65 else "left"
            arrival = cancel() if chance < 0.3 else signal(name, "while it was paused")
            self.run.advance(arrival, resume=self._source.random() < 0.5)
        super().turn()

    def _outstanding(self) -> list[Invoke]:
        waits = {wait.position for wait in self.run.execution.waits()}
        queued = [invoke for promise, invoke in self.run.invokes.items() if promise.path[-1] in waits and invoke.queue]
        return [*[invoke for invoke in super()._outstanding() if not invoke.queue], *queued]

    def _answer(self, invoke: Invoke) -> Arrival:
        (key, *rest), _ = cbor2.loads(invoke.input.data)
        fails = rest[0] if rest else 0
        if invoke.attempt > fails:
            return CallSettled(invoke.promise_id, Ok(encode(f"{key} done")), invoke.attempt, self.run.now)
        failure = Failure("tests:Unlucky", str(key))
        if fails >= MAX_ATTEMPTS and invoke.attempt > 1:
            return CallSettled(invoke.promise_id, Err(failure), invoke.attempt, self.run.now)
        return AttemptFailed(invoke.promise_id, failure, invoke.attempt, self.run.now)


def state(run: Run) -> tuple[object, ...]:
    """All that can be asked of an execution, and, where it rests, all that it is."""
    execution = run.execution
    whole = None if execution.ended else execution.checkpoint()
    return (
        execution.ledger.version,
        execution.ledger.status,
        execution.ledger.signals.unconsumed(),
        execution.outstanding(),
        execution.waits(),
        execution.next_due(),
        execution.standing(),
        execution.started,
        execution.ended,
        whole,
    )


def played(seed: int, size: int, restless: float) -> tuple[Run, dict[int, Checkpoint]]:
    """A run taken to its end, and the checkpoint that it gave after each turn, by version."""
    player = Player(Run(strands, script(random.Random(seed), size), seed=seed), random.Random(seed), restless=restless)
    player.run.others_entropy = Constant()
    given: dict[int, Checkpoint] = {}
    for _ in range(TURNS):
        player.turn()
        if player.run.ended:
            return player.run, given
        checkpoint = player.run.execution.checkpoint()
        assert checkpoint is not None
        given[checkpoint.version] = checkpoint
    raise AssertionError(f"the run does not end; it waits for {player.run.execution.waits()}")


@settings(lawful, max_examples=volume(100, 200))
@given(seeds, sizes, st.sampled_from((0.0, 0.1)))
def test_a_checkpoint_is_what_a_replay_gives(seed: int, size: int, restless: float) -> None:
    """At the end of every turn: live, rebuilt and restored, the run gives the same bytes."""
    run, given = played(seed, size, restless)
    for version, checkpoint in given.items():
        assert run.rebuilt(run.journal[:version]).execution.checkpoint() == checkpoint
        assert run.restored(checkpoint, run.journal[:version]).execution.checkpoint() == checkpoint


@settings(lawful, max_examples=volume(50, 100))
@given(seeds, sizes, st.sampled_from((0.0, 0.1)), st.floats(0, 1))
def test_a_checkpoint_and_its_tail_equal_a_replay_at_every_prefix(
    seed: int, size: int, restless: float, older: float
) -> None:
    """Whatever checkpoint is left, the last one or an older one: the execution is where a rebuilt one is."""
    run, given = played(seed, size, restless)
    versions = sorted(given)
    for length in range(versions[0] if versions else len(run.journal) + 1, len(run.journal) + 1):
        prefix = run.journal[:length]
        known = [version for version in versions if version <= length]
        expected = state(run.rebuilt(prefix))
        for version in {known[-1], known[round(older * (len(known) - 1))]}:
            assert state(run.restored(given[version], prefix)) == expected


@settings(lawful, max_examples=volume(75, 150))
@given(seeds, sizes, st.sampled_from((0.0, 0.1)), st.floats(0, 1), st.floats(0, 1))
def test_all_further_turns_are_those_of_a_replay(
    seed: int, size: int, restless: float, chosen: float, cut: float
) -> None:
    """Cut anywhere behind a checkpoint, in the middle of a turn too: both go on to the same journal."""
    run, given = played(seed, size, restless)
    if not given:
        return
    version = sorted(given)[round(chosen * (len(given) - 1))]
    prefix = run.journal[: version + round(cut * (len(run.journal) - version))]
    ends: list[Any] = []
    for other in (run.rebuilt(prefix), run.restored(given[version], prefix)):
        ends.append(Player(other, random.Random(seed + 1), restless=restless).finish().journal)
    assert ends[0] == ends[1]
    assert ends[0][: len(prefix)] == prefix


@settings(lawful, max_examples=volume(30, 60))
@given(seeds, sizes, st.sampled_from((0.0, 0.1)))
def test_a_run_that_is_restored_at_each_turn_ends_as_it_would(seed: int, size: int, restless: float) -> None:
    """Checkpoints of restored runs are as good as the first one."""
    ends: list[Any] = []
    for restores in (False, True):
        player = Player(Run(strands, script(random.Random(seed), size)), random.Random(seed), restless=restless)
        player.run.others_entropy = Constant()
        for _ in range(TURNS):
            player.turn()
            if player.run.ended:
                break
            checkpoint = player.run.execution.checkpoint()
            assert checkpoint is not None
            player.run = player.run.restored(checkpoint) if restores else player.run.rebuilt()
        ends.append(player.run.journal)
    assert ends[0] == ends[1]


def test_every_instruction_of_a_script_is_played() -> None:
    """What the laws above are tried on does all that programs do."""
    seen: set[type[e.Event]] = set()
    for seed in range(60):
        run, _ = played(seed, 12, 0.1)
        seen |= {type(event) for event in run.events}
        if any(isinstance(event, e.InvokeScheduled) and event.undoes is not None for event in run.events):
            seen.add(e.Event)
    assert seen == {*e.EVENTS, e.Event}


def test_a_large_value_is_referred_to_and_not_written_again() -> None:
    """The journal has brought it into the store; a checkpoint that is restored without it is refused."""
    run = Run(strands, Script([[["step", "a", 0], ["receive", "left"], ["step", "b", 0]]]))
    run.advance()
    large = "x" * 40_000
    run.advance(signal("right", large))
    checkpoint = run.execution.checkpoint()
    assert checkpoint is not None
    assert len(checkpoint.ledger) < 1_000
    assert len(checkpoint.blobs) == 1
