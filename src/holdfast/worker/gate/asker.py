"""The asker: it keeps the forms of held runs.

The task is made in the commit of the turn that asks. Its answer comes through the inbox, and settles the promise once
the audit is known to record it: an answer that no entry records is no answer. Reminders, escalation and expiry are
changes of the task from the version that is known here; where somebody changed it first, the store is looked at again.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from holdfast.audit import task_changes
from holdfast.audit.check.task_accounts import task_problem
from holdfast.audit.collector import asked_of
from holdfast.errors import StoreCorrupt
from holdfast.gate.form_calls import FormCall, FormCalls
from holdfast.journal.attribution import given_by
from holdfast.journal.forms import FORM
from holdfast.journal.payload import Err, Failure, Ok, Outcome, Payload
from holdfast.journal.promise import PromiseId
from holdfast.kernel.requests import Abandon, Invoke, Request
from holdfast.store import protocol as p
from holdfast.store.patience import patiently
from holdfast.tasks import questions
from holdfast.tasks.answers import is_expired
from holdfast.tasks.timers import elapse
from holdfast.worker.attached import Attached
from holdfast.worker.gate.settler import Settler
from holdfast.worker.held import Held

_REMEDY: Final = "find out who changed it (`holdfast audit verify`), mend it or restore a backup, then resume the run."


class Asker:
    """Asks people what workflows ask of them, and brings the answers back."""

    def __init__(self, store: p.Store, settler: Settler) -> None:
        self._store = store
        self._settler = settler

    def due(self, held: Held, now: int) -> list[Request]:
        """The forms to be judged now: answered, or time has something to do; and those that nobody waits for."""
        forms = _forms(held)
        found: list[Request] = []
        for promise, call in list(forms.calls.items()):
            request = None if held.live.ended else held.live.request_of(promise)
            time = call.next_time()
            if request is None:
                found.append(Abandon(promise, FORM, None))
            elif call.is_due or (time is not None and time <= now):
                found.append(request)
        return found

    def reads_answers(self, held: Held) -> bool:
        """Whether answers are being read that the run must have before its next turn: look at those that are new.

        A timer that is due in the same turn would otherwise win against an answer that was given before it.
        """
        forms = _forms(held)
        for promise, call in forms.calls.items():
            if call.is_answered and (request := held.live.request_of(promise)) is not None:
                self._look(held, request, call)
        return any(call.state == "looking" for call in forms.calls.values())

    def judge(self, held: Held, request: Invoke, now: int) -> list[Attached]:
        """What to commit about a form, and what to do then; nothing where it waits. Raises StoreCorrupt."""
        call = _forms(held).calls.get(request.promise_id)
        if call is None:
            return self._ask(held, request, now)
        if call.state == "refuted":
            raise StoreCorrupt(f"{call.problem} Nothing is done because of it: {_REMEDY}")
        if call.state != "waits":
            return []
        if call.task.status != "requested":
            self._look(held, request, call)
            return []
        if is_expired(call.task, now):
            call.move("change")
            change = task_changes.expired(call.task, now)
            return [Attached(change, partial(self._expired, held, request, call))]
        if (next_version := elapse(call.task, now)) is not None:
            call.move("change")
            changed = task_changes.put(*next_version, now)
            return [Attached(changed, partial(self._changed, held, request, call, changed.task))]
        return []

    def abandon(self, held: Held, promise: PromiseId, now: int) -> list[Attached]:
        """Nobody waits for a form any more: its task is closed, so that nobody is asked in vain."""
        call = _forms(held).calls.pop(promise, None)
        if call is None or call.task.status != "requested":
            return []
        return [Attached(task_changes.cancelled(call.task, now))]

    def _ask(self, held: Held, request: Invoke, now: int) -> list[Attached]:
        row, promise = held.row, request.promise_id
        asker = questions.AskingRun(
            row.key.tenant,
            row.key.run,
            held.generation,
            promise.root,
            promise.path[-1],
            str(promise),
            row.workflow,
            row.actor,
            f"{held.epoch}.{now}",
            held.present_reference,
        )
        task = questions.task_of(asker, request.function_name, request.input, now)
        _forms(held).learn(task)
        return [Attached(task_changes.put(task, "requested", now))]

    def _expired(self, held: Held, request: Invoke, call: FormCall, answer: p.Answer | None) -> None:
        if isinstance(answer, p.Tasked):
            self._settle(held, request, call, Err(_expiry(call.task)))
        else:  # somebody answered, or claimed it, at the last moment
            self._look(held, request, call)

    def _changed(self, held: Held, request: Invoke, call: FormCall, task: p.TaskRow, answer: p.Answer | None) -> None:
        if not isinstance(answer, p.Tasked):
            self._look(held, request, call)
            return
        call.move("changed")
        if task.version > call.task.version:
            call.task = task
        self._settler.give_turn(held)  # the run is handed back, with the next time at which it wants to be woken

    def _look(self, held: Held, request: Invoke, call: FormCall) -> None:
        call.move("look")
        if not held.dropped:
            self._settler.background(self._look_again(held, request, call))

    async def _look_again(self, held: Held, request: Invoke, call: FormCall) -> None:
        """Read what the store knows by now. Where the task is closed, ask the audit, which was written with it."""
        id = call.task.id
        task = await patiently(partial(self._store.task, held.key.tenant, id))
        closed = task is not None and task.status != "requested"
        entries = await patiently(partial(asked_of, self._store, held.key.tenant, [id])) if closed else {}
        if held.dropped or _forms(held).calls.get(call.promise) is not call:
            return
        if task is None:
            call.problem = f"task {id}: it is gone."
        elif closed:
            call.problem = task_problem(task, entries[id]) or ""
        if call.problem:
            call.move("refute")
            self._settler.give_turn(held)
        elif task is not None and closed:
            call.task = task
            self._settle(held, request, call, _outcome(task))
        elif task is not None:
            call.task = task
            call.move("seen")
            self._settler.give_turn(held)

    def _settle(self, held: Held, request: Invoke, call: FormCall, outcome: Outcome) -> None:
        call.move("settle")
        self._settler.bring(held, request, outcome)


def _forms(held: Held) -> FormCalls:
    return held.gate_of_run().forms


def _outcome(task: p.TaskRow) -> Outcome:
    """What a closed task means to its call."""
    if task.status == "completed":
        answer = task.answers[-1]
        return Ok(given_by(Payload(answer.value or b"\xf6"), answer.who))
    return Err(_expiry(task))


def _expiry(task: p.TaskRow) -> Failure:
    return Failure("holdfast.errors:TaskExpired", f"nobody answered {task.summary!r} (task {task.id}) in time")
