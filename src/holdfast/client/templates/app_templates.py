"""``app.templates``: what a tenant offers to be started, and what was started of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.client.filters import finder
from holdfast.client.items import (
    Change,
    all_items,
    cap_change,
    change_item,
    derived_item,
    found,
    item_finder,
    write_cap_change,
)
from holdfast.client.pages import PAGE, Find, page_of, rows_of
from holdfast.client.people.permission import operation, require_later
from holdfast.client.people.tenants import check_workspace
from holdfast.client.runs.handle import RunHandle
from holdfast.client.runs.run_ids import chosen_run_id
from holdfast.client.templates.drafts import read_draft
from holdfast.client.templates.instance_starter import InstanceStarter, template_details
from holdfast.client.templates.instances import instance_view
from holdfast.client.views.cursors import Page, read_cursor
from holdfast.client.views.states import INSTANCE_STATES
from holdfast.client.views.templates import TemplateInfo, TemplateInstance, template_info
from holdfast.errors import InvalidRequest, TemplateConflict, TemplateNotFound
from holdfast.programs.definition.compiler.batch import DefinitionSource
from holdfast.programs.function.decorators import Workflow
from holdfast.runs.birth import Trigger, check_new_id, check_text
from holdfast.runs.journals import row_of
from holdfast.store import protocol as p
from holdfast.templates import template as t
from holdfast.templates.routes import ROUTE

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

_ACTS: Final[dict[t.TemplateAct, str]] = {
    "activate": "activate_template",
    "pause": "pause_template",
    "resume": "resume_template",
    "archive": "archive_template",
    "new version": "new_version",
}
"""The audit's word for each act."""
_STOPS: Final = (_ACTS["pause"], _ACTS["archive"])

INSTANCES: Final = "instances"  # the list that its cursors are of


