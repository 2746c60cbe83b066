"""``ask``: a workflow asks people, with a form, and waits for the answer.

The form is the JSON Schema of the type that the answer is read as. An answer may fit the schema and not the type: the
type's own validator refuses it, or the type has changed since. Then the question is asked again, and the new task shows
the reason.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import cbor2
import msgspec

from holdfast.errors import InvalidFunction, InvalidRequest
from holdfast.journal.forms import FORM
from holdfast.journal.payload import ONCE, Payload
from holdfast.people.names import NAME, is_name
from holdfast.programs.function.decorators import current
from holdfast.programs.function.values import encode, read_foreign
from holdfast.store.governance import Escalation
from holdfast.tasks import questions
from holdfast.tasks.forms import check_form

T = TypeVar("T")


async def ask(
    title: str,
    kind: type[T],
    /,
    *,
    show: Mapping[str, object] | None = None,
    candidates: Sequence[str] = (),
    groups: Sequence[str] = (),
    exclude: Sequence[str] = (),
    due: datetime.timedelta | None = None,
    remind: datetime.timedelta | Sequence[datetime.timedelta] = (),
    escalate: Mapping[str, Sequence[str]] | None = None,
    expire: datetime.timedelta | None = None,
) -> T:
    """Ask people to fill in a form, and give the answer as ``kind``: a msgspec struct, a dataclass, a pydantic model.

    ``show`` is data that they see beside the form. ``candidates`` (names or patterns) and ``groups`` may answer;
    without either everybody may. Nobody in ``exclude`` may. All times count from now: people are reminded at each of
    ``remind``. After ``due``, those of ``escalate`` (``{"groups": […], "candidates": […]}``) may answer as well. After
    ``expire``, TaskExpired is raised, which is a TimeoutError.
    """
    loop, program = current("ask()")
    if not title.strip() or len(title) > 200:
        raise InvalidRequest(f"ask() needs a title of 1 to 200 characters, not {title!r:.60}")
    typed: Any = kind
    question = questions.Question(
        schema_of(typed),
        _names(candidates, "candidates"),
        _names(groups, "groups"),
        _names(exclude, "exclude"),
        _microseconds(due, "due"),
        _reminders(remind),
        _escalation(escalate, due),
        _microseconds(expire, "expire"),
    )
    shown = cbor2.loads(encode(dict(show or {}), f"what {title!r} shows").data)
    while True:
        promise = loop.scribe.invoke(FORM, title, questions.write(shown, question), ONCE)
        answer = await program.value(promise, f"form {title!r}")
        try:
            return read_answer(answer, kind)
        except (msgspec.ValidationError, ValueError) as error:  # the answer fits the schema but not the type
            question = msgspec.structs.replace(question, problem=str(error))


@lru_cache(maxsize=512)
def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON Schema of a type; callers must not change it. Raises InvalidFunction where no answer can be checked by
    it."""
    own = getattr(kind, "model_json_schema", None)
    try:
        schema: dict[str, Any] = own() if callable(own) else msgspec.json.schema(kind)
        check_form(schema)
    except Exception as error:
        raise InvalidFunction(
            f"{kind!r} cannot be a form ({error}): use a msgspec.Struct, a dataclass or a pydantic model of plain data."
        ) from error
    return schema


def read_answer(answer: Payload, kind: type[T]) -> T:
    """An answer, which is JSON, as its type. Raises the errors of msgspec and of the type's own validator."""
    return msgspec.convert(cbor2.loads(answer.data), kind, dec_hook=read_foreign)


def _names(names: Iterable[str], what: str) -> tuple[str, ...]:
    people = (names,) if isinstance(names, str) else tuple(names)
    for name in people:
        if not is_name(name):
            raise InvalidRequest(f"ask(): each of {what} is {NAME}, not {name!a:.60}")
    return people


def _microseconds(span: datetime.timedelta | None, what: str) -> int | None:
    if span is None:
        return None
    if span <= datetime.timedelta(0):
        raise InvalidRequest(f"ask(): {what} is a timedelta of more than nothing, not {span!r}")
    return span // datetime.timedelta(microseconds=1)


def _reminders(remind: datetime.timedelta | Sequence[datetime.timedelta]) -> tuple[int, ...]:
    spans = (remind,) if isinstance(remind, datetime.timedelta) else tuple(remind)
    return tuple(sorted({_microseconds(span, "remind") or 0 for span in spans}))


def _escalation(escalate: Mapping[str, Sequence[str]] | None, due: datetime.timedelta | None) -> Escalation | None:
    if escalate is None:
        return None
    if due is None or not escalate or not escalate.keys() <= {"candidates", "groups"}:
        raise InvalidRequest('ask(): escalate is {"groups": […], "candidates": […]} or one of them, and goes with due=')
    return Escalation(
        _names(escalate.get("candidates", ()), "escalate"), _names(escalate.get("groups", ()), "escalate")
    )
