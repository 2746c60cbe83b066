"""The starter of instances: for people, for events, and for whatever else starts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from holdfast.client.operators import operator_note
from holdfast.client.runs.starter import started_run
from holdfast.errors import EngineError, TemplateConflict
from holdfast.programs.definition.model import Accepted
from holdfast.runs.birth import Trigger
from holdfast.store import protocol as p
from holdfast.templates import template as t
from holdfast.templates.start import InstanceStart, instance_start

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

StartAnswer = Literal["started", "found", "again"]


class InstanceStarter:
    """Starts instances of templates, each with its note in the audit and on the condition that it was judged by."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app

    async def prepare(
        self,
        row: p.ItemRow,
        input: object,
        run: str,
        trigger: Trigger,
        workspace: str,
        actor: str | None,
        priority: int = 0,
    ) -> InstanceStart:
        """The start of an instance, with its input checked as far as it can be here. See ``instance_start``."""
        definition = await self._pinned(row)
        return instance_start(
            row,
            input,
            run,
            trigger,
            workspace,
            actor,
            self._app.clock.now(),
            functions=self._app.workflows,
            definition=None if definition is None else definition.definition,
            priority=priority,
            attributes=self._app.observation.traced({}),
        )

    async def commit(
        self,
        row: p.ItemRow,
        start: InstanceStart,
        by: str | None,
        details: Mapping[str, str] = {},
        beside: Sequence[p.Act] = (),
    ) -> StartAnswer:
        """Start an instance with its note. With ``again`` the template or the caller has changed: judge again.

        With ``found`` the instance exists already, and nothing was committed. Raises RunConflict where the id belongs
        to another run.
        """
        app, key = self._app, start.birth.key
        said = {**template_details(row.id, t.read_template(row)), **details}
        note = operator_note(app, key.tenant, "start_workflow", by, key.run, "", said)
        answer = await app.committer.commit(p.Operate(note, (*app.conditions(), start.expect, start.change, *beside)))
        match answer:
            case p.OperatedOn() | p.Repeated():
                app.wake_sealer()
                app.hint()
                return "started"
            case p.Fenced():
                return "again"
            case p.Exists() | p.Retired():
                started_run(answer, start.birth)
                if not await self.is_instance(key, row.id):
                    raise TemplateConflict(f"run {key.run!r} exists and is no instance of template {row.id!r}.")
                return "found"
            case _:
                raise EngineError(f"the start of an instance of {row.id} was answered {answer!r}")

    async def is_instance(self, key: p.Key, template: str) -> bool:
        """Whether the run is an instance of that template."""
        rows = await self._app.store.get([key])
        return bool(rows) and rows[0].attributes.get(t.TEMPLATE) == template

    async def _pinned(self, row: p.ItemRow) -> Accepted | None:
        """The definition that a template pins; None where it is of a Python workflow."""
        program = t.read_template(row).program
        if not program.is_definition:
            return None
        return await self._app.definitions.load(f"{program.name}@{program.version}", tenant=row.tenant)


def template_details(id: str, template: t.Template) -> dict[str, str]:
    """What the audit says of a template: enough to know years later what was started."""
    program = template.program
    pinned = {"digest": program.digest} if program.is_definition else {}
    said = {"template": id, "template_version": str(template.version), "trigger": template.trigger}
    return {**said, "program": f"{program.kind}:{program}", **pinned}
