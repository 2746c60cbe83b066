"""The starter: what is asked for becomes a run, or is refused before anything is written."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from holdfast.client.handle import RunHandle
from holdfast.errors import DuplicateName, InvalidRequest, RunConflict, RunRetired, WorkflowUnknown
from holdfast.programs.function.decorators import Bound, Workflow
from holdfast.programs.function.values import encode
from holdfast.runs.birth import DEFAULT_TENANT, Birth, Pin, Trigger, check_id, origin_of
from holdfast.store import protocol as p
from holdfast.store.committer import CALLER_PATIENCE_SECONDS, into

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast


class Options(TypedDict, total=False):
    """What ``start`` takes beside the workflow and its arguments."""

    id: str | None
    tenant: str
    priority: int
    attributes: Mapping[str, str] | None
    workspace: str
    actor: str | None
    trigger: Trigger | None


class NotedOptions(Options, total=False):
    """What the engine's own callers may say beside them."""

    note: p.Note  # what the audit says instead of that a person started a run


class Starter:
    """Starts the runs of one engine."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app

    async def start(
        self, what: object, args: tuple[Any, ...], kwargs: dict[str, Any], options: NotedOptions
    ) -> RunHandle[Any]:
        """See ``Holdfast.start``."""
        if isinstance(what, Bound):
            if args or kwargs:
                raise InvalidRequest("the arguments are bound already: give all of them to bind(), or all to start().")
            args, kwargs, what = what.args, what.kwargs, what.workflow
        id, trigger = options.get("id"), options.get("trigger")
        origin = origin_of(options.get("workspace", ""), options.get("actor"), trigger)
        known = self._resolve(what)
        chosen = id
        if id is None and trigger is not None:
            chosen = trigger.run_id(str(what) if known is None else known.name)
        tenant = check_id(options.get("tenant", DEFAULT_TENANT), "the tenant")
        key = p.Key(tenant, check_id(chosen, "the id") if chosen is not None else self._app.token())
        priority, attributes = options.get("priority", 0), options.get("attributes") or {}
        _check_numbers_and_texts(priority, attributes)
        name, digest, input = _call(what, known, args, kwargs)
        birth = Birth(
            key=key,
            workflow=name,
            pin=Pin(digest=digest),
            input=input,
            priority=priority,
            attributes=attributes,
            origin=origin,
            notes=self._notes(key, origin, options.get("note")),
        )
        _check_answer(await self._bring_about(birth), birth, by_trigger_alone=not id and trigger is not None)
        return RunHandle(self._app, key, what if isinstance(what, Workflow) else None)

    def _notes(self, key: p.Key, origin: p.Origin, note: p.Note | None) -> tuple[p.Note, ...]:
        """What the audit says of it: a start is noted where a person asks for it. A program's own starts are not."""
        if note is not None:
            return (note,)
        if origin.actor is None:
            return ()
        cause = {} if origin.trigger_type is None else {"trigger": f"{origin.trigger_type}:{origin.trigger_ref}"}
        return (self._app.told(key.tenant, "start", origin.actor, key.run, "", cause),)

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

    async def _bring_about(self, birth: Birth) -> p.Answer:
        app = self._app
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


def _call(what: object, known: Workflow[..., Any] | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The workflow's name, the digest of its code, and the arguments. Raises InvalidArguments where it is known."""
    if known is None:
        return str(what), "", encode([args, kwargs], f"the arguments of {what}")
    return known.name, known.digest, known.signature.write_checked(args, kwargs)


def _check_answer(answer: p.Answer, birth: Birth, *, by_trigger_alone: bool) -> None:
    """Raises RunConflict where the id is taken. What a trigger started before is found, whatever the arguments."""
    key = birth.key
    if isinstance(answer, p.Retired):
        raise RunRetired(f"run id {key.run!r} was used before, and its evidence is kept: choose another id.")
    if isinstance(answer, p.Exists) and answer.fingerprint != birth.fingerprint and not by_trigger_alone:
        raise RunConflict(
            f"run {key.run!r} of tenant {key.tenant!r} exists with another workflow or other arguments "
            f"(it runs {answer.workflow!r}): choose another id, or start it with the same arguments."
        )


def _check_numbers_and_texts(priority: object, attributes: Mapping[Any, object]) -> None:
    if not isinstance(priority, int) or not -(2**31) < priority < 2**31:
        raise InvalidRequest(f"priority is a whole number, not {priority!r}")
    if not all(isinstance(text, str) for pair in attributes.items() for text in pair):
        raise InvalidRequest("attributes are texts by name: convert numbers and dates to text")
