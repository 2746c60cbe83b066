"""Forms, and the check whether an answer fits one.

A form is a JSON Schema, and an answer is JSON. What an answer leaves out gets the form's default. Every problem of an
answer has its place, a JSON pointer. A question has one hash, over its title, its form and the shown values. The task
has that hash, and so has each entry of the audit about the task.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import cbor2

from holdfast.errors import InvalidAnswer, InvalidRequest
from holdfast.expressions.engine import CannotEvaluate, InvalidExpression
from holdfast.expressions.expression import Expression
from holdfast.expressions.shapes import DYN
from holdfast.journal.cbor import canonical
from holdfast.store.governance import TaskRow
from holdfast.tasks.fields import Holds, Schema, answerable, is_file, with_defaults


def digest(title: str, form: bytes, shown: bytes) -> bytes:
    """The hash of a question: an answer is to exactly this question."""
    return hashlib.sha256(canonical(["holdfast.form.1", title, form, shown])).digest()


def check_answer(task: TaskRow, value: Any) -> None:
    """Raises InvalidAnswer, with every problem, where the value does not fit the task's form."""
    if task.kind != "form":
        raise InvalidRequest(f"task {task.id} is an {task.kind}, and has no form to complete")
    found = form_problems(cbor2.loads(task.form), value) or cross_problems(cbor2.loads(task.details), value)
    refuse(task, found)


def refuse(task: TaskRow, found: list[tuple[str, str]]) -> None:
    """Raises InvalidAnswer where an answer has problems."""
    if found:
        text = "; ".join(f"{place or '/'}: {problem}" for place, problem in found)
        raise InvalidAnswer(f"the answer does not fit the form of task {task.id}, which stays open. {text}", found)


def filled(form: Schema, value: Any) -> Any:
    """An answer with the form's defaults for what it leaves out."""
    return with_defaults(value, form, form, holds_in(form))


def holds_in(form: Schema) -> Holds:
    """Whether a value fits a part of this form. A part that cannot be read holds for nothing."""
    import jsonschema_rs

    named = {name: form[name] for name in ("$defs", "definitions") if name in form}

    def holds(schema: Schema, value: Any) -> bool:
        try:
            whole = answerable({**named, **schema} if isinstance(schema, dict) else schema)
            return jsonschema_rs.validator_for(whole, retriever=_no_retriever, validate_formats=True).is_valid(value)
        except (ValueError, TypeError):
            return False

    return holds


def form_problems(form: Schema, value: Any) -> list[tuple[str, str]]:
    """The problems of an answer by its form alone. A field for a file wants a file."""
    found = []
    for place, problem, path in _errors(answerable(form), value):
        field = _file_field(form, path)
        found.append((place, problem) if field is None else _file_problem(field, place))
    return sorted(set(found))


def _file_field(form: Any, path: Iterable[str | int]) -> Schema | None:
    """The field for a file that a place in the schema is in."""
    for part in path:
        if is_file(form):
            break
        try:
            form = form[part]
        except (LookupError, TypeError):
            return None
    return form if is_file(form) else None


def _file_problem(field: Schema, place: str) -> tuple[str, str]:
    media = field.get("contentMediaType")
    for member in ("name", "type", "size", "sha256"):
        place = place.removesuffix(f"/{member}")
    return place, f"this is a file{f' of type {media}' if media else ''}: give one, by its path or its bytes"


def problems(schema: dict[str, Any], value: Any) -> list[tuple[str, str]]:
    """The problems of a value, each with its JSON pointer (empty for the whole), in the order of their places."""
    return sorted({(place, problem) for place, problem, _ in _errors(schema, value)})


def _errors(schema: Any, value: Any) -> list[tuple[str, str, list[str | int]]]:
    """The problems of a value, each with its JSON pointer and its place in the schema."""
    import jsonschema_rs  # loaded only where a form is answered

    validator = jsonschema_rs.validator_for(schema, retriever=_no_retriever, validate_formats=True)
    return [(_pointer(error.instance_path), error.message, error.schema_path) for error in validator.iter_errors(value)]


def cross_problems(details: Mapping[str, Any], value: Any) -> list[tuple[str, str]]:
    """What the checks of a task say of an answer that fits its form, each with its JSON pointer."""
    found = []
    facts = {**details.get("facts", {}), "payload": value}
    for check in details.get("checks", ()):
        try:
            if (
                Expression(check["when"], dict.fromkeys(facts, DYN), lazily=True, at_once=True).evaluate(facts)
                is not False
            ):
                found.append((check.get("at", ""), check["say"]))
        except (CannotEvaluate, InvalidExpression) as error:
            found.append((check.get("at", ""), f"it cannot be checked ({check['when']}): {error}"))
    return found


def check_form(schema: dict[str, Any]) -> None:
    """Raises InvalidRequest where it is no JSON Schema by which answers can be checked."""
    import jsonschema_rs  # loaded only where a form is asked

    try:
        jsonschema_rs.validator_for(answerable(schema), retriever=_no_retriever)
    except (ValueError, TypeError) as error:
        raise InvalidRequest(f"the form is no JSON Schema: {str(error).splitlines()[0]}") from error


def _pointer(path: list[str | int]) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _no_retriever(uri: str) -> NoReturn:
    raise ValueError(f"a form is complete in itself: it cannot refer to {uri}")
