"""Advice: why something does not move, as a code of a closed list, and what would move it.

``explain`` of runs and schedules and ``diagnose`` of cells give advice. Their sentences are written from it; no program
needs to read them. A code either names what somebody does, or that it passes without anybody, or that nothing is to
move. The codes are in one table, which the documentation repeats.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, Literal

import msgspec


class AdviceCode(enum.StrEnum):
    """The codes of advice. Each has its row in the table of ``docs/operations.md``."""

    APPROVE = "approve"
    ANSWER_FORM = "answer_form"
    ANSWER_OUTCOME = "answer_outcome"
    CANCEL_RUN = "cancel_run"
    SEND_SIGNAL = "send_signal"
    FOLLOW_CHILD = "follow_child"
    LEAVE_CHILDREN = "leave_children"
    RESUME = "resume"
    MEND_CODE = "mend_code"
    CHOOSE_RESULT = "choose_result"
    FIND_CRASH = "find_crash"
    VERIFY = "verify"
    FIT_MANIFEST = "fit_manifest"
    FINISH_MANIFEST = "finish_manifest"
    RELEASE_CELL = "release_cell"
    START_WORKER = "start_worker"
    SERVE_CODE = "serve_code"
    SERVE_QUEUE = "serve_queue"
    SERVE_STEP = "serve_step"
    RESUME_SCHEDULE = "resume_schedule"
    MEND_SCHEDULE = "mend_schedule"
    CORRECT_CLOCK = "correct_clock"
    REPEAT_LOST = "repeat_lost"

    AT_WORK = "at_work"
    WAIT_WORKER = "wait_worker"
    WAIT_PLACE = "wait_place"
    WAIT_FIT = "wait_fit"
    WAIT_TIME = "wait_time"
    WAIT_ATTEMPT = "wait_attempt"
    WAIT_CALL = "wait_call"
    WAIT_EVENTS = "wait_events"
    WAIT_SPLIT = "wait_split"
    WAIT_RUN = "wait_run"

    ENDED = "ended"
    AWAITS_EVENT = "awaits_event"
    EFFECT_FAILED = "effect_failed"
    MISSING = "missing"


class Meaning(msgspec.Struct, frozen=True):
    """The meaning of a code. ``sort`` is ``act`` where somebody does something, ``passes`` where it moves by itself,
    ``rests`` where nothing is to move. ``operation`` is what a person needs the level for; without one it is for
    those who run the workers."""

    sort: Literal["act", "passes", "rests"]
    words: str
    command: str = ""
    call: str = ""
    operation: str = ""


def _act(words: str, command: str, call: str = "", operation: str = "") -> Meaning:
    return Meaning("act", words, command, call, operation)


def _passes(words: str) -> Meaning:
    return Meaning("passes", words)


def _rests(words: str) -> Meaning:
    return Meaning("rests", words)


_WORKER: Final = "holdfast worker APP"
_DECIDE: Final = ("holdfast approve TASK", "tasks.approve(), tasks.reject()", "tasks.answer")
_FILL_IN: Final = ("holdfast tasks complete TASK", "tasks.complete()", "tasks.answer")
_SETTLE: Final = (
    "holdfast resolve TASK",
    "tasks.happened(), tasks.did_not_happen(), tasks.give_up()",
    "tasks.answer",
)
_SIGNAL: Final = ("holdfast signal RUN NAME VALUE", "run.signal()", "runs.signal")
_RESUME: Final = ("holdfast resume RUN", "run.resume()", "runs.resume")
_CHANGE: Final = ("holdfast schedules change SCHEDULE", "schedules.change()", "schedules.change")

MEANINGS: Final[Mapping[AdviceCode, Meaning]] = {
    AdviceCode.APPROVE: _act("it waits for a person to approve or reject an action", *_DECIDE),
    AdviceCode.ANSWER_FORM: _act("it waits for a person to answer a form", *_FILL_IN),
    AdviceCode.ANSWER_OUTCOME: _act("it waits for a person to say what became of an act", *_SETTLE),
    AdviceCode.CANCEL_RUN: _act(
        "none of those who are asked may answer: the run is cancelled, unless the time for an answer ends it",
        "holdfast cancel RUN",
        "run.cancel()",
        "runs.cancel",
    ),
    AdviceCode.SEND_SIGNAL: _act("it waits for a signal", *_SIGNAL),
    AdviceCode.FOLLOW_CHILD: _act(
        "it waits for another run: the advice for that is followed", "holdfast explain RUN", "run.advice()", "runs.see"
    ),
    AdviceCode.LEAVE_CHILDREN: _act(
        "the run waits for its children to end, and may be let end without them",
        "holdfast cancel RUN --leave-children",
        "run.cancel(leave_children=True)",
        "runs.cancel",
    ),
    AdviceCode.RESUME: _act("somebody paused it, and resumes it", *_RESUME),
    AdviceCode.MEND_CODE: _act(
        "its code is missing or at fault: it is mended and deployed, and the run resumed", *_RESUME
    ),
    AdviceCode.CHOOSE_RESULT: _act(
        "a retried run asks for something else than before: one says which result counts, or mends the code and "
        "resumes it",
        "holdfast retry RUN --again NAME",
        "run.retry(again=), run.retry(keep=), run.retry(new=True)",
        "runs.retry",
    ),
    AdviceCode.FIND_CRASH: _act("it ended too many workers: what ends them is mended, and it is resumed", *_RESUME),
    AdviceCode.VERIFY: _act(
        "its data is damaged, or the engine is at fault: it is checked, mended or restored, and resumed",
        "holdfast verify RUN",
        "run.verify()",
        "runs.see",
    ),
    AdviceCode.FIT_MANIFEST: _act(
        "no worker has the code of the manifest in force: one is started, or the present code's is applied",
        _WORKER,
    ),
    AdviceCode.FINISH_MANIFEST: _act(
        "a manifest is being applied: it ends at once, or it was interrupted and is applied again",
        "holdfast machines apply PROPOSAL",
        "machines.apply()",
        "manifests.apply",
    ),
    AdviceCode.RELEASE_CELL: _act(
        "the cell is parked: what failed is mended, and it is released",
        "holdfast cells release MACHINE KEY",
        "cell.release()",
        "machines.release",
    ),
    AdviceCode.START_WORKER: _act("no worker is running: one is started", _WORKER),
    AdviceCode.SERVE_CODE: _act("no running worker has its code: one that has it is started", _WORKER),
    AdviceCode.SERVE_QUEUE: _act(
        "no running worker serves the queue of a step, or has its code there: one that does is started",
        f"{_WORKER} --queues QUEUE=1",
    ),
    AdviceCode.SERVE_STEP: _act(
        "no running worker has a step that it calls: one that has it is started, and the run goes on by itself", _WORKER
    ),
    AdviceCode.RESUME_SCHEDULE: _act(
        "somebody paused the schedule, and resumes it",
        "holdfast schedules resume SCHEDULE",
        "schedules.resume()",
        "schedules.change",
    ),
    AdviceCode.MEND_SCHEDULE: _act(
        "nothing may start by the schedule as it is: it, its owner, its workspace or its template is changed", *_CHANGE
    ),
    AdviceCode.CORRECT_CLOCK: _act("the clocks of all workers are off: they are corrected", "holdfast doctor"),
    AdviceCode.REPEAT_LOST: _act(
        "a failover has lost a message or an answer that was acknowledged: it is sent again", "holdfast lost"
    ),
    AdviceCode.AT_WORK: _passes("a worker is at it"),
    AdviceCode.WAIT_WORKER: _passes("a running worker takes it up"),
    AdviceCode.WAIT_PLACE: _passes("a running worker takes it up when the caps of its tenant leave a place"),
    AdviceCode.WAIT_FIT: _passes("workers handed it back: one whose code fits takes it up, or it parks"),
    AdviceCode.WAIT_TIME: _passes("a timer fires, or a tick is due, at a known time"),
    AdviceCode.WAIT_ATTEMPT: _passes("a call is tried again at a known time"),
    AdviceCode.WAIT_CALL: _passes("a call is under way, or what came of it is on its way"),
    AdviceCode.WAIT_EVENTS: _passes("a worker handles the events of the cell's lane"),
    AdviceCode.WAIT_SPLIT: _passes("the lanes of the machine are being split: its lane gets its cells"),
    AdviceCode.WAIT_RUN: _passes("a tick waits until the run before it has ended"),
    AdviceCode.ENDED: _rests("it has ended"),
    AdviceCode.AWAITS_EVENT: _rests("the cell has handled everything and waits for its next event"),
    AdviceCode.EFFECT_FAILED: _rests("the cell was given an error of its effect, and asked for nothing since"),
    AdviceCode.MISSING: _rests("there is no such cell"),
}
"""What each code means, the command and the call that follow it, and the operation that they need."""


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """Why something does not move, and what would move it. ``thing`` is what is to be acted on: a task, a run, a queue,
    a cell's key, or what is waited for; ``more`` is what the act needs beside it, such as the name of a signal.
    ``command`` is the whole command, if there is one. ``run`` is whom it is said of, if that is another run than the
    one that was asked about."""

    code: AdviceCode
    sentence: str
    thing: str = ""
    more: str = ""
    command: str = ""
    run: str = ""

    @property
    def meaning(self) -> Meaning:
        return MEANINGS[self.code]


class Awaited(msgspec.Struct, frozen=True):
    """One thing that a run waits for: ``words`` follow "waiting for"."""

    code: AdviceCode
    words: str
    thing: str = ""
    more: str = ""
    command: str = ""
