"""``app.schedules``: what starts by itself, and how people steer it. Every act is committed with its audit note."""

from __future__ import annotations

import datetime
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Final, Unpack

import msgspec
from msgspec.structs import replace

from holdfast.client.items import Change, all_items, change_item, item_finder
from holdfast.client.pages import PAGE, page_of
from holdfast.client.people.permission import operation
from holdfast.client.people.tenants import check_workspace
from holdfast.client.schedules.backfill import BackfillInfo, backfill
from holdfast.client.schedules.explanation import advise, explain
from holdfast.client.schedules.launcher import ScheduleLauncher
from holdfast.client.schedules.ownership import require_start, start_conditions, taken
from holdfast.client.schedules.requests import Seconds, Settings, Target, read_timing, with_settings
from holdfast.client.schedules.targets import aimed, offered, template_of
from holdfast.client.views.cursors import Page
from holdfast.client.views.schedules import ScheduleInfo, schedule_info, timing_words
from holdfast.errors import (
    EngineError,
    InvalidRequest,
    RunConflict,
    ScheduleConflict,
    ScheduleNotFound,
)
from holdfast.people.names import NAME, is_name
from holdfast.runs.advice import Advice
from holdfast.runs.birth import check_id, check_new_id
from holdfast.schedules.notes import noted_outcomes, outcome_note, tick_note
from holdfast.schedules.planner import Clearance, ended, resumed, retimed
from holdfast.schedules.schedule import (
    KIND,
    Outcome,
    Schedule,
    check_schedule,
    decode,
    due_at,
    encode,
    offset_of,
    run_id,
)
from holdfast.schedules.timing import Once, Timing, check_timing, next_tick
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

Edit = Callable[[Schedule, int, int], tuple[Schedule, Sequence[Outcome]]]
"""Makes the next state of a schedule, given the time and its jitter; and what becomes of ticks by that."""

BACKFILL_LIMIT: Final = 1_000
BESIDE: Final = 100
"""So many runs that were started out of turn are remembered at most, for overlap."""


