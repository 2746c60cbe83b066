"""What an instance did, in the words of the model of templates: a fold over its journal, and nothing else.

=================  ===============================  ==================================
action             recorded as                      the step is then
=================  ===============================  ==================================
execute_step       ``InvokeScheduled``              running
fail_step          ``InvokeRetrying``               retrying, until the retry's time
retry_step         the retry's time                 pending, and executed at once
complete_step      ``InvokeCompleted``, a result    success
fail_step          ``InvokeCompleted``, an error    failed
complete_workflow  ``ExecutionCompleted``
fail_workflow      ``ExecutionFailed``              as it was
cancel_workflow    ``CancelRequested``              as it was
=================  ===============================  ==================================

A node without a call (a wait, an assignment, a loop) is executed when it begins, and completed or failed when it is
over. One that is cancelled, as the loser of a race is, is skipped. An instance is cancelled from the request on: what
its steps do after that is clean-up, and no action of it. Calls that undo others are no steps.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from holdfast.audit.records import StoryAction
from holdfast.journal import events as e
from holdfast.journal.payload import CONTINUED, Err, Payload
from holdfast.journal.promise import PromiseId
from holdfast.runs.kinds.detached import DETACHED
from holdfast.runs.kinds.signal import SIGNAL
from holdfast.templates.node_calls import NodeCalls, NodePass
from holdfast.templates.steps import StepPlan

PlannedState = Literal["pending", "running", "retrying", "success", "failed", "skipped"]

_SENT: Final = frozenset({DETACHED, SIGNAL})

STARTS: Final = ("start_workflow", "trigger_scheduled")
"""The actions that begin an instance."""


class StepStanding(msgspec.Struct):
    """Where a step stands. ``retries`` counts its failed attempts."""

    state: PlannedState = "pending"
    retries: int = 0
    since: int | None = None


class Story(msgspec.Struct):
    """The actions of one journal in order, and where its steps stand."""

    actions: list[StoryAction]
    steps: dict[str, StepStanding]
    ended: bool = False
    cancelled: bool = False
    continued: bool = False  # it goes on in the next generation


def story_of(entries: Iterable[e.Entry], calls: NodeCalls, now: int, first: int = 0, generation: int = 0) -> Story:
    """The story of a journal at this time. ``calls`` says which steps its calls belong to, and what others did.

    Entries before ``first`` belong to an earlier generation: they count for the steps, and give no actions.
    """
    fold = _StoryFold(calls, first, generation)
    for entry in entries:
        fold.take(entry)
        if fold.story.cancelled or fold.story.ended:
            break
    else:
        fold.note_passes()
        fold.pass_to(now)
    return fold.story


class _StoryFold:
    def __init__(self, calls: NodeCalls, first: int, generation: int) -> None:
        self._generation = generation
        self.story = Story([], {})
        self._names = calls.steps
        self._passes = deque(calls.passes)
        self._dropped: dict[str, tuple[PlannedState, int | None]] = {}  # what was cancelled, as it stood
        self._at = 0
        self._first = first
        self._is_earlier = False
        self._steps: dict[PromiseId, str] = {}
        self._due: list[tuple[int, str]] = []
        self._attempts: dict[str, int] = {}

    def take(self, entry: e.Entry) -> None:
        at, event = entry.timestamp, entry.event
        self.note_passes(entry.sequence)
        self._at = at
        if self._is_earlier and entry.sequence >= self._first:
            self._go_on(at)
        self._is_earlier = entry.sequence < self._first
        self.pass_to(at)
        match event:
            case e.InvokeScheduled(promise_id=promise, undoes=None) if promise.path[-1] in self._names:
                if event.kind not in _SENT:
                    self._execute(promise, at)
            case e.InvokeStarted(promise_id=promise) if promise in self._steps:
                self._retry(self._steps[promise], at)
            case e.InvokeRetrying(promise_id=promise, retry_at=retry_at) if promise in self._steps:
                self._retry(self._steps[promise], at)
                self._fail(self._steps[promise], at, "retrying")
                heapq.heappush(self._due, (retry_at, self._steps[promise]))
            case e.InvokeCompleted(promise_id=promise, result=result) if promise in self._steps:
                self._complete(self._steps.pop(promise), isinstance(result, Err), at)
            case e.CancelRequested(reason=reason):
                self._tell("cancel_workflow", at, reason=reason)
                self.story.cancelled = True
            case e.ExecutionCompleted(result=Payload(codec=codec)):
                self.story.ended, self.story.continued = True, codec == CONTINUED
                if codec != CONTINUED:
                    self._tell("complete_workflow", at)
            case e.ExecutionFailed():
                for step, (state, since) in self._dropped.items():
                    self.story.steps[step].state, self.story.steps[step].since = state, since
                self._tell("fail_workflow", at)
                self.story.ended = True
            case e.ExecutionCancelled(reason=reason):
                self._tell("cancel_workflow", at, reason=reason)
                self.story.ended = self.story.cancelled = True
            case _:
                return

    def note_passes(self, version: int | None = None) -> None:
        """What nodes did without a call until the journal had so many events, or until its end."""
        while self._passes and (version is None or self._passes[0].version <= version):
            self._pass(self._passes.popleft())

    def _pass(self, found: NodePass) -> None:
        step, at = found.step, self._at
        standing = self._standing(step)
        if found.event == "dropped":
            self._dropped[step] = standing.state, standing.since
            standing.state, standing.since = "skipped", at
            return
        self._dropped.pop(step, None)
        if standing.state == "retrying":
            self._tell("retry_step", at, step)
        if standing.state != "running":
            self._run(step, standing, at)
        if found.event == "done":
            standing.state, standing.since = "success", at
            self._tell("complete_step", at, step)
        elif found.event != "begun":
            self._fail(step, at, found.event)

    def _go_on(self, at: int) -> None:
        """A retried run does again what its copied journal leaves open."""
        self._is_earlier = False
        for step, standing in self.story.steps.items():
            if standing.state == "running":
                self._tell("execute_step", at, step)

    def pass_to(self, now: int) -> None:
        """Retries whose time has come are under way."""
        while self._due and self._due[0][0] <= now:
            at, step = heapq.heappop(self._due)
            self._retry(step, at)

    def _tell(self, action: str, at: int, step: str = "", reason: str = "") -> None:
        if not self._is_earlier:
            attempt = self._attempts.get(step, 0)
            self.story.actions.append(StoryAction(action, at, step, attempt, reason, self._generation))

    def _standing(self, step: str) -> StepStanding:
        return self.story.steps.setdefault(step, StepStanding())

    def _execute(self, promise: PromiseId, at: int) -> None:
        step = self._steps[promise] = self._names[promise.path[-1]]
        standing = self._standing(step)
        if standing.state == "failed":  # its node tries it once more, by another call
            self._tell("retry_step", at, step)
        self._run(step, standing, at)

    def _run(self, step: str, standing: StepStanding, at: int) -> None:
        self._attempts[step] = standing.retries + 1
        standing.state, standing.since = "running", at
        self._tell("execute_step", at, step)

    def _retry(self, step: str, at: int) -> None:
        standing = self._standing(step)
        if standing.state == "retrying":
            self._tell("retry_step", at, step)
            self._run(step, standing, at)

    def _fail(self, step: str, at: int, state: PlannedState) -> None:
        standing = self._standing(step)
        standing.retries += 1
        standing.state, standing.since = state, at
        self._tell("fail_step", at, step)

    def _complete(self, step: str, failed: bool, at: int) -> None:
        self._retry(step, at)
        if failed:
            self._fail(step, at, "failed")
            return
        standing = self._standing(step)
        standing.state, standing.since = "success", at
        self._tell("complete_step", at, step)


def until_cancelled(entries: Sequence[e.Entry]) -> Sequence[e.Entry]:
    """The journal of an instance until it was cancelled: what follows is clean-up."""
    for index, entry in enumerate(entries):
        if isinstance(entry.event, e.CancelRequested):
            return entries[:index]
    return entries


def standings_of(
    plans: Sequence[StepPlan], story: Story, skipped: Iterable[str] = (), *, completed: bool
) -> dict[str, StepStanding]:
    """Where all steps stand, those that were never begun too. ``skipped`` are nodes that the run passed over."""
    passed = set(skipped)
    found: dict[str, StepStanding] = {}
    for name in [plan.name for plan in plans] + list(story.steps):
        standing = story.steps.get(name)
        if name in passed and (standing is None or standing.state == "failed"):
            found[name] = StepStanding("skipped", 0 if standing is None else standing.retries)
        elif standing is None:
            found[name] = StepStanding("skipped" if completed else "pending")
        else:
            found[name] = standing
    return found
