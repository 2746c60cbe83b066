"""The emitter: an event becomes the starts of the templates that hear it, each once, whatever dies in between.

An event is remembered as an item. Where it leads to one start or none, that and the item are one commit. Where it leads
to several, the item comes first, open, with all that it leads to; then each start, whose run id follows from template
and event; then the item is done. Where its process dies meanwhile, a worker does what is left of it, or whoever emits
it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.client.items import all_items
from holdfast.client.operators import operator_note
from holdfast.client.people.tenants import check_workspace
from holdfast.client.runs.run_ids import triggered_run_id
from holdfast.client.schedules.launcher import owner_gate
from holdfast.client.templates.instance_starter import InstanceStarter
from holdfast.client.views.times import moment
from holdfast.errors import (
    CallerError,
    EngineError,
    EventConflict,
    InvalidRequest,
    NotPermitted,
    RunConflict,
    TemplateConflict,
)
from holdfast.journal.payload import Payload
from holdfast.people.users import user_key
from holdfast.programs.function.values import decode, encode
from holdfast.runs.birth import ID_LIMIT, Trigger, check_text
from holdfast.store import protocol as p
from holdfast.templates import routes
from holdfast.templates.template import TEMPLATE

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

_OPEN: Final = "open"
_DONE: Final = "done"
FINISH_SECONDS: Final = 30
"""After this time a worker looks at an event that is still open: whoever emitted it may be dead."""


class EmittedInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an event. ``repeated`` means that an earlier call had emitted it."""

    event: str
    id: str
    tenant: str
    repeated: bool
    starts: tuple[routes.PlannedStart, ...]

    @property
    def started(self) -> tuple[str, ...]:
        """The ids of the instances that it started."""
        return tuple(each.run for each in self.starts if not each.problem)

    @property
    def problems(self) -> dict[str, str]:
        """Why templates whose route is for this event started nothing, by template."""
        return {each.template: each.problem for each in self.starts if each.problem}

    @property
    def heard(self) -> bool:
        """Whether any template started an instance for it."""
        return bool(self.started)


