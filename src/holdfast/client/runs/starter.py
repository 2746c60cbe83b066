"""The starter: makes a run of what the caller asks for, or refuses it before anything is written."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from holdfast.client.operators import operator_note
from holdfast.client.people.tenants import check_workspace
from holdfast.client.runs.handle import RunHandle
from holdfast.client.runs.run_ids import chosen_run_id, triggered_run_id
from holdfast.errors import DuplicateName, InvalidRequest, RunConflict, RunRetired, WorkflowUnknown
from holdfast.journal.payload import Payload
from holdfast.programs.definition.compiler.faults import nearest
from holdfast.programs.function.bound import Bound
from holdfast.programs.function.decorators import Workflow
from holdfast.programs.function.reversal import REVERSE
from holdfast.programs.function.values import encode
from holdfast.runs.birth import Birth, Pin, Trigger, check_id, origin_of
from holdfast.store import protocol as p
from holdfast.store.committer import CALLER_PATIENCE_SECONDS, into
from holdfast.templates.template import RESERVED

if TYPE_CHECKING:
    from holdfast.client.definitions.app_definitions import Startable
    from holdfast.client.engine import Holdfast


Call = tuple[str, Pin, Payload, tuple[p.KeepCode, ...]]
"""A program's name, its pin, its arguments, and its code where the store may not have it."""


class Options(TypedDict, total=False):
    """What ``start`` takes beside the workflow and its arguments."""

    id: str | None
    tenant: str | None
    priority: int
    attributes: Mapping[str, str] | None
    workspace: str
    actor: str | None
    trigger: Trigger | None


class NotedOptions(Options, total=False):
    """What parts of the engine may give as well."""

    note: p.Note  # the audit's note, in place of the one that a person started a run


