"""What a form asks, and which answers fit.

The form is a JSON Schema, and an answer is JSON. Where it does not fit, every problem is told with its place, a JSON
pointer. What is asked has one hash, over title, form and what is shown: the task carries it, and so does each entry of
the audit about it.
"""

from __future__ import annotations

import hashlib
from typing import Any, NoReturn

import cbor2

from holdfast.errors import InvalidAnswer, InvalidRequest
from holdfast.journal.cbor import canonical
from holdfast.store.governance import TaskRow


def digest(title: str, form: bytes, shown: bytes) -> bytes:
    """The hash of what a person is asked: an answer is over exactly this."""
    return hashlib.sha256(canonical(["holdfast.form.1", title, form, shown])).digest()


def check_answer(task: TaskRow, value: Any) -> None:
    """Raises InvalidAnswer, with all that is wrong, where the value does not fit the task's form."""
    if task.kind != "form":
        raise InvalidRequest(f"task {task.id} is an {task.kind}, and has no form to complete")
    found = problems(cbor2.loads(task.form), value)
    if found:
        told = "; ".join(f"{place or '/'}: {problem}" for place, problem in found)
        raise InvalidAnswer(f"the answer does not fit the form of task {task.id}, which stays open. {told}", found)


def problems(schema: dict[str, Any], value: Any) -> list[tuple[str, str]]:
    """What does not fit, each with its JSON pointer (empty for the whole), in the order of their places."""
    import jsonschema_rs  # only where a form is answered

    validator = jsonschema_rs.validator_for(schema, retriever=_no_retriever, validate_formats=True)
    found = [(_pointer(error.instance_path), error.message) for error in validator.iter_errors(value)]
    return sorted(set(found))


def check_form(schema: dict[str, Any]) -> None:
    """Raises InvalidRequest where it is no JSON Schema that answers could be held against."""
    import jsonschema_rs  # only where a form is asked

    try:
        jsonschema_rs.validator_for(schema, retriever=_no_retriever)
    except (ValueError, TypeError) as error:
        raise InvalidRequest(f"the form is no JSON Schema: {str(error).splitlines()[0]}") from error


def _pointer(path: list[str | int]) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _no_retriever(uri: str) -> NoReturn:
    raise ValueError(f"a form is complete in itself: it cannot refer to {uri}")