class AppTemplates:
    """The templates of one engine's tenants."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app
        self._starter = InstanceStarter(app)

    # -- authoring -----------------------------------------------------------------------------------------------------

    @operation("templates.change")
    async def create(
        self,
        id: str,
        program: str | Workflow[..., Any] | None = None,
        *,
        source: DefinitionSource | None = None,
        name: str | None = None,
        trigger: t.StartTrigger | None = None,
        caps: t.TemplateCaps | None = None,
        input: object = None,
        route: t.EventRoute | None = None,
        check_uses: bool = True,
        tenant: str | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> TemplateInfo:
        """Make a template; it is a draft until it is activated.

        ``program`` is a Python workflow or its name, or a published definition as ``name``, ``name@3`` or ``name@^2``;
        with ``source`` a definition is published and used. A definition is pinned: another version comes with
        ``new_version``. Without ``check_uses`` it is not looked whether this process knows what it names. ``route``
        makes it a template of trigger ``event``. Raises TemplateConflict where the id is taken, InvalidRequest,
        WorkflowUnknown, and what publishing raises.
        """
        tenant = self._app.tenant_of(tenant)
        check_new_id(id, "the template's id")
        said = await read_draft(self._app, program, source, name, trigger, caps, input, route, check_uses, tenant, by)
        if said.program is None:
            raise InvalidRequest("a template needs a program: a workflow, a published definition, or source=")
        made = said.laid_over(t.Template(name=name or id, program=said.program, owner=self._app.person_of(by)))

        def judge(present: p.ItemRow | None) -> tuple[t.Template, t.TemplateStatus]:
            if present is not None:
                raise TemplateConflict(
                    f"template {id!r} exists in tenant {tenant!r} and is {present.status}: choose another id, or give "
                    "it a new version."
                )
            return made, "draft"

        return await self._change(p.ItemKey(tenant, t.TEMPLATE, id), "create_template", judge, by, reason)

    @operation("templates.change")
    async def new_version(
        self,
        id: str,
        program: str | Workflow[..., Any] | None = None,
        *,
        source: DefinitionSource | None = None,
        name: str | None = None,
        trigger: t.StartTrigger | None = None,
        caps: t.TemplateCaps | None = None,
        input: object = None,
        route: t.EventRoute | None = None,
        check_uses: bool = True,
        tenant: str | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> TemplateInfo:
        """Change a template that is not archived: what is not given stays. ``TemplateCaps()`` takes its caps away.

        A bound caller owns it from then on. Instances that were started keep the program that they were started with.
        Raises as ``create`` does.
        """
        tenant = self._app.tenant_of(tenant)
        said = await read_draft(self._app, program, source, name, trigger, caps, input, route, check_uses, tenant, by)

        def judge(present: p.ItemRow | None) -> tuple[t.Template, t.TemplateStatus]:
            row = found(present, _missing(id, tenant))
            status = t.next_status(row, "new version")
            before = t.read_template(row)
            return said.laid_over(msgspec.structs.replace(before, version=before.version + 1)), status

        return await self._change(p.ItemKey(tenant, t.TEMPLATE, id), _ACTS["new version"], judge, by, reason)

    @operation("templates.change")
    async def activate(
        self, id: str, *, reason: str = "", tenant: str | None = None, by: str | None = None
    ) -> TemplateInfo:
        """Let a draft start instances. Raises TemplateNotFound, TemplateConflict where it is no draft."""
        return await self._steer(id, "activate", tenant, by, reason)

    @operation("templates.change")
    async def pause(
        self, id: str, *, reason: str = "", tenant: str | None = None, by: str | None = None
    ) -> TemplateInfo:
        """Let an active template start nothing until it is resumed. Instances go on, queued ones too."""
        return await self._steer(id, "pause", tenant, by, reason)

    @operation("templates.change")
    async def resume(
        self, id: str, *, reason: str = "", tenant: str | None = None, by: str | None = None
    ) -> TemplateInfo:
        """Let a paused template start instances again."""
        return await self._steer(id, "resume", tenant, by, reason)

    @operation("templates.change")
    async def archive(
        self, id: str, *, reason: str = "", tenant: str | None = None, by: str | None = None
    ) -> TemplateInfo:
        """Let an active or paused template start nothing, for good. Instances go on, queued ones too."""
        return await self._steer(id, "archive", tenant, by, reason)

    async def _steer(
        self, id: str, act: t.TemplateAct, tenant: str | None, by: str | None, reason: str
    ) -> TemplateInfo:
        tenant = self._app.tenant_of(tenant)

        def judge(present: p.ItemRow | None) -> tuple[t.Template, t.TemplateStatus]:
            row = found(present, _missing(id, tenant))
            return t.read_template(row), t.next_status(row, act)

        return await self._change(p.ItemKey(tenant, t.TEMPLATE, id), _ACTS[act], judge, by, reason)

    async def _change(
        self,
        key: p.ItemKey,
        act: str,
        judge: Callable[[p.ItemRow | None], tuple[t.Template, t.TemplateStatus]],
        by: str | None,
        reason: str,
    ) -> TemplateInfo:
        """Give a template its next version, with the items that follow from it: its route, and its caps. A bound caller
        who alters it, or lets it start instances, owns it then, and must be permitted to start instances, too."""
        app = self._app

        async def change(present: p.ItemRow | None) -> Change:
            template, status = judge(present)
            if app.caller is not None and act not in _STOPS:
                template = msgspec.structs.replace(template, owner=app.caller.user)
                await require_later(app, f"template {key.id}", ["templates.start"] if status == "active" else [])
            route = b"" if template.route is None else msgspec.json.encode(template.route)
            caps, cap_key = template.caps, p.cap_key(key.tenant, template=key.id)
            route_key = p.ItemKey(key.tenant, ROUTE, key.id)
            beside = [
                *await derived_item(app, route_key, route, status if route else "none", is_set=bool(route)),
                *await cap_change(app, cap_key, p.SetCap(caps.max_concurrency, caps.max_runs_per_min)),
                *await write_cap_change(app, cap_key, p.SetWriteCap(caps.max_writes_per_run)),
            ]
            details = template_details(key.id, template)
            return Change(t.write_template(template), status, details=details, beside=beside)

        return template_info(await change_item(app, key, act, change, by=by, reason=reason))

    # -- looking -------------------------------------------------------------------------------------------------------

    @operation("templates.see")
    async def show(self, id: str, *, tenant: str | None = None) -> TemplateInfo:
        """A template. Raises TemplateNotFound."""
        return template_info(await self._row(id, self._app.tenant_of(tenant)))

    @operation("templates.see")
    async def list(
        self, *, status: t.TemplateStatus | None = None, tenant: str | None = None
    ) -> AsyncIterator[TemplateInfo]:
        """The templates of a tenant by id, those of one status or all."""
        _check_status(status)
        async for row in all_items(self._app, t.TEMPLATE, tenant=self._app.tenant_of(tenant), status=status):
            yield template_info(row)

    @operation("templates.see")
    async def page(
        self,
        *,
        status: t.TemplateStatus | None = None,
        limit: int = PAGE,
        after: str | None = None,
        tenant: str | None = None,
    ) -> Page[TemplateInfo]:
        """One page of the templates of a tenant by id, with a cursor for the rest."""
        _check_status(status)
        find = item_finder(self._app, t.TEMPLATE, tenant=self._app.tenant_of(tenant), status=status)
        return await page_of("templates", find, limit, after, template_info)

    @operation("templates.see")
    async def instances(
        self,
        id: str,
        *,
        state: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        tenant: str | None = None,
    ) -> AsyncIterator[TemplateInstance]:
        """What was started of a template, newest first, with the states of steps. Raises TemplateNotFound.

        ``state`` is one of queued, running, completed, failed and cancelled. ``after`` is the ``next`` of a page: the
        list begins behind that page.
        """
        find = await self._instance_finder(id, state, self._app.tenant_of(tenant))
        async for row in rows_of(find, limit, read_cursor(INSTANCES, after)):
            yield await instance_view(self._app, row)

    @operation("templates.see")
    async def instances_page(
        self,
        id: str,
        *,
        state: str | None = None,
        limit: int = PAGE,
        after: str | None = None,
        tenant: str | None = None,
    ) -> Page[TemplateInstance]:
        """One page of ``instances``, with a cursor for the rest. Raises TemplateNotFound."""
        find = await self._instance_finder(id, state, self._app.tenant_of(tenant))
        page = await page_of(INSTANCES, find, limit, after, lambda row: row)
        return Page([await instance_view(self._app, row) for row in page.items], page.next)

    async def _instance_finder(self, id: str, state: str | None, tenant: str) -> Find[p.Run]:
        """Reads the rows of a template's instances, newest first. Raises TemplateNotFound, InvalidRequest."""
        await self._row(id, tenant)
        if state is not None and state not in INSTANCE_STATES:
            raise InvalidRequest(f"an instance's state is one of {', '.join(INSTANCE_STATES)}, not {state!r:.60}")
        wanted = None if state is None else f"instance:{state}"
        return finder(self._app.store, {"tenant": tenant, "attributes": {t.TEMPLATE: id}, "state": wanted})

    @operation("templates.see")
    async def instance(self, run: str, *, tenant: str | None = None) -> TemplateInstance:
        """One instance by its run's id. Raises RunNotFound, TemplateNotFound where no template started it."""
        return await instance_view(
            self._app, await row_of(self._app.store, p.Key(self._app.tenant_of(tenant), check_text(run, "the id")))
        )

    async def _row(self, id: str, tenant: str) -> p.ItemRow:
        key = p.ItemKey(tenant, t.TEMPLATE, check_text(id, "the template's id"))
        return found(await self._app.store.item(key), _missing(id, tenant))

    # -- starting ------------------------------------------------------------------------------------------------------

    @operation("templates.start")
    async def start(
        self,
        template: str,
        input: object = None,
        *,
        id: str | None = None,
        workspace: str = "",
        priority: int = 0,
        tenant: str | None = None,
        by: str | None = None,
    ) -> RunHandle[Any]:
        """Start an instance of an active template; durable when this returns. The same ``id`` finds the same instance.

        ``input`` is laid over the template's own, member by member. Over a cap the instance is queued. Raises
        TemplateNotFound, TemplateConflict where the template is not active, InvalidArguments where the input does not
        fit, WorkspaceNotFound as ``app.start``, and RunConflict where the id belongs to another run.
        """
        tenant = self._app.tenant_of(tenant)
        run = self._app.token() if id is None else await chosen_run_id(self._app.store, tenant, id)
        actor = self._app.person_of(by)
        await check_workspace(self._app, tenant, check_text(workspace, "the workspace"))
        while True:
            row = await self._row(template, tenant)
            try:
                start = await self._starter.prepare(
                    row, input, run, Trigger(t.MANUAL, template), workspace, actor, priority
                )
            except TemplateConflict:
                if id is not None and await self._starter.is_instance(p.Key(tenant, run), template):
                    return self._app.run(run, tenant=tenant)  # it was started before the template changed
                raise
            if await self._starter.commit(row, start, by) != "again":
                return self._app.run(run, tenant=tenant)


def _missing(id: str, tenant: str) -> TemplateNotFound:
    return TemplateNotFound(
        f"there is no template {id!r} in tenant {tenant!r}: `holdfast templates list` shows what there is."
    )


def _check_status(status: object) -> None:
    if status is not None and status not in t.STATUSES:
        raise InvalidRequest(f"a template's status is one of {', '.join(t.STATUSES)}, not {status!r:.60}")