class Emitter:
    """Emits events of one engine."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app

    async def emit(
        self,
        name: str,
        data: object,
        id: str,
        workspace: str,
        tenant: str | None,
        by: str | None,
        trigger: Trigger | None = None,
    ) -> EmittedInfo:
        """See ``Holdfast.emit``. ``trigger`` is the cause of what it starts, where that is not the event itself."""
        app = self._app
        app.check_open()
        _check_texts(name, id)
        payload = encode(data, f"the data of event {name!r}")
        tenant = app.tenant_of(tenant)
        digest = routes.event_digest(name, payload.data)
        key = p.ItemKey(tenant, routes.EVENT, id)
        while True:
            present = await app.store.item(key)
            known = None if present is None else routes.read_event(present)
            at = app.clock.now() if known is None else known.at
            event = routes.EmittedEvent(name, id, decode(payload), moment(at))
            act = _Emission(app, event, key, workspace, by, trigger)
            if known is None:
                await check_workspace(app, tenant, check_text(workspace, "the workspace"))
                starts, who = tuple(await act.plan()), app.person_of(by)
                cause = None if trigger is None else (trigger.type, trigger.ref)
                known = routes.RememberedEvent(name, digest, at, starts, payload.data, workspace, who, cause)
            else:
                if known.digest != digest:
                    raise EventConflict(
                        f"event id {id!r} was emitted as {known.event!r}, perhaps with other data: give another event "
                        "another id."
                    )
            if present is None or present.status != _DONE:
                done = await act.carry_out(present, known)
                if done is None:
                    continue
                known = done
            return EmittedInfo(event=name, id=id, tenant=tenant, repeated=present is not None, starts=known.starts)

    async def finish(self, rows: Sequence[p.ItemRow]) -> None:
        """Do what is left of open events: a duty of workers. It is done in the name of whoever emitted them, and only
        as long as they may start runs."""
        for row in rows:
            known = routes.read_event(row)
            event = routes.EmittedEvent(known.event, row.id, decode(Payload(known.data)), moment(known.at))
            trigger = None if known.trigger is None else Trigger(*known.trigger)
            act = _Emission(self._app, event, row.key, known.workspace, known.by, trigger, is_late=True)
            await act.carry_out(row, known)


class _Emission:
    """One event, and what is done about it."""

    def __init__(
        self,
        app: Holdfast,
        event: routes.EmittedEvent,
        key: p.ItemKey,
        workspace: str,
        by: str | None,
        trigger: Trigger | None,
        *,
        is_late: bool = False,
    ) -> None:
        self._app = app
        self._trigger = trigger or Trigger(routes.EVENT, event.id)
        self._starter = InstanceStarter(app)
        self._event = event
        self._workspace = workspace
        self._by = by
        self._is_late = is_late
        self.key = key

    async def plan(self) -> list[routes.PlannedStart]:
        """What the event leads to as the routes are now."""
        found, trigger = [], Trigger(routes.EVENT, self._event.id)
        async for row in all_items(self._app, routes.ROUTE, tenant=self.key.tenant, status="active"):
            match = await routes.match_of(routes.read_route(row), self._event)
            if match is not None:
                run = await triggered_run_id(self._app.store, self.key.tenant, trigger, row.id)
                found.append(routes.PlannedStart(row.id, run, match.problem))
        return found

    async def carry_out(
        self, present: p.ItemRow | None, known: routes.RememberedEvent
    ) -> routes.RememberedEvent | None:
        """Do what is left. None where someone else was first, or a template has changed: look again."""
        to_start = [each for each in known.starts if not each.problem]
        if present is None and not to_start:
            return known if await self._remember(None, known, _DONE) else None
        if present is None and len(to_start) == 1:
            return await self._start_and_remember(to_start[0], known)
        if present is None and not await self._remember(None, known, _OPEN):
            return None
        outcomes = [each if each.problem else await self._started(each) for each in known.starts]
        known = replace(known, starts=tuple(outcomes))
        version = 1 if present is None else present.version
        return known if await self._remember(version, known, _DONE) else None

    async def _start_and_remember(
        self, planned: routes.PlannedStart, known: routes.RememberedEvent
    ) -> routes.RememberedEvent | None:
        """The only start of an event, and the event, in one commit."""
        try:
            row, start = await self._prepared(planned)
        except TemplateConflict:
            return None  # it was paused or archived since its route was read
        except CallerError as error:
            known = self._with_problem(known, planned, str(error))
            return known if await self._remember(None, known, _DONE) else None
        put = p.PutItem(self._row(None, known, _DONE))
        try:
            answer = await self._starter.commit(row, start, self._by, self._details(), (put,))
        except (RunConflict, TemplateConflict) as error:
            if not await self._starter.is_instance(p.Key(self.key.tenant, planned.run), planned.template):
                known = self._with_problem(known, planned, str(error))  # its id is another run's, and stays so
            return known if await self._remember(None, known, _DONE) else None
        if answer == "found":  # by whatever means, it was started: only the event is left
            return known if await self._remember(None, known, _DONE) else None
        return known if answer == "started" else None

    async def _started(self, planned: routes.PlannedStart) -> routes.PlannedStart:
        """Start one of several, or find it started. A template that is not active any more starts nothing."""
        while True:
            try:
                row, start = await self._prepared(planned)
                expected = await self._judged() if self._is_late else ()
                if await self._starter.commit(row, start, self._by, self._details(), expected) != "again":
                    return planned
            except CallerError as error:
                if await self._starter.is_instance(p.Key(self.key.tenant, planned.run), planned.template):
                    return planned
                return replace(planned, problem=str(error))

    async def _judged(self) -> tuple[p.ExpectItem, ...]:
        """Whoever emitted it may still start runs, and must when that is committed. Raises NotPermitted."""
        if self._by is None:
            return ()
        key = user_key(self.key.tenant, self._by)
        user = await self._app.store.item(key)
        if (clearance := owner_gate(user)).verdict != "open":
            raise NotPermitted(f"the process that emitted it died, and {clearance.reason}")
        return (p.ExpectItem(key, 0 if user is None else user.version),)

    async def _prepared(self, planned: routes.PlannedStart) -> tuple[p.ItemRow, Any]:
        row = await self._app.store.item(p.ItemKey(self.key.tenant, TEMPLATE, planned.template))
        route = await self._app.store.item(p.ItemKey(self.key.tenant, routes.ROUTE, planned.template))
        if row is None or route is None:
            raise EngineError(f"template {planned.template} has a route, and is gone")
        match = await routes.match_of(routes.read_route(route), self._event) if route.body else None
        if match is None or match.problem:
            raise TemplateConflict(match.problem if match else "its route is for other events now")
        actor = self._app.person_of(self._by)
        return row, await self._starter.prepare(row, match.input, planned.run, self._trigger, self._workspace, actor)

    async def _remember(self, version: int | None, known: routes.RememberedEvent, status: str) -> bool:
        """Commit the event's item. False where someone else has."""
        put = p.PutItem(self._row(version, known, status))
        details = {**self._details(), "starts": str(sum(not each.problem for each in known.starts))}
        act = "emit" if status == _DONE else "accept_event"
        note = operator_note(self._app, self.key.tenant, act, self._by, None, "", details)
        answer = await self._app.committer.commit(p.Operate(note, (*self._app.conditions(), put)))
        if isinstance(answer, p.OperatedOn | p.Repeated):
            self._app.wake_sealer()
            return True
        if isinstance(answer, p.Fenced):
            return False
        raise EngineError(f"the event {self._event.id} was answered {answer!r}")

    def _row(self, version: int | None, known: routes.RememberedEvent, status: str) -> p.ItemRow:
        now, due_at = self._app.clock.now(), None
        if status == _OPEN:
            due_at = now + FINISH_SECONDS * 1_000_000
        else:
            known = replace(known, data=b"", workspace="", by=None, trigger=None)
        return p.ItemRow(*self.key, (version or 0) + 1, msgspec.json.encode(known), status, due_at, now)

    def _details(self) -> dict[str, str]:
        return {"event": self._event.name, "event_id": self._event.id}

    @staticmethod
    def _with_problem(
        known: routes.RememberedEvent, planned: routes.PlannedStart, problem: str
    ) -> routes.RememberedEvent:
        starts = tuple(replace(each, problem=problem) if each is planned else each for each in known.starts)
        return replace(known, starts=starts)


def _check_texts(name: object, id: object) -> None:
    for what, text in (("the event's name", name), ("the event's id", id)):
        text = check_text(text, what)
        if not text or len(text) > ID_LIMIT or not text.isprintable():
            raise InvalidRequest(f"{what} is 1 to {ID_LIMIT} printable characters, not {text!r:.60}")
