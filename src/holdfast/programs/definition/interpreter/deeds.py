"""What a run has done that can be undone, and how it is: newest first, one at a time, to the end.

What cannot be undone is reported, and does not keep the rest.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.journal.payload import Err, Outcome, Payload, policy_of
from holdfast.journal.promise import PromiseId
from holdfast.kernel.program import Scribe
from holdfast.programs.definition.interpreter.frames import Deed, Visit


class Deeds:
    """The deeds of one run. ``wait`` makes a visit wait for an undo, ``undone`` is called when all of its are done."""

    def __init__(
        self, scribe: Scribe, wait: Callable[[Visit, PromiseId], None], undone: Callable[[Visit], None]
    ) -> None:
        self.done: list[Deed] = []
        self.made = 0
        self.failures: list[str] = []
        self._scribe = scribe
        self._wait = wait
        self._undone = undone

    def add(self, deed: Deed) -> None:
        """Something was done."""
        self.made += 1
        self.done.append(deed)

    def given_up(self, visit: Visit) -> list[Deed]:
        """What was done in a visit that is out of time, or in those of its lines that are lost; oldest first."""
        path = visit.path()
        since = visit.entered if visit.expired else visit.begun
        inside = [deed for deed in self.done if deed.number >= since and deed.path[: len(path)] == path]
        if visit.expired or "" in visit.lost:
            return inside
        return [deed for deed in inside if len(deed.path) > len(path) and deed.path[len(path)] in visit.lost]

    def undo(self, visit: Visit, deeds: list[Deed]) -> None:
        """Undo these on behalf of a visit."""
        gone = {id(deed) for deed in deeds}
        self.done = [deed for deed in self.done if id(deed) not in gone]
        visit.undoing = list(deeds)
        self._next(visit)

    def settled(self, visit: Visit, outcome: Outcome | None) -> None:
        """One of them is undone, or cannot be."""
        if isinstance(outcome, Err):
            self._report(visit, f"{outcome.failure.type.rpartition(':')[2]}: {outcome.failure.message}")
        self._next(visit)

    def _report(self, visit: Visit, problem: str) -> None:
        """Of the run, and of the visit: others may be undoing something, too."""
        self.failures.append(problem)
        visit.memo.setdefault("not_undone", []).append(problem)

    def _next(self, visit: Visit) -> None:
        while visit.undoing:
            deed = visit.undoing.pop()
            if deed.problem:
                self._report(visit, deed.problem)
                continue
            payload, policy = Payload(deed.input, deed.codec), policy_of(deed.retry)
            undoes = PromiseId(deed.root, deed.place)
            self._wait(visit, self._scribe.invoke(deed.kind, deed.name, payload, policy, deed.queue, undoes))
            return
        visit.undoing = None
        self._undone(visit)
