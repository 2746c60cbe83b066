"""The present beside a proposal: what an action's probe finds before somebody approves the action.

A probe reaches the outside world with the call's own arguments. So only who may approve the act may ask for it, it is
asked for on purpose and never by showing a task, and it has ten seconds. What it finds is shown to that person and kept
nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.client.governance.staff import answerer
from holdfast.client.people.permission import operation
from holdfast.client.views.values import plain
from holdfast.errors import InvalidRequest, TaskClosed, TaskNotFound
from holdfast.gate.effects import DidNotHappen, Effect, Happened, Intent, Performable, is_effect
from holdfast.journal import events as e
from holdfast.journal.promise import PromiseId
from holdfast.kernel.outstanding import Pending
from holdfast.kernel.requests import Invoke
from holdfast.runs import journals
from holdfast.store import protocol as p
from holdfast.tasks import answers
from holdfast.tasks.eligibility import APPROVED

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

LOOK_SECONDS: Final = 10.0
_READ: Final = 500


class PresentField(msgspec.Struct, frozen=True):
    """One value as it is now, and as the act would leave it. Either may be missing, and is then null."""

    name: str
    present: Any
    proposed: Any
    differs: bool


class PresentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe found. ``state`` is ``done`` where the act has happened already, with its ``result``.

    ``fields`` compare the present with the proposal, where the probe says what is there.
    """

    task: str
    proposal: str
    state: str  # done, not done or unknown
    result: Any = None
    fields: tuple[PresentField, ...] = ()


def has_probe(action: str) -> bool:
    """Whether an action is known in this process, and has a probe."""
    found = _known(action)
    return is_effect(found) and found.probe is not None


def _known(action: str) -> Performable | None:
    """The action, if it is known in this process. Who lists tasks need not load what workflows are written with."""
    from holdfast.programs.function.decorators import STEPS

    return STEPS.get(action)


class ProbedTasks:
    """The part of ``app.tasks`` that looks at the outside world."""

    _app: Holdfast

    @operation("tasks.answer")
    async def present(
        self, id: str, *, by: str | None = None, groups: Sequence[str] = (), tenant: str | None = None
    ) -> PresentInfo:
        """What the probe of the action that a task proposes finds now; ``groups`` are as in ``complete``.

        Only for who may approve it: raises as ``approve`` does. Raises InvalidRequest where the action has no probe in
        this process, and TaskClosed where the run asks something else by now.
        """
        app, tenant = self._app, self._app.tenant_of(tenant)
        task = await app.store.task(tenant, id)
        if task is None:
            raise TaskNotFound(f"there is no task {id!r} in tenant {tenant!r}: look with `holdfast tasks`.")
        who = await answerer(app, tenant, by, groups)
        answers.answer(task, who.name, APPROVED, "", app.clock.now(), None, who.groups)
        return await _present_of(app, task)


async def _present_of(app: Holdfast, task: p.TaskRow) -> PresentInfo:
    call = await _call(app, task)
    effect = _known(call.function_name)
    if not is_effect(effect) or effect.probe is None:
        raise InvalidRequest(f"action {call.function_name} has no probe in this process: nothing can be compared.")
    try:
        intent = effect.propose(call.input, call.name)
    except Exception as error:  # the author's types decide what fits
        problem = f"the arguments of task {task.id} do not fit action {call.function_name} as this process knows it."
        raise InvalidRequest(problem) from error
    if intent.proposal.digest() != task.proposal:
        raise TaskClosed(f"what task {task.id} asks has changed since you saw it: look at it again.")
    from holdfast.worker.outside_view import look

    key = p.Key(task.tenant, task.run)
    found = await look(app.store, app.clock, effect.probe, key, call, intent.proposal.key, LOOK_SECONDS)
    return _info(task, effect, intent, found)


async def _call(app: Holdfast, task: p.TaskRow) -> Invoke:
    """The call that the task is about, from its run's journal, which is read from its end on."""
    run = await journals.row_of(app.store, p.Key(task.tenant, task.run))
    if run.generation == task.generation and run.root == task.root:
        promise = PromiseId(task.root).child(task.position)
        for first in range(max(0, run.version - _READ), -_READ, -_READ):
            found: Invoke | None = None
            async for entry in journals.read(app.store, run, max(0, first)):
                if entry.sequence >= first + _READ:
                    break
                if isinstance(entry.event, e.InvokeScheduled) and entry.event.promise_id == promise:
                    found = Pending(entry.event, None, 0).request()
            if found is not None:
                return found
    raise TaskClosed(f"run {task.run} does not ask task {task.id} any more: look at the run.")


def _info(task: p.TaskRow, effect: Effect, intent: Intent, found: Happened | DidNotHappen | None) -> PresentInfo:
    def shown(value: Any) -> Any:
        return _scrubbed(effect, intent.arguments, plain(value))

    proposal = task.proposal.hex()
    match found:
        case Happened(value):
            return PresentInfo(task=task.id, proposal=proposal, state="done", result=shown(value))
        case DidNotHappen(present):
            there = shown({} if not isinstance(present, Mapping) else present)
            return PresentInfo(task=task.id, proposal=proposal, state="not done", fields=_compared(intent, there))
        case None:
            return PresentInfo(task=task.id, proposal=proposal, state="unknown")


def _compared(intent: Intent, present: dict[str, Any]) -> tuple[PresentField, ...]:
    """Each value that the probe named, beside the argument of that name."""
    proposed: dict[str, Any] = plain(intent.proposal.fields)
    return tuple(
        PresentField(name, value, proposed.get(name), name in proposed and proposed[name] != value)
        for name, value in present.items()
    )


def _scrubbed(effect: Effect, arguments: Mapping[str, Any], value: Any) -> Any:
    """A value without the secrets of the call that it may quote."""
    if isinstance(value, str):
        return effect.scrub_text(value, arguments)
    if isinstance(value, list):
        return [_scrubbed(effect, arguments, each) for each in value]
    if isinstance(value, dict):
        hidden = {name: "[secret]" for name in effect.secret_names if name in value}
        return {name: _scrubbed(effect, arguments, each) for name, each in value.items()} | hidden
    return value
