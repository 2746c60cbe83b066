"""Each action of a trace, attempted: what a user does through a client of theirs, what the engine does by letting it.

An attempt is accepted or refused, and a refusal says by which rules of the model it may be explained. The product's
errors are coarser than the model's rules: who is of another tenant finds no template, whatever else is wrong.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

from holdfast import errors as er
from holdfast.client.views.templates import TemplateInstance
from holdfast.schedules.schedule import run_id
from holdfast.store import protocol as p
from holdfast.templates.template import EventRoute
from holdfast.testing.model_traces.cast import Cast, TraceSchedule
from holdfast.testing.model_traces.definition import COMPLETE, FAIL, definition_of
from holdfast.testing.model_traces.model import MET
from holdfast.testing.model_traces.observation import ObservedEngine
from holdfast.testing.model_traces.rules import retry_rule
from holdfast.testing.model_traces.stage import NEVER_SECONDS
from holdfast.testing.model_traces.trace import Params

_MEANINGS: Final[Mapping[type[er.HoldfastError], tuple[str, ...]]] = {
    er.NotPermitted: ("level_", "tenant_"),
    er.UserNotFound: ("unknown_user",),
    er.TenantNotFound: ("tenant_", "template_of_other_tenant"),
    er.TemplateNotFound: ("no_such_template", "tenant_", "template_of_other_tenant"),
    er.TemplateConflict: ("template_id_taken", "instance_id_taken", "activate_", "archive_", "start_", "schedule_"),
    er.RunNotFound: ("no_such_instance", "tenant_"),
    er.RunEnded: ("instance_not_running",),
    er.RunConflict: ("instance_id_taken",),
    er.InvalidDefinition: ("no_steps", "no_such_step"),
    er.InvalidRequest: ("no_such_trigger", "no_steps"),
}
"""The rules, or how their names begin, that each refusal may stand for."""


class Attempt(msgspec.Struct, frozen=True):
    """What came of an action. ``rules`` are those by which it may have been refused; None is accepted."""

    rules: tuple[str, ...] | None = None
    error: str = ""

    @property
    def is_accepted(self) -> bool:
        return self.rules is None

    def stands_for(self, rule: str) -> bool:
        """Whether a refusal may be explained by this rule."""
        return any(rule == each or (each.endswith("_") and rule.startswith(each)) for each in self.rules or ())


ACCEPTED: Final = Attempt()


def refused(*rules: str) -> Attempt:
    """A refusal that was seen, and not raised."""
    return Attempt(rules)


class TraceAttempts:
    """Does the actions of one trace. ``retry_seconds`` says after which time the trace retries a failed step."""

    def __init__(
        self, cast: Cast, observation: ObservedEngine, retry_seconds: Callable[[int, str], float | None]
    ) -> None:
        self._cast = cast
        self._observation = observation
        self._retry_seconds = retry_seconds
        self.extra_schedules = 0
        self._acts: Mapping[str, Callable[..., Awaitable[Attempt]]] = {
            "CreateTemplate": self._create,
            "ActivateTemplate": self._activate,
            "ArchiveTemplate": self._archive,
            "StartWorkflow": self._start,
            "ExecuteStep": self._execute,
            "CompleteStep": self._complete_step,
            "FailStep": self._fail_step,
            "RetryStep": self._retry_step,
            "CompleteWorkflow": self._complete,
            "FailWorkflow": self._fail,
            "CancelWorkflow": self._cancel,
            "ScheduleWorkflow": self._schedule,
            "TriggerScheduled": self._trigger,
        }

    async def attempt(self, action: str, params: Params) -> Attempt:
        """Attempt an action."""
        if action not in self._acts:
            return refused("no_such_action")
        try:
            return await self._acts[action](**params)
        except er.CallerError as error:
            return Attempt(_meaning(error), error.code)
        except er.AuthorError as error:
            return Attempt(_meaning(error), error.code)

    # -- what authors do -----------------------------------------------------------------------------------------------

    async def _create(
        self, user: str, template: str, tenant: str, steps: list[str], dependencies: dict[str, list[str]], trigger: str
    ) -> Attempt:
        cast = self._cast
        if template not in cast.trace.constants.templates:
            return refused("no_such_template_id")  # the product takes any id
        there = await self._observation.template(template)
        if there is not None and there.tenant != cast.tenant(tenant):
            return refused("template_id_taken")  # ids of the product are of one tenant
        wanted = {"steps": steps, "dependencies": dependencies}
        await cast.bound(user).templates.create(
            template,
            source=definition_of(wanted, cast.trace.constants, cast.new_id(template)),
            trigger=trigger,  # type: ignore[arg-type]  # a trace may have one that is none
            route=EventRoute(template) if trigger == "event" else None,
            tenant=cast.tenant(tenant),
        )
        return ACCEPTED

    async def _activate(self, user: str, template: str) -> Attempt:
        await self._cast.bound(user).templates.activate(template)
        return ACCEPTED

    async def _archive(self, user: str, template: str) -> Attempt:
        await self._cast.bound(user).templates.archive(template)
        return ACCEPTED

    # -- what executors do ---------------------------------------------------------------------------------------------

    async def _start(self, user: str, template: str, instance: int) -> Attempt:
        cast = self._cast
        client, taken = cast.bound(user), cast.runs.get(instance)
        known = cast.trace.init.users.get(user)
        if taken is not None and known is not None and taken.tenant != cast.tenant(known.tenant):
            return refused("instance_id_taken")  # ids of the product are of one tenant
        run = await client.templates.start(template, id=taken.run if taken is not None else cast.new_id(instance))
        if taken is not None:
            return refused("instance_id_taken")  # the same id finds the same run, and starts none
        return await self._begun(instance, run.key)

    async def _begun(self, number: int, key: p.Key) -> Attempt:
        """Whether a run that was started has its place. One that is queued is taken back: the model knows no queue."""
        if await self._is_admitted(key):
            self._cast.runs[number] = key
            return ACCEPTED
        await self._cast.app.run(key.run, tenant=key.tenant).cancel("over the cap")
        return refused("over_cap")

    async def _is_admitted(self, key: p.Key) -> bool:
        """Whether a run has begun, once claimers have had their chance."""
        engine, constants = self._cast.engine, self._cast.trace.constants
        looked = engine.store.claims

        async def is_decided() -> bool:
            had_chance = engine.store.claims >= looked + 2
            if (await self._observation.row(key)).begun_at is not None:
                return True
            return had_chance and await self._observation.under_way(key.tenant) >= constants.max_concurrent_runs

        await engine.until(is_decided)
        return (await self._observation.row(key)).begun_at is not None

    async def _cancel(self, user: str, instance: int) -> Attempt:
        key = self._cast.runs.get(instance)
        await self._cast.bound(user).run(key.run if key is not None else f"none-{instance}").cancel()
        return ACCEPTED

    async def _schedule(self, user: str, template: str, tenant: str, time: int) -> Attempt:
        cast = self._cast
        key = p.ItemKey(cast.tenant(tenant), "schedule", cast.new_id(f"{template}-{time}"))
        await cast.bound(user).schedules.create(key.id, template=template, at=cast.date_of(time), tenant=key.tenant)
        cast.schedules.append(TraceSchedule(key, template, tenant, time, user))
        return ACCEPTED

    # -- what the engine does ------------------------------------------------------------------------------------------

    async def _running(self, number: int) -> TemplateInstance | Attempt:
        """An instance that runs, or why it does not."""
        if number not in self._cast.runs:
            return refused("no_such_instance")
        found = await self._observation.instance(number)
        return found if found.status == "running" else refused("instance_not_running")

    async def _execute(self, instance: int, step: str) -> Attempt:
        found = await self._running(instance)
        if isinstance(found, Attempt):
            return found
        state = self._observation.step(instance, found, step).state
        if state != "pending":
            return refused(f"execute_{state}")
        waiting = self._cast.stage.at_door(self._cast.place(instance, step))
        if waiting is None:
            return refused("dependency_not_met")
        waiting.enter()
        return ACCEPTED

    async def _complete_step(self, instance: int, step: str) -> Attempt:
        found = await self._running(instance)
        if isinstance(found, Attempt):
            return found
        attempt = self._cast.stage.inside(self._cast.place(instance, step))
        if attempt is None:
            return refused(f"complete_step_{self._observation.step(instance, found, step).state}")
        attempt.succeed()
        return ACCEPTED

    async def _fail_step(self, instance: int, step: str) -> Attempt:
        found = await self._running(instance)
        if isinstance(found, Attempt):
            return found
        attempt = self._cast.stage.inside(self._cast.place(instance, step))
        if attempt is None:
            return refused(f"fail_step_{self._observation.step(instance, found, step).state}")
        seconds = self._retry_seconds(instance, step)
        attempt.fail(NEVER_SECONDS if seconds is None else seconds)
        return ACCEPTED

    async def _retry_step(self, instance: int, step: str) -> Attempt:
        """The time of the retry has come if the trace may retry now: then the engine begins the next attempt."""
        found = await self._running(instance)
        if isinstance(found, Attempt):
            return found
        stage, place = self._cast.stage, self._cast.place(instance, step)

        async def has_come() -> bool:
            waiting = stage.at_door(place)
            return waiting is not None and waiting.number == stage.retries(place) + 2

        if self._retry_seconds(instance, step) == 0.0 and await self._cast.engine.until(has_come):
            stage.retry(place)
            return ACCEPTED
        return refused(retry_rule(self._observation.step(instance, found, step).state))

    async def _complete(self, instance: int) -> Attempt:
        found = await self._running(instance)
        if isinstance(found, Attempt):
            return found
        if any(each.state not in MET for each in found.steps):
            return refused("complete_unfinished")
        return await self._signal(instance, COMPLETE)

    async def _fail(self, instance: int) -> Attempt:
        found = await self._running(instance)
        if isinstance(found, Attempt):
            return found
        if all(each.state != "failed" for each in found.steps):
            return refused("fail_without_failed_step")
        return await self._signal(instance, FAIL)

    async def _signal(self, instance: int, name: str) -> Attempt:
        key = self._cast.runs[instance]
        await self._cast.app.run(key.run, tenant=key.tenant).signal(name, None)
        return ACCEPTED

    # -- what schedulers do --------------------------------------------------------------------------------------------

    async def _trigger(
        self,
        template: str,
        tenant: str,
        time: int,
        instance: int,
        startedBy: str | None = None,  # noqa: N803  # the word of traces
    ) -> Attempt:
        cast = self._cast
        wanted = [
            each for each in cast.schedules if (each.template, each.tenant, each.time) == (template, tenant, time)
        ]
        alive = [each for each in wanted if await self._observation.is_scheduled(each)]
        if not alive:
            return refused("not_scheduled", *(["trigger_archived"] if await self._has_ended(wanted) else []))
        if instance in cast.runs:
            return refused("instance_id_taken")  # a schedule makes the id of its run, and a number names one run
        return await self._triggered(alive[0], alive[1:], instance)

    async def _has_ended(self, schedules: list[TraceSchedule]) -> bool:
        """Whether the template of one of them was archived, and ended it."""
        for each in schedules:
            info = await self._observation.schedule(each)
            if info is not None and any(outcome.what == "ended" for outcome in info.last):
                return True
        return False

    async def _triggered(self, schedule: TraceSchedule, others: list[TraceSchedule], number: int) -> Attempt:
        cast, store = self._cast, self._cast.engine.store
        run = p.Key(schedule.key.tenant, run_id(schedule.key.id, cast.moment_of(schedule.time)))
        begun = store.looks

        async def is_fresh() -> bool:
            return store.looks >= begun + 2

        await cast.engine.until(is_fresh)  # a round from before the clock went on would start it in the past
        store.let.add(schedule.key)
        looks, waits = store.looks, store.waits

        async def is_over() -> bool:
            had_chance = store.looks >= looks + 2 and store.full_looks >= waits + 1
            return had_chance or not await self._observation.is_scheduled(schedule)

        await cast.engine.until(is_over)
        store.let.discard(schedule.key)
        if not await cast.app.store.get([run]):
            return refused("trigger_" if await self._has_ended([schedule]) else "before_its_time")
        attempt = await self._begun(number, run)
        if not attempt.is_accepted:
            return await self._scheduled_again(schedule, attempt)
        cast.triggered.add(number)
        for each in others:
            await cast.app.schedules.delete(each.key.id, tenant=each.key.tenant)
        return ACCEPTED

    async def _scheduled_again(self, schedule: TraceSchedule, attempt: Attempt) -> Attempt:
        """The schedule has started a run that was queued and taken back: for the model it stands as before."""
        self.extra_schedules += 1
        await self._schedule(schedule.user, schedule.template, schedule.tenant, schedule.time)
        return attempt


def _meaning(error: er.HoldfastError) -> tuple[str, ...]:
    return next((rules for kind, rules in _MEANINGS.items() if isinstance(error, kind)), ())