class Schedules:
    """The schedules of one engine. A change is durable when its call returns."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app
        self._launcher = ScheduleLauncher(app)

    # -- making and changing -------------------------------------------------------------------------------------------

    @operation("schedules.change")
    async def create(
        self,
        id: str,
        workflow: Target | None = None,
        *,
        template: str | None = None,
        input: object = None,
        cron: str | None = None,
        timezone: str | None = None,
        every: Seconds | None = None,
        at: datetime.datetime | None = None,
        paused: bool = False,
        tenant: str | None = None,
        by: str | None = None,
        reason: str = "",
        **settings: Unpack[Settings],
    ) -> ScheduleInfo:
        """Make a schedule: ``cron`` with a ``timezone``, ``every`` so many seconds, or once ``at`` a time. One that
        is over is due at once.

        It starts a workflow, a definition by its reference, or a template by its id. ``input`` are the arguments: a map
        gives them by name, anything else is the only one. Raises ScheduleConflict where the id is taken,
        InvalidRequest, InvalidArguments and TemplateNotFound.
        """
        app, now = self._app, await self._app.store.now()
        key = self._key(check_new_id(id, "the schedule's id"), tenant)
        timing = read_timing(cron, every, at, timezone, now)
        if timing is None:
            raise InvalidRequest("say when: a cron line, every so many seconds, or at a time")
        schedule = Schedule(timing=timing, owner=app.person_of(by), made_at=now, cursor=now)
        schedule = replace(schedule, paused="it was made so" if paused else None)
        schedule = await aimed(app, key.tenant, schedule, workflow, template, input)
        schedule = await taken(self._app, id, with_settings(schedule, settings))
        check_schedule(key.id, schedule)
        await check_workspace(app, key.tenant, schedule.workspace)
        if isinstance(timing, Once) and timing.at <= now:
            schedule = replace(schedule, cursor=timing.at, queue=(timing.at,))
        _check_comes(timing, now)

        async def make(present: p.ItemRow | None) -> Change:
            if present is not None and present.status != "deleted":
                raise ScheduleConflict(f"there is a schedule {id!r} already: change it, or choose another id")
            return replace(self._change(key, schedule, ()), beside=await offered(app, key.tenant, schedule))

        row = await change_item(app, key, "schedule_workflow", make, by=by, reason=reason)
        return schedule_info(row, app.clock.now())

    @operation("schedules.change")
    async def change(
        self,
        id: str,
        workflow: Target | None = None,
        *,
        template: str | None = None,
        input: object = msgspec.UNSET,
        cron: str | None = None,
        timezone: str | None = None,
        every: Seconds | None = None,
        at: datetime.datetime | None = None,
        tenant: str | None = None,
        by: str | None = None,
        reason: str = "",
        **settings: Unpack[Settings],
    ) -> ScheduleInfo:
        """Change what is given; the rest stays. Ticks that were due before a new timing are not lost: they are started,
        or are recorded as missed. A bound caller owns it from then on, and must be permitted to start what it starts.
        Raises as ``create``, NotPermitted, and ScheduleNotFound."""
        key = self._key(id, tenant)
        if isinstance(workspace := settings.get("workspace"), str):
            await check_workspace(self._app, key.tenant, workspace)
        timing = read_timing(cron, every, at, timezone, await self._app.store.now())
        target: Schedule | None = None
        if workflow is not None or template is not None or input is not msgspec.UNSET:
            present = decode((await self._row(key)).body, id)
            if workflow is None and template is None:
                workflow, template = present.workflow or None, present.template or None
            given = None if input is msgspec.UNSET else input
            target = await aimed(self._app, key.tenant, present, workflow, template, given)

        def edit(schedule: Schedule, now: int, offset: int) -> tuple[Schedule, Sequence[Outcome]]:
            after, outcomes = schedule, tuple[Outcome, ...]()
            if timing is not None:
                check_timing(timing)
                _check_comes(timing, now)
                after, outcomes = retimed(schedule, timing, now, offset)
            if target is not None:
                names = ("workflow", "template", "input", "program")
                after = replace(after, **{name: getattr(target, name) for name in names})
            after = with_settings(replace(after, owner=None if self._app.binding else after.owner), settings)
            check_schedule(id, after)
            return after, outcomes

        return await self._edit(key, "change_schedule", edit, by, reason, aim=target, takes=True)

    @operation("schedules.change")
    async def pause(
        self, id: str, *, tenant: str | None = None, by: str | None = None, reason: str = ""
    ) -> ScheduleInfo:
        """Start nothing until it is resumed. Ticks of that time are skipped, and the audit says so; a schedule for one
        time starts it when it is resumed. Raises ScheduleNotFound, ScheduleConflict."""

        def edit(schedule: Schedule, _now: int, _offset: int) -> tuple[Schedule, Sequence[Outcome]]:
            _check_alive(id, schedule)
            return replace(schedule, paused=reason or "by a person"), ()

        return await self._edit(self._key(id, tenant), "pause_schedule", edit, by, reason)

    @operation("schedules.change")
    async def resume(
        self, id: str, *, tenant: str | None = None, by: str | None = None, reason: str = ""
    ) -> ScheduleInfo:
        """Start its ticks again, from now on. Its owner is as after ``change``. Raises as it, and ScheduleConflict."""

        def edit(schedule: Schedule, now: int, offset: int) -> tuple[Schedule, Sequence[Outcome]]:
            _check_alive(id, schedule)
            if schedule.paused is None:
                return schedule, ()
            after, outcomes = resumed(schedule, now, offset)
            return replace(after, owner=None if self._app.binding else after.owner), outcomes

        return await self._edit(self._key(id, tenant), "resume_schedule", edit, by, reason, takes=True)

    @operation("schedules.change")
    async def delete(
        self, id: str, *, tenant: str | None = None, by: str | None = None, reason: str = ""
    ) -> ScheduleInfo:
        """End it for good. Its runs go on, and the audit keeps all that it did. Raises ScheduleNotFound."""

        def edit(schedule: Schedule, now: int, offset: int) -> tuple[Schedule, Sequence[Outcome]]:
            after, skipped = ended(schedule, now, offset, "the schedule was deleted")
            return replace(after, deleted=True), skipped

        return await self._edit(self._key(id, tenant), "delete_schedule", edit, by, reason)

    # -- starting out of turn ------------------------------------------------------------------------------------------

    @operation("schedules.change")
    async def run_now(self, id: str, *, tenant: str | None = None, by: str | None = None, reason: str = "") -> str:
        """Start its run now, whatever is under way; gives the run's id. The ticks to come stay as they are, and do not
        overlap with it or with the runs before it. Without a name it is done in the owner's: raises NotPermitted where
        the owner may no longer start runs."""
        key = self._key(id, tenant)
        while True:
            row = await self._row(key)
            schedule, now = decode(row.body, id), await self._app.store.now()
            template = await template_of(self._app, key.tenant, schedule)
            who = self._person(by)
            await require_start(self._app, id, schedule)
            conditions = await start_conditions(self._app, key, schedule, template, who)
            birth = await self._launcher.birth(key, schedule, template, now, now, who)
            outcome = Outcome("started", now, now, reason or "run now", run_id(id, now))
            beside = await self._under_way(key, schedule)
            after = replace(schedule, last_run=outcome.run, beside=beside).with_outcome(outcome)
            put = self._put(key, row.version + 1, after, now)
            note = outcome_note(key, after, outcome, now, tick_note(id, now), who or "")
            answer = await self._app.committer.commit(p.Operate(note, (*conditions, put, birth.start(now))))
            if isinstance(answer, p.OperatedOn | p.Repeated):
                self._changed()
                return birth.key.run
            if isinstance(answer, p.Exists | p.Retired):
                raise RunConflict(f"run id {birth.key.run!r} is taken: try again")
            if not isinstance(answer, p.Fenced):
                raise EngineError(f"run_now of schedule {id} was answered {answer!r}")

    @operation("schedules.change")
    async def backfill(
        self,
        id: str,
        since: datetime.datetime,
        until: datetime.datetime,
        *,
        limit: int = BACKFILL_LIMIT,
        dry_run: bool = False,
        tenant: str | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> BackfillInfo:
        """Start the runs of all its ticks from one time to another, both included; those that were started before are
        left as they are. Overlap is not looked at. With ``dry_run`` only count.

        Raises InvalidRequest where there are more than ``limit``, or the end is not over yet.
        """
        key = self._key(id, tenant)
        row = await self._row(key)
        schedule = decode(row.body, id)
        template = await template_of(self._app, key.tenant, schedule)
        who = self._person(by)
        if not dry_run:
            await require_start(self._app, id, schedule)
        found = await backfill(
            self._app,
            self._launcher,
            key,
            schedule,
            template,
            (since, until),
            limit=limit,
            dry_run=dry_run,
            conditions=await start_conditions(self._app, key, schedule, template, who),
            by=who,
            reason=reason,
        )
        self._changed()
        return found

    # -- looking -------------------------------------------------------------------------------------------------------

    @operation("schedules.see")
    async def list(self, *, tenant: str | None = None, status: str | None = None) -> AsyncIterator[ScheduleInfo]:
        """The schedules, by tenant and id; without a status all but the deleted ones."""
        async for row in all_items(self._app, KIND, tenant=tenant, status=status):
            if status is not None or row.status != "deleted":
                yield schedule_info(row, self._app.clock.now())

    @operation("schedules.see")
    async def page(
        self,
        *,
        status: str | None = None,
        limit: int = PAGE,
        after: str | None = None,
        tenant: str | None = None,
    ) -> Page[ScheduleInfo]:
        """One page of the schedules, by tenant and id, with a cursor for the rest; ``status`` as in ``list``."""
        now = self._app.clock.now()
        find = item_finder(
            self._app, KIND, tenant=tenant, status=status, wanted=lambda row: bool(status) or row.status != "deleted"
        )
        return await page_of("schedules", find, limit, after, lambda row: schedule_info(row, now))

    @operation("schedules.see")
    async def show(self, id: str, *, tenant: str | None = None) -> ScheduleInfo:
        """One schedule. Raises ScheduleNotFound."""
        return schedule_info(await self._row(self._key(id, tenant), deleted=True), self._app.clock.now())

    @operation("schedules.see")
    async def explain(self, id: str, *, tenant: str | None = None) -> Sequence[str]:
        """In words: what it does, why it did or did not start something, what comes next. Raises ScheduleNotFound."""
        return await explain(self._app, *await self._judged(id, tenant))

    @operation("schedules.see")
    async def advice(self, id: str, *, tenant: str | None = None) -> Sequence[Advice]:
        """For programs: why nothing starts at this moment, each reason with a code. Raises ScheduleNotFound."""
        return await advise(self._app, *await self._judged(id, tenant))

    async def _judged(self, id: str, tenant: str | None) -> tuple[p.ItemRow, Clearance]:
        row = await self._row(self._key(id, tenant), deleted=True)
        judgement = await self._launcher.judge({row.key: decode(row.body, id)})
        return row, judgement[row.key].gate

    # -- between the parts ---------------------------------------------------------------------------------------------

    def _person(self, by: str | None) -> str | None:
        """Who acts. Raises InvalidRequest where that is no name."""
        by = self._app.person_of(by)
        if by is not None and not is_name(by):
            raise InvalidRequest(f"say who it is: {NAME}, not {by!a:.60}")
        return by

    def _key(self, id: str, tenant: str | None) -> p.ItemKey:
        self._app.check_open()
        return p.ItemKey(check_id(self._app.tenant_of(tenant), "the tenant"), KIND, check_id(id, "the schedule's id"))

    async def _row(self, key: p.ItemKey, *, deleted: bool = False) -> p.ItemRow:
        row = await self._app.store.item(key)
        if row is None or (row.status == "deleted" and not deleted):
            raise ScheduleNotFound(f"there is no schedule {key.id!r} in tenant {key.tenant!r}.")
        return row

    async def _edit(
        self,
        key: p.ItemKey,
        act: str,
        edit: Edit,
        by: str | None,
        reason: str,
        aim: Schedule | None = None,
        *,
        takes: bool = False,
    ) -> ScheduleInfo:
        """Give a schedule its next state. ``aim`` names a template that must be active when that is committed; with
        ``takes`` a bound caller owns what is altered."""

        async def make(present: p.ItemRow | None) -> Change:
            if present is None or present.status == "deleted":
                raise ScheduleNotFound(f"there is no schedule {key.id!r} in tenant {key.tenant!r}.")
            schedule, now = decode(present.body, key.id), await self._app.store.now()
            after, outcomes = edit(schedule, now, offset_of(key.tenant, key.id, schedule))
            if takes and after != schedule:
                after = await taken(self._app, key.id, after)
            change = self._change(key, after, outcomes)
            expected = () if aim is None else await offered(self._app, key.tenant, aim)
            return replace(change, beside=expected)

        row = await change_item(self._app, key, act, make, by=by, reason=reason)
        return schedule_info(row, self._app.clock.now())

    def _change(self, key: p.ItemKey, schedule: Schedule, outcomes: Sequence[Outcome]) -> Change:
        due = due_at(schedule, offset_of(key.tenant, key.id, schedule))
        details = {"timing": timing_words(schedule.timing), "target": schedule.target}
        if schedule.template:
            details["template"] = schedule.template
        details.update(noted_outcomes(outcomes))
        return Change(encode(schedule), schedule.status, due, details)

    def _put(self, key: p.ItemKey, version: int, schedule: Schedule, now: int) -> p.PutItem:
        due = due_at(schedule, offset_of(key.tenant, key.id, schedule))
        return p.PutItem(p.ItemRow(*key, version, encode(schedule), schedule.status, due, now))

    async def _under_way(self, key: p.ItemKey, schedule: Schedule) -> tuple[str, ...]:
        """Those of its runs that are under way, at most the last ``BESIDE``."""
        rows = await self._app.store.get([p.Key(key.tenant, run) for run in schedule.runs])
        live = {row.key.run for row in rows if row.ended_at is None}
        return tuple(run for run in schedule.runs if run in live)[-BESIDE:]

    def _changed(self) -> None:
        self._app.wake_sealer()
        self._app.hint()


def _check_comes(timing: Timing, now: int) -> None:
    """Raises InvalidRequest where it has no tick to come. One time that is over is due at once."""
    if not isinstance(timing, Once) and next_tick(timing, now) is None:
        raise InvalidRequest(f"{timing_words(timing)}: that never comes any more")


def _check_alive(id: str, schedule: Schedule) -> None:
    if schedule.over is not None:
        raise ScheduleConflict(f"schedule {id!r} is over ({schedule.over}): give it another time, or make another one.")
