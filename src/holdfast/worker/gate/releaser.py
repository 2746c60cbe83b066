"""The releaser: it lets go of calls at the gate that nobody waits for any more."""

from __future__ import annotations

from holdfast.gate.call import is_unaccounted
from holdfast.gate.run_calls import RunCalls
from holdfast.journal.promise import PromiseId
from holdfast.journal.secrecy import ACTION
from holdfast.kernel.requests import Abandon, Request
from holdfast.worker.attached import Attached
from holdfast.worker.gate import entries, orphans, questions
from holdfast.worker.gate.acts import Acts
from holdfast.worker.held import Held


class Releaser:
    """Closes what abandoned calls have open."""

    def __init__(self, acts: Acts) -> None:
        self._acts = acts

    def abandon(self, held: Held, promise: PromiseId, now: int) -> list[Attached]:
        """Nobody waits for a call any more: what it asks is closed. An act that has begun goes on to its end."""
        calls = held.gate
        call = None if calls is None else calls.calls.get(promise)
        if calls is None or call is None:
            return []
        receipt = call.receipt if call.state in ("acting", "probing") else call.earlier
        leaves = orphans.left(held, call, receipt, now) if is_unaccounted(receipt, promise) else None
        if call.outcome is not None and leaves is not None and leaves.receipt.asked == call.outcome.id:
            call.outcome = None  # the question what became of the act outlives the call
        withdrawn = questions.withdrawn(call, now)
        call.forget()
        if call.state == "acting" and not call.begun:
            calls.carry(entries.never_begun(held, call, now))
            self._acts.call_off(held, call)
        elif call.state != "abandoned":
            if leaves is not None:
                # The run may end now, and its worker die: then nobody would ever record that the outcome is unknown.
                calls.carry(leaves)
                call.receipt = leaves.receipt
            calls.move(call, "abandoned")
        return list(map(Attached, withdrawn))


def left_calls(held: Held, calls: RunCalls) -> list[Request]:
    """The calls of which something is open here, an attempt or a task, although their run waits for them no more.

    Most are abandoned by the run itself. One whose retry was due in the turn that cancelled it never was asked for
    by this turn, so it is not; and a run may end with calls under way.
    """
    if held.live.ended:
        left = [call for call in calls.calls.values() if call.is_open or call.state in ("acting", "probing")]
    else:
        left = [call for call in calls.resting() if call.is_open]
        if left:
            awaited = {wait.position for wait in held.live.waits() if wait.kind == ACTION}
            left = [call for call in left if call.promise.path[-1] not in awaited]
    return [Abandon(call.promise, ACTION, None) for call in sorted(left, key=lambda call: call.promise.path)]
