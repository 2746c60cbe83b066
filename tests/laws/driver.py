"""A driver for random programs: it settles what a run asks for, in an order and a grouping that a seed decides."""

from __future__ import annotations

import random

from holdfast.journal import events as e
from holdfast.journal.payload import Err, Failure, Ok
from holdfast.kernel.arrivals import Arrival, AttemptFailed, CallSettled
from holdfast.kernel.requests import Invoke
from holdfast.programs.function.failures import describe
from holdfast.programs.function.values import Signature, encode
from tests.laws.programs import SIGNALS, Node, Unlucky, perform, play
from tests.runs import Run, signal

TURNS = 300
"""No program of these sizes takes more turns: a run that has not ended by then never ends."""


class Driver:
    """Takes one run to its end. Everything that it decides comes from ``source``."""

    def __init__(self, run: Run, source: random.Random) -> None:
        self.run = run
        self._source = source

    def finish(self) -> Run:
        """Take turns until the run has ended; at least one, to see what a rebuild in mid-turn has recorded."""
        for _ in range(TURNS):
            self.turn()
            if self.run.ended:
                return self.run
        raise AssertionError(f"the run does not end; it waits for {self.run.execution.waits()}")

    def turn(self) -> None:
        """One turn: some of what is outstanding is settled, some signals come, perhaps time passes."""
        run, source = self.run, self._source
        due = run.execution.next_due()
        if due is not None and due <= run.now:  # a worker that takes a run over begins with what is due
            run.advance()
        arrivals = [self._answer(invoke) for invoke in self._outstanding() if source.random() < 0.6]
        waited_for = [wait.name for wait in run.execution.waits() if wait.kind == "receive"]
        arrivals += [signal(name, source.randint(0, 9)) for name in waited_for if source.random() < 0.5]
        if source.random() < 0.05:
            arrivals.append(signal(source.choice(SIGNALS), "unasked"))
        source.shuffle(arrivals)
        run.advance(*arrivals, after=self._pause(bool(arrivals)))

    def _outstanding(self) -> list[Invoke]:
        live = {wait.position: wait for wait in self.run.execution.waits()}
        return [
            invoke
            for promise, invoke in self.run.invokes.items()
            if promise.path[-1] in live and live[promise.path[-1]].due is None
        ]

    def _pause(self, busy: bool) -> float:
        """Nothing, a moment, or until the run next wants a turn by itself."""
        due = self.run.execution.next_due()
        if due is not None and (not busy or self._source.random() < 0.3):
            return max(0, due - self.run.now) / 1e6
        return self._source.choice((0.0, 0.1, 0.7))

    def _answer(self, invoke: Invoke) -> Arrival:
        arguments, named = _signature(invoke).read(invoke.input)
        assert not named
        if invoke.kind == "workflow":
            return self._child(invoke, arguments[0])
        key, fails = arguments
        if invoke.attempt > fails:
            return CallSettled(invoke.promise_id, Ok(encode(key)), invoke.attempt, self.run.now)
        failure: Failure = describe(Unlucky(key))
        return AttemptFailed(invoke.promise_id, failure, invoke.attempt, self.run.now)

    def _child(self, invoke: Invoke, tree: Node) -> CallSettled:
        """A child is another run: it is played to its end here, and its end is the answer."""
        child = Driver(Run(play, tree), random.Random(str(invoke.promise_id))).finish()
        last = child.events[-1]
        assert isinstance(last, (e.ExecutionCompleted, e.ExecutionFailed))
        outcome = Ok(last.result) if isinstance(last, e.ExecutionCompleted) else Err(last.error)
        return CallSettled(invoke.promise_id, outcome, invoke.attempt, self.run.now)


def _signature(invoke: Invoke) -> Signature:
    return (play if invoke.kind == "workflow" else perform).signature


def finished(tree: Node, seed: int) -> Run:
    """A run of the tree, taken to its end."""
    return Driver(Run(play, tree, seed=seed), random.Random(seed)).finish()
