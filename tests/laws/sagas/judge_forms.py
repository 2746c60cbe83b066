"""The judge of forms (L7): it reads the tasks beside the journals, and what the program saw."""

from __future__ import annotations

from typing import Any

import cbor2

from holdfast.journal import events as e
from holdfast.journal.forms import FORM
from holdfast.journal.payload import Err, Ok, Outcome
from holdfast.journal.promise import PromiseId
from holdfast.store import protocol as p
from tests.laws.sagas.lives import Life
from tests.laws.sagas.violation import Violation

Asked = dict[PromiseId, str]
"""The forms of one generation: the title of each, by its promise."""


def judge_forms(run: str, lives: list[Life], tasks: list[p.TaskRow]) -> None:
    """Judge the forms of a run that has ended. Raises Violation."""
    for task in tasks:
        if task.status == "requested":
            raise Violation("L7", f"run {run} has ended, and people are still asked {task.summary!r}")
    for number, life in enumerate(lives):
        titles = _asked(life)
        places = _places(life)
        for promise, outcome in _settled(life, titles):
            _judge_outcome(run, titles[promise], outcome, _tasks_of(places[promise], number, tasks))
        _judge_notes(run, life, titles)


def judge_open_forms(run: str, life: Life, generation: int, tasks: list[p.TaskRow]) -> None:
    """A run at rest that nobody holds: each form that it waits for is open, once, and no other is."""
    titles = _asked(life)
    settled = {promise for promise, _ in _settled(life, titles)}
    open_ = [_promise(task) for task in tasks if task.status == "requested"]
    if len(open_) > len(set(open_)):
        raise Violation("L7", f"run {run} asks one form twice at once: {_shown(tasks)}")
    for promise, title in titles.items():
        mine = [task for task in _tasks_of(promise, generation, tasks) if task.generation == generation]
        if promise not in settled and any(task.status in ("completed", "expired") for task in mine):
            raise Violation("L7", f"run {run} does not get the outcome of {title!r}: {_shown(mine)}")
    for promise in open_:
        if promise not in titles or promise in settled:
            raise Violation("L7", f"run {run} does not ask {promise}, and people are asked: {_shown(tasks)}")


def _judge_outcome(run: str, title: str, outcome: Outcome, tasks: list[p.TaskRow]) -> None:
    """The outcome of a form is that of its task. A retried run keeps the outcome of an earlier generation."""
    if isinstance(outcome, Err):
        expired = [task for task in tasks if task.status == "expired"]
        if not outcome.failure.type.endswith(":TaskExpired") or not expired:
            raise Violation("L7", f"run {run}: {title!r} failed with {outcome.failure.type}: {_shown(tasks)}")
        return
    answers = [task.answers[-1].value for task in tasks if task.status == "completed"]
    if outcome.value.data not in answers:
        raise Violation("L7", f"run {run} was given an answer to {title!r} that nobody gave: {_shown(tasks)}")


def _judge_notes(run: str, life: Life, titles: Asked) -> None:
    """The program saw the outcome that the journal has."""
    words: dict[str, Any] = {}
    failed: set[str] = set()
    for promise, outcome in _settled(life, titles):
        if isinstance(outcome, Ok):
            words[titles[promise]] = cbor2.loads(outcome.value.data)["word"]
        else:
            failed.add(titles[promise])
    for note in life.notes:
        if note.what == "answered" and words.get(note.name) != note.value:
            raise Violation("L7", f"run {run} saw {note.value!r} for {note.name!r}, and not {words.get(note.name)!r}")
        if note.what == "unanswered" and note.value == "TaskExpired" and note.name not in failed:
            raise Violation("L7", f"run {run} saw {note.name!r} expire, and its journal does not say so")


def _asked(life: Life) -> Asked:
    found: Asked = {}
    for entry in life.entries:
        if isinstance(entry.event, e.InvokeScheduled) and entry.event.kind == FORM:
            found[entry.event.promise_id] = entry.event.function_name
    return found


def _places(life: Life) -> dict[PromiseId, PromiseId]:
    """The promises that forms were first asked under: a retried run may come to a form at another position."""
    calls = [entry.event for entry in life.entries if isinstance(entry.event, e.InvokeScheduled)]
    return {
        call.promise_id: PromiseId(call.promise_id.root, (*call.promise_id.path[:-1], call.key_place)) for call in calls
    }


def _settled(life: Life, titles: Asked) -> list[tuple[PromiseId, Outcome]]:
    return [
        (entry.event.promise_id, entry.event.result)
        for entry in life.entries
        if isinstance(entry.event, e.InvokeCompleted) and entry.event.promise_id in titles
    ]


def _tasks_of(promise: PromiseId, generation: int, tasks: list[p.TaskRow]) -> list[p.TaskRow]:
    return [task for task in tasks if _promise(task) == promise and task.generation <= generation]


def _promise(task: p.TaskRow) -> PromiseId:
    return PromiseId(task.root).child(task.position)


def _shown(tasks: list[p.TaskRow]) -> list[tuple[str, int, str]]:
    return [(task.summary, task.generation, task.status) for task in tasks]
