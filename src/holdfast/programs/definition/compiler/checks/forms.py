"""The forms of a definition's tasks: that answers can be checked by them, and that their defaults would be accepted.

A form with expressions is checked when its task is made, because only then it is known.
"""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidRequest
from holdfast.programs.definition.compiler.faults import FaultList, Trail
from holdfast.programs.definition.interpreter.templates import expressions_in
from holdfast.tasks.forms import check_form, form_problems


def check_form_defaults(form: dict[str, Any], trail: Trail, faults: FaultList) -> None:
    """A form that is a JSON Schema can be used, and the defaults of its fields fit them."""
    if any(expressions_in(form)):
        return
    try:
        check_form(form)
    except InvalidRequest as error:
        faults.add(trail, str(error))
        return
    for name, field in form.get("properties", {}).items() if isinstance(form.get("properties"), dict) else ():
        if isinstance(field, dict) and "default" in field and (found := _misfits(form, field)):
            faults.add((*trail, "properties", name, "default"), f"the default does not fit its own field: {found}")


def _misfits(form: dict[str, Any], field: dict[str, Any]) -> str:
    named: dict[str, Any] = {name: form[name] for name in ("$defs", "definitions") if name in form}
    return "; ".join(problem for _, problem in form_problems({**named, **field}, field["default"]))
