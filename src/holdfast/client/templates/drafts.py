"""What an author says of a template: read, checked, and laid over what the template was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.client.people.permission import require_later
from holdfast.errors import InvalidRequest, WorkflowUnknown
from holdfast.programs.definition.compiler.batch import DefinitionSource
from holdfast.programs.function.decorators import Workflow
from holdfast.runs.birth import check_text
from holdfast.runs.program_names import DEFINITION
from holdfast.templates import template as t
from holdfast.templates.routes import check_route

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast


class TemplateDraft(NamedTuple):
    """What an author may say of a template. What is None stays as it was."""

    program: t.TemplateProgram | None
    name: str | None
    trigger: t.StartTrigger | None
    caps: t.TemplateCaps | None
    input: Any
    route: t.EventRoute | None

    def laid_over(self, template: t.Template) -> t.Template:
        """The template with what is said. A route is of a template that events start, and of no other."""
        given = {name: value for name, value in self._asdict().items() if value is not None}
        made = msgspec.structs.replace(template, **given)
        return made if made.trigger == "event" else msgspec.structs.replace(made, route=None)


async def read_draft(
    app: Holdfast,
    program: str | Workflow[..., Any] | None,
    source: DefinitionSource | None,
    name: str | None,
    trigger: t.StartTrigger | None,
    caps: t.TemplateCaps | None,
    input: object,
    route: t.EventRoute | None,
    check_uses: bool,
    tenant: str,
    by: str | None,
) -> TemplateDraft:
    """What the author says, checked. Raises InvalidRequest, WorkflowUnknown, and what publishing raises."""
    app.check_open()
    if trigger is not None and trigger not in t.TRIGGERS:
        raise InvalidRequest(f"a template's trigger is one of {', '.join(t.TRIGGERS)}, not {trigger!r:.60}")
    if name is not None and not check_text(name, "the template's name").strip():
        raise InvalidRequest("the template's name is empty")
    if route is not None:
        if trigger not in (None, "event"):
            raise InvalidRequest(f"a route is for the trigger event, and the trigger is {trigger}")
        route, trigger = check_route(route), "event"
    elif trigger == "event":
        raise InvalidRequest("a template of trigger event needs route=EventRoute(event, filter, input)")
    return TemplateDraft(
        await _program(app, program, source, check_uses, tenant, by),
        name,
        trigger,
        None if caps is None else _checked(caps),
        _json(input),
        route,
    )


async def _program(
    app: Holdfast,
    program: str | Workflow[..., Any] | None,
    source: DefinitionSource | None,
    check_uses: bool,
    tenant: str,
    by: str | None,
) -> t.TemplateProgram | None:
    """The program that is meant, pinned. Raises WorkflowUnknown, and what publishing raises."""
    if source is not None:
        if program is not None:
            raise InvalidRequest("give a program or a source= to be published, not both")
        await require_later(app, "a template with a definition of its own", ["definitions.publish"])
        info = await app.definitions.publish(source, tenant=tenant, by=by, check_uses=check_uses)
        return t.TemplateProgram(DEFINITION, info.name, info.version, info.digest)
    if program is None:
        return None
    if isinstance(program, Workflow):
        return t.function_program(program.name)
    published = await app.definitions.load(check_text(program, "the program"), tenant=tenant)
    if published is not None:
        return t.definition_program(published)
    if "@" not in program and (app.workflow_named(program) is not None or not check_uses):
        return t.function_program(program)
    raise WorkflowUnknown(
        f"no definition {program!r} is published in tenant {tenant!r}, and no workflow of that name is known here: "
        "publish the definition, or import the module of the workflow."
    )


def _checked(caps: t.TemplateCaps) -> t.TemplateCaps:
    try:
        return msgspec.convert(msgspec.to_builtins(caps), t.TemplateCaps)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"caps are TemplateCaps(…) with numbers from 0 to 1,000,000,000: {error}") from None


def _json(input: object) -> Any:
    """The input as JSON. Raises InvalidRequest."""
    try:
        return msgspec.json.decode(msgspec.json.encode(input))
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise InvalidRequest(f"a template's own input is plain JSON: {error}") from None
