"""The schedule: a source of randomness decides what happens in each turn of each run, until all have ended."""

from __future__ import annotations

import hashlib
import random
from collections import Counter

from holdfast.journal.render import line
from holdfast.kernel.requests import Invoke
from holdfast.store import protocol as p
from holdfast.worker.held import Held
from tests.laws.sagas import tree as t
from tests.laws.sagas.forms import is_moving
from tests.laws.sagas.hand import Hand
from tests.laws.sagas.judge import judge, judge_refusal, judge_waiting
from tests.laws.sagas.judge_forms import judge_forms, judge_open_forms
from tests.laws.sagas.lives import reached
from tests.laws.sagas.violation import Violation

MAIN = p.Key("default", "run")
TURNS = 500
GENEROUS = 8
"""After this many signals only a run that nothing else can move gets more: draining them must end."""
RESTLESS = 60
"""After this many turns rare faults stop, so that every run ends."""


class Schedule:
    """Drives one program. ``log`` lists what was done, for people."""

    def __init__(self, tree: t.Node, seed: int) -> None:
        self._source = source = random.Random(f"schedule {seed}")
        self._tree = tree
        self._settles = source.choice((0.3, 0.6, 1.0))
        self._signals = source.choice((0.3, 0.8, 0.95))
        self._restarts = source.choice((0.0, 0.0, 0.1, 0.3))
        self._dies = source.choice((0.0, 0.0, 0.1))
        self._replays = source.choice((0.1, 0.5))
        self._dozes = source.choice((0.0, 0.0, 0.0, 0.15))
        self._cancels = source.choice((0.0, 0.0, 0.05, 0.2))
        self._retries = source.choice((0, 1, 1, 2, 3))
        self._answers = source.choice((0.1, 0.5, 0.9))
        self._turns = 0
        self.hand = Hand(seed)
        self.reached: Counter[str] = Counter()

    @property
    def log(self) -> list[str]:
        return self.hand.log

    def play(self) -> None:
        """Drive the program to its end, and retry it as often as the schedule says. Raises Violation."""
        try:
            self.hand.start(MAIN.run, self._tree)
            while True:
                self._come_to_rest()
                for run in self.hand.runs():
                    lives = self.hand.lives(run.key)
                    judge(run.key.run, lives)
                    judge_forms(run.key.run, lives, self.hand.forms(run.key))
                    self.reached.update(reached(lives))
                if not self._again():
                    return
        finally:
            self.hand.close()

    def digest(self) -> str:
        """A short hash of all that was done and recorded."""
        lines = list(self.log)
        for run in self.hand.runs():
            lines += [line(entry.event) for life in self.hand.lives(run.key) for entry in life.entries]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]

    def _again(self) -> bool:
        """Retry the first run, seldom another one; gives whether a run goes on."""
        failed = [run.key for run in self.hand.runs() if run.standing in ("failed", "cancelled")]
        if not failed or not self._retries:
            return False
        self._retries -= 1
        self._turns = 0
        chosen = MAIN if MAIN in failed and self._chance(0.8) else self._source.choice(failed)
        refusal = self.hand.retry(chosen)
        if refusal is not None:
            judge_refusal(chosen.run, refusal, [self.hand.lives(run.key) for run in self.hand.runs()])
        return refusal is None

    def _come_to_rest(self) -> None:
        while self._turns < TURNS:
            self._turns += 1
            self.hand.claim(warm=self._chance(0.5))
            self._look()
            going = [run for run in self.hand.runs() if run.standing not in p.ENDED]
            if not going:
                return
            self._move(self._source.choice(going))
        waits = {run.key.run: run.waiting for run in going}
        raise Violation("end", f"the runs do not end: {waits}")

    def _look(self) -> None:
        """Check what must hold whenever a run is at rest."""
        hand = self.hand
        for run in hand.runs():
            if run.key in hand.dozing or run.key not in hand.traces:
                continue
            if run.standing not in p.ENDED and run.arrived == run.consumed:
                judge_waiting(run.key.run, hand.lives(run.key)[-1])
                if run.key not in hand.held:
                    judge_open_forms(run.key.run, hand.lives(run.key)[-1], run.generation, hand.forms(run.key))
                if self._chance(self._replays):
                    hand.check_replay(run)

    def _move(self, run: p.Run) -> None:
        """Let something happen to this run."""
        hand, key = self.hand, run.key
        if self._chance(self._cancels):
            hand.cancel(key)
        held = hand.held.get(key)
        moves = run.wake_at is not None if held is None else _moves(held)
        if not moves or hand.sent < GENEROUS:
            self._send(key)
        self._fill_in(key, must=not moves)
        if held is None:  # it waits for a message, or for its time
            if run.wake_at is not None and self._chance(0.5):
                self._pass_until(run.wake_at)
            return
        if self._chance(self._restarts):
            hand.restart(key)
            return
        self._turn(held)

    def _turn(self, held: Held) -> None:
        hand, key = self.hand, held.key
        chosen = [invoke for invoke in hand.pending(held) if self._chance(self._settles)]
        self._source.shuffle(chosen)
        due = held.next_due()
        if not chosen and due is None and (waiting := hand.pending(held)):
            chosen = [self._source.choice(waiting)]
        if due is not None and (not chosen or self._chance(0.3)):
            self._pass_until(due)
        elif self._chance(0.3):
            hand.clock.time += 100_000
        dies, dozes = self._chance(self._dies), self._chance(self._dozes)
        how = ", which is lost" if dies else ", which is only recorded" if dozes else ""
        hand.log.append(f"{key.run}: turn{_named(chosen)}{how}")
        arrivals = [hand.perform(invoke) for invoke in chosen]
        if dozes and not dies:
            hand.doze(held, arrivals)
        else:
            hand.turn(held, arrivals, dies=dies)

    def _send(self, key: p.Key) -> None:
        notes = self.hand.traces[key].notes if key in self.hand.traces else []
        for name in t.SIGNALS:
            asked = sum(note.name == name and note.what == "wants" for note in notes)
            answered = sum(note.name == name and note.what in ("got", "missed") for note in notes)
            count = sum(self._chance(self._signals) for _ in range(asked - answered)) + self._chance(0.05)
            for _ in range(count):
                self.hand.signal(key, name)

    def _fill_in(self, key: p.Key, *, must: bool) -> None:
        """People answer the forms of a run, or claim one; where nothing else moves the run, one is answered."""
        open_ = [task for task in self.hand.forms(key) if task.status == "requested"]
        for task in open_:
            if self._chance(self._answers) or (must and task is open_[-1]):
                self.hand.answer(task)
            elif task.owner is None and self._chance(0.2):
                self.hand.take_form(task)

    def _pass_until(self, time: int) -> None:
        clock = self.hand.clock
        if time > clock.time:
            self.hand.log.append(f"    {(time - clock.time) / 1e6:g} s pass")
            clock.time = time

    def _chance(self, probability: float) -> bool:
        if self._turns > RESTLESS and 0 < probability < 0.3:
            return False
        return self._source.random() < probability


def _moves(held: Held) -> bool:
    """Whether a turn of this run would do something, now or in time."""
    return held.next_due() is not None or bool(held.steps) or is_moving(held)


def _named(chosen: list[Invoke]) -> str:
    return f" with {len(chosen)} settled" if chosen else ""