class Starter:
    """Starts the runs of one engine."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app
        self._served_names: set[str] = set()  # that a worker was seen to serve

    async def start(
        self, what: object, args: tuple[Any, ...], kwargs: dict[str, Any], options: NotedOptions
    ) -> RunHandle[Any]:
        """See ``Holdfast.start``."""
        if isinstance(what, Bound):
            if args or kwargs:
                raise InvalidRequest("the arguments are bound already: give all of them to bind(), or all to start().")
            args, kwargs, what = what.args, what.kwargs, what.workflow
        id, trigger = options.get("id"), options.get("trigger")
        origin = origin_of(options.get("workspace", ""), self._app.person_of(options.get("actor")), trigger)
        known = self._resolve(what)
        tenant = check_id(self._app.tenant_of(options.get("tenant")), "the tenant")
        if id is not None:
            run = await chosen_run_id(self._app.store, tenant, id)
        elif trigger is not None:
            started = str(what) if known is None else known.name
            run = check_id(await triggered_run_id(self._app.store, tenant, trigger, started), "the id")
        else:
            run = self._app.token()
        key = p.Key(tenant, run)
        priority, attributes = options.get("priority", 0), options.get("attributes") or {}
        _check_numbers_and_texts(priority, attributes)
        await check_workspace(self._app, tenant, origin.workspace)
        name, pin, input, keep = await self._called(what, known, tenant, args, kwargs)
        if pin == Pin():
            await self._check_known(name, key)
        birth = Birth(
            key=key,
            workflow=name,
            pin=pin,
            input=input,
            priority=priority,
            attributes=self._app.observation.traced(attributes),
            origin=origin,
            notes=self._notes(key, origin, options.get("note")),
            keep=keep,
            trigger=trigger,
        )
        answer = await self._commit(birth)
        handle = RunHandle(self._app, started_run(answer, birth), what if isinstance(what, Workflow) else None)
        handle.is_new = isinstance(answer, p.Started)
        return handle

    async def check_served(self, name: str, tenant: str | None) -> None:
        """Raises WorkflowUnknown where nobody could advance such a run: nothing of that name is known here or
        published, and no living worker serves it."""
        if self._app.workflow_named(name) is not None:
            return
        if await self._app.definitions.to_start(name, self._app.tenant_of(tenant)) is not None:
            return
        if not _served(name, await self._app.store.workers()):
            raise WorkflowUnknown(f"no workflow or definition {name!r} is known here, and no worker serves one.")

    async def _check_known(self, name: str, key: p.Key) -> None:
        """Raises WorkflowUnknown if workers are running and none of them knows the name, which is then misspelt.

        Where none is running, the run waits for one. A run that is there already is found, whoever serves it now.
        """
        if name in self._served_names:
            return
        now = self._app.clock.now()
        workers = [worker for worker in await self._app.store.workers() if worker.expires_at >= now]
        if _served(name, workers):
            self._served_names.add(name)
        elif workers and not await self._app.store.get([key]):
            names = sorted({served for worker in workers for served in worker.workflows if served != REVERSE})
            raise WorkflowUnknown(
                f"no workflow or definition {name!r} is known here, and no running worker serves one: correct the "
                f"name, or start a worker that has it{nearest(name, names)}"
            )

    async def call_by_name(self, reference: str, tenant: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """What a run of this workflow or definition is made of. Raises as ``start`` does."""
        return await self._called(reference, self._resolve(reference), tenant, args, kwargs)

    async def _called(
        self,
        what: object,
        known: Workflow[..., Any] | None,
        tenant: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Call:
        startable = None
        if isinstance(what, str):
            startable = await self._app.definitions.to_start(what, tenant)
        return self._call(what, known, startable, tenant, args, kwargs)

    def _call(
        self,
        what: object,
        known: Workflow[..., Any] | None,
        startable: Startable | None,
        tenant: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Call:
        """The program's name, its pin, the arguments, and its code. Raises InvalidArguments where it is known."""
        if startable is not None:
            start = self._app.definitions.start_of(startable, tenant, args, kwargs)
            return start.name, start.pin, start.payload, start.keep
        if known is not None:
            return known.name, Pin(digest=known.digest), known.signature.write_checked(args, kwargs), ()
        return str(what), Pin(), encode([args, kwargs], f"the arguments of {what}"), ()

    def _notes(self, key: p.Key, origin: p.Origin, note: p.Note | None) -> tuple[p.Note, ...]:
        """The audit's notes of the start: one where a person asks for it, none where a program does."""
        if note is not None:
            return (note,)
        if origin.actor is None:
            return ()
        cause = {} if origin.trigger_type is None else {"trigger": f"{origin.trigger_type}:{origin.trigger_ref}"}
        return (operator_note(self._app, key.tenant, "start", origin.actor, key.run, "", cause),)

    def _resolve(self, workflow: object) -> Workflow[..., Any] | None:
        if isinstance(workflow, str):
            return self._app.workflow_named(workflow)
        if not isinstance(workflow, Workflow):
            raise WorkflowUnknown(
                f"{workflow!r} is no workflow: decorate it with @workflow, or give a workflow's name."
            )
        served = self._app.workflows.get(workflow.name, workflow)
        if served is not workflow:
            raise DuplicateName(
                f"this engine serves another workflow called {workflow.name!r} ({served.module}.{served.qualname}): "
                f"give one of them another name, or make the engine with Holdfast(…, workflows=[{workflow.name}])."
            )
        return workflow

    async def _commit(self, birth: Birth) -> p.Answer:
        app = self._app
        if app.binding is not None:
            answer = await app.committer.commit(birth.start(app.clock.now()))
            app.wake_sealer()
            app.hint()
            return answer
        future: asyncio.Future[p.Answer] = asyncio.get_running_loop().create_future()
        begun = app.worker is not None and app.worker.begin(birth, into(future))
        if not begun:
            app.committer.submit(birth.start(app.clock.now()), into(future), CALLER_PATIENCE_SECONDS)
        answer = await future
        if birth.notes:
            app.wake_sealer()
        if not begun:
            app.hint()
        return answer


def started_run(answer: p.Answer, birth: Birth) -> p.Key:
    """The run that was started, or that was there. Raises RunConflict where the id, or the trigger, is another's."""
    key = birth.key
    if isinstance(answer, p.Retired):
        raise RunRetired(f"run id {key.run!r} was used before, and its evidence is kept: choose another id.")
    if not isinstance(answer, p.Exists):
        return key
    if answer.fingerprint != birth.fingerprint:
        other = "another id" if birth.trigger is None else "another trigger and another id"
        raise RunConflict(
            f"run {answer.run!r} of tenant {key.tenant!r} exists with another workflow or other arguments "
            f"(it runs {answer.workflow!r}): choose {other}, or start it with the same arguments."
        )
    return p.Key(key.tenant, answer.run)


def _served(name: str, workers: Sequence[p.WorkerRow]) -> bool:
    return any(worker.serves.takes(p.FUNCTION, name) for worker in workers)


def _check_numbers_and_texts(priority: object, attributes: Mapping[Any, object]) -> None:
    if not isinstance(priority, int) or not -(2**31) < priority < 2**31:
        raise InvalidRequest(f"priority is a whole number, not {priority!r}")
    if not all(isinstance(text, str) for pair in attributes.items() for text in pair):
        raise InvalidRequest("attributes are texts by name: convert numbers and dates to text")
    if reserved := [name for name in RESERVED if name in attributes]:
        raise InvalidRequest(f"the attribute {reserved[0]!r} is for instances: app.templates.start() gives it.")
