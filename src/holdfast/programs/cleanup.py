"""The wait of a run that fails or is cancelled for its last children, and what ends it: a person's word, or a timer.

Both programs that have children use it, so both record the same: a receive of the word, and the timer if there is one.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.journal import events as e
from holdfast.journal.promise import PromiseId
from holdfast.kernel.program import Scribe
from holdfast.runs.birth import child_id, id_in, lineage_of


class CleanupWait:
    """``promises`` end the wait, as long as there is one; ``left`` are the children that had not ended then."""

    def __init__(self) -> None:
        self.promises: list[PromiseId] = []
        self.left: list[PromiseId] = []
        self.is_over = False  # the word has come, or the timer has fired: no child is waited for from then on

    def begin(self, scribe: Scribe, microseconds: int | None, *, may_differ: bool = False) -> None:
        """The run begins to wait, at most so long. A replay takes the time from the journal where the code
        ``may_differ`` by now."""
        promise, word = scribe.receive(e.LEAVE_CHILDREN)
        if word is not None:
            self.is_over = True
            return
        self.promises.append(promise)
        recorded = scribe.upcoming() if may_differ else None
        if recorded is not None:
            microseconds = recorded.duration if isinstance(recorded, e.TimerScheduled) else None
        if microseconds is not None:
            self.promises.append(scribe.timer(microseconds))

    def leave(self, children: Iterable[PromiseId]) -> None:
        """The wait is over, and these children have not ended."""
        self.is_over = True
        self.left += sorted(children)

    def end(self, scribe: Scribe) -> None:
        """There is nothing left to wait for."""
        for promise in self.promises:
            scribe.abandon(promise)
        self.promises.clear()

    def note(self, idempotency_key: str) -> str:
        """Which children were left, for the end of the run with this key; empty where none was."""
        run, lineage = id_in(idempotency_key), lineage_of(idempotency_key)
        names = [child_id(run, promise.path[-1], lineage) for promise in self.left]
        return f"left before they had ended: {', '.join(names)}" if names else ""
