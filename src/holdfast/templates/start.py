"""The start of a template's instance: the run to be born, and the condition under which it may be.

Whoever starts an instance (a person, a schedule, an event) puts both into one ``Operate`` with the audit's note. So a
template that was paused, archived or changed meanwhile starts nothing, and the start is judged anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from holdfast.errors import InvalidArguments
from holdfast.journal.payload import Payload
from holdfast.programs.definition.model import Definition
from holdfast.programs.definition.schema_values import start_problems
from holdfast.programs.function.decorators import Workflow
from holdfast.programs.function.values import encode
from holdfast.runs.birth import Birth, Pin, Trigger, check_id, origin_of
from holdfast.runs.program_names import DEFINITION
from holdfast.store import protocol as p
from holdfast.templates.template import (
    MANUAL,
    TEMPLATE,
    TEMPLATE_OWNER,
    TEMPLATE_VERSION,
    Template,
    TemplateProgram,
    check_active,
    read_template,
)


class InstanceStart(NamedTuple):
    """What starts an instance: ``(*conditions, start.expect, start.change)`` are the changes of its ``Operate``."""

    birth: Birth
    expect: p.ExpectItem
    change: p.Start


def instance_start(
    row: p.ItemRow,
    input: Any,
    run: str,
    trigger: Trigger | None,
    workspace: str,
    actor: str | None,
    now: int,
    *,
    functions: Mapping[str, Workflow[..., Any]] | None = None,
    definition: Definition | None = None,
    priority: int = 0,
    attributes: Mapping[str, str] = {},
) -> InstanceStart:
    """The start of an instance of the template that ``row`` is, with this run id.

    ``input`` is laid over the template's own: maps member by member, anything else replaces it. ``functions`` are the
    Python workflows that are known here, and ``definition`` is the template's, where it is at hand: with them the input
    is checked now, else the run checks it when it begins. Raises TemplateConflict where the template is not active,
    InvalidArguments where the input does not fit, and InvalidRequest.
    """
    check_active(row)
    template = read_template(row)
    given = laid_over(template.input, input)
    pin, payload = _call(template.program, given, functions or {}, definition)
    birth = Birth(
        key=p.Key(row.tenant, check_id(run, "the id")),
        workflow=template.program.name,
        pin=pin,
        input=payload,
        priority=priority,
        attributes={**attributes, **instance_attributes(row.id, template, trigger)},
        origin=origin_of(workspace, actor, trigger),
    )
    return InstanceStart(birth, p.ExpectItem(row.key, row.version), birth.start(now))


def instance_attributes(id: str, template: Template, trigger: Trigger | None) -> dict[str, str]:
    """The attributes by which an instance is known as one. What no person starts has the template's owner: they decided
    what it does, so they may not approve what it asks at tier high."""
    known = {TEMPLATE: id, TEMPLATE_VERSION: str(template.version)}
    if template.owner is None or trigger is None or trigger.type == MANUAL:
        return known
    return {**known, TEMPLATE_OWNER: template.owner}


def laid_over(default: Any, input: Any) -> Any:
    """The input of a start over the template's own."""
    if input is None:
        return default
    if isinstance(default, Mapping) and isinstance(input, Mapping):
        return {**default, **input}
    return input


def _call(
    program: TemplateProgram, input: Any, functions: Mapping[str, Workflow[..., Any]], definition: Definition | None
) -> tuple[Pin, Payload]:
    """The pin, and the recorded input. Raises InvalidArguments."""
    what = f"the input of {program.name}"
    if program.is_definition:
        start = {} if input is None else input
        if definition is not None and (wrong := start_problems(definition.start, start)):
            text = "; ".join(f"{place or '/'}: {problem}" for place, problem in wrong)
            raise InvalidArguments(f"{program} cannot be started with this: {text}")
        return Pin(DEFINITION, program.digest, bytes.fromhex(program.digest)), encode([[start], {}], what)
    args, kwargs = called_with(input)
    known = functions.get(program.name)
    if known is None:
        return Pin(), encode([args, kwargs], what)
    return Pin(digest=known.digest), known.signature.write_checked(args, kwargs)


def called_with(input: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a Python workflow: a map gives them by name, anything else is the only one."""
    if input is None:
        return (), {}
    if isinstance(input, Mapping) and all(isinstance(name, str) for name in input):
        return (), dict(input)
    return (msgspec.to_builtins(input) if isinstance(input, msgspec.Struct) else input,), {}
