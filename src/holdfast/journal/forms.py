"""A form as the journal keeps it: an invocation of the kind ``form`` whose input is ``[[shown], terms]``.

The terms are the form itself, the people who may answer, and the time limit. They belong to the task that was made from
them. Newer code may ask with other terms: a replayed call is the same call if its title and the shown data are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import cbor2

from holdfast.journal.payload import Payload

FORM: Final = "form"


def is_same_form(one: Payload, other: Payload) -> bool:
    """Whether two recorded questions show the same."""
    if one.blob is not None or other.blob is not None:
        return one == other
    is_same: bool = cbor2.loads(one.data)[0] == cbor2.loads(other.data)[0]
    return is_same


def described(question: Payload) -> str | None:
    """A recorded question as people read it: what it asks for, of whom, and what it shows; None where it cannot be
    read here."""
    if question.blob is not None:
        return None
    try:
        (shown,), terms = cbor2.loads(question.data)
        asked = ", ".join(_field(str(name), field) for name, field in terms["form"].get("properties", {}).items())
        people = [f"group {name}" for name in terms.get("groups", ())] + list(terms.get("candidates", ()))
    except (cbor2.CBORError, ValueError, TypeError, KeyError, AttributeError):
        return None
    of = f", of {' or '.join(people)}" if people else ""
    text = f"asks for {asked or 'an answer'}{of}"
    return text if shown is None or shown == {} else f"{text}; shows {_shown(shown)}"


def _field(name: str, schema: Any) -> str:
    choices = schema.get("enum") if isinstance(schema, Mapping) else None
    return f"{name} ({' or '.join(map(str, choices))})" if isinstance(choices, list) and choices else name


def _shown(value: Any) -> str:
    return ", ".join(f"{name}={item!r}" for name, item in value.items()) if isinstance(value, dict) else repr(value)
