"""The verb that asks people: a declared task, filled in and recorded as a form."""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.errors import InvalidRequest
from holdfast.expressions.engine import CannotEvaluate
from holdfast.journal.forms import FORM
from holdfast.journal.payload import ONCE, Outcome
from holdfast.people.names import NAME, is_name
from holdfast.programs.definition.interpreter.behaviour import Behaviour
from holdfast.programs.definition.interpreter.frames import Visit
from holdfast.programs.definition.interpreter.interpreter import Interpreter
from holdfast.programs.definition.model import Audience, Span, TaskDeclaration, TaskVerb, Value
from holdfast.store.governance import Escalation
from holdfast.tasks import questions
from holdfast.tasks.forms import check_form


class TaskAsks(Behaviour):
    """People answer with a form. The answer is the result, and ``payload`` from there on."""

    def begin(self, engine: Interpreter, visit: Visit, verb: TaskVerb) -> None:
        declared = engine.routine.definition.tasks[verb.task]
        engine.context.bind(visit, task=verb.task)
        asked = _Asked(engine, visit, {"input": engine.context.fill(visit, verb.arguments)})
        title = str(asked.fill(declared.title))[:200] or verb.task
        payload = questions.write(asked.fill(declared.show), _question(asked, declared))
        visit.memo["task"] = verb.task
        engine.call(visit, engine.scribe.invoke(FORM, title, payload, ONCE))

    def settled(self, engine: Interpreter, visit: Visit, verb: TaskVerb, outcome: Outcome | None) -> None:
        fine, value = engine.result_of(visit, outcome)
        if fine:
            engine.context.bind(visit, payload=value, result=value)
            engine.succeed(visit, value)


class _Asked(NamedTuple):
    """Who asks: the declaration's expressions see what the visit sees, and the ``names`` that it gives."""

    engine: Interpreter
    visit: Visit
    names: dict[str, Any]

    def fill(self, value: Value) -> Any:
        return self.engine.context.fill(self.visit, value, **self.names)

    def span(self, span: Span | None) -> int | None:
        return None if span is None else self.engine.context.span(self.visit, span, **self.names)


def _question(asked: _Asked, declared: TaskDeclaration) -> questions.Question:
    groups, users, excluded = _people(asked, declared.audience)
    times = declared.deadlines
    escalate = None
    if times.escalate is not None:
        more, who, _ = _people(asked, times.escalate)
        escalate = Escalation(who, more)
    checks = tuple(questions.AnswerCheck(check.when, check.say, check.at) for check in declared.check)
    return questions.Question(
        checks=checks,
        facts=asked.engine.context.facts(asked.visit, [check.when for check in checks], asked.names),
        form=_form(asked, declared),
        candidates=users,
        groups=groups,
        excluded=excluded,
        due=asked.span(times.due),
        remind=tuple(sorted(span for span in map(asked.span, times.remind) if span is not None)),
        escalate=escalate,
        expire=asked.span(times.expire),
    )


def _form(asked: _Asked, declared: TaskDeclaration) -> dict[str, Any]:
    """The form as it is recorded, its expressions filled in: what state offered then is what is asked for ever."""
    form: dict[str, Any] = asked.fill(declared.form)
    if form is not declared.form:  # one without expressions was checked when the definition was accepted
        try:
            check_form(form)
        except InvalidRequest as error:
            raise CannotEvaluate(str(error)) from None
    return {"description": declared.description, **form} if declared.description else form


def _people(asked: _Asked, audience: Audience) -> tuple[tuple[str, ...], ...]:
    return tuple(_names(asked.fill(value)) for value in (audience.groups, audience.users, audience.exclude))


def _names(value: Any) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list | tuple):
        raise CannotEvaluate(f"people are a list of names, not {value!r:.60}")
    names = tuple(name for name in given if name is not None)
    for name in names:
        if not is_name(name):
            raise CannotEvaluate(f"each of the people is {NAME}, not {name!a:.60}")
    return names
