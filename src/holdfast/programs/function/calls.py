"""The functions that a workflow body can call besides its steps."""

from __future__ import annotations

import datetime
import uuid as uuids
from typing import Any, Final, NoReturn, TypeVar, overload

from holdfast.errors import InvalidRequest
from holdfast.journal.payload import RetryPolicy
from holdfast.programs.function.decorators import Workflow, current
from holdfast.programs.function.failures import ContinueAsNew
from holdfast.programs.function.joinset import JoinSet
from holdfast.programs.function.named_workflows import NamedWorkflow
from holdfast.programs.function.values import decode, encode
from holdfast.runs.kinds import detached, signal
from holdfast.runs.signals import check_name

T = TypeVar("T")

_PATIENT: Final = RetryPolicy(max_attempts=1_000, initial=0.2, maximum=30.0)


@overload
async def receive(name: str) -> Any: ...


@overload
async def receive(name: str, kind: type[T]) -> T: ...


async def receive(name: str, kind: Any = Any) -> Any:
    """The oldest signal of that name that was not received yet, read as ``kind``; waits until there is one."""
    loop, program = current("receive()")
    check_name(name)
    promise, payload = loop.scribe.receive(name)
    if payload is None:
        program.signals[promise] = name
        try:
            payload = await program.value(promise, f"signal {name}")
        finally:
            program.signals.pop(promise, None)
    return decode(payload, kind, f"signal {name!r}")


async def send(run: str, name: str, value: object = None) -> None:
    """Send a signal to another run of the same tenant, exactly once. Raises where that run is unknown or has ended."""
    loop, program = current("send()")
    check_name(name)
    payload = encode(signal.written(run, name, value), f"signal {name!r}")
    promise = loop.scribe.invoke(signal.SIGNAL, name, payload, _PATIENT)
    await program.value(promise, f"sending signal {name!r} to {run}")


async def spawn(
    workflow: Workflow[..., Any] | NamedWorkflow[Any], *args: Any, id: str | None = None, **kwargs: Any
) -> str:
    """Start an independent run, exactly once, and give its id. Its result and its errors do not come back here.

    A definition is given by its name: ``spawn(child("letters@^2"), {"to": "ann"})``.
    """
    loop, program = current("spawn()")
    if isinstance(workflow, NamedWorkflow):
        name, arguments = workflow.called(loop, detached.DETACHED), workflow.write(args, kwargs)
    else:
        name, arguments = workflow.name, workflow.signature.write(args, kwargs)
    payload = encode(detached.written(name, id, arguments.data), f"the start of {workflow.name}")
    promise = loop.scribe.invoke(detached.DETACHED, name, payload, _PATIENT)
    started: str = decode(await program.value(promise, f"starting {workflow.name}"), str)
    return started


def continue_as_new(*args: Any, **kwargs: Any) -> NoReturn:
    """End this journal and continue with a fresh one: same run, same id, new arguments.

    The new generation takes over the signals that were not received. It also takes over the successes that have an
    ``undo=``, unless ``keep_done()`` was called.
    """
    current("continue_as_new()")
    raise ContinueAsNew(args, kwargs)


def keep_done() -> None:
    """Declare all successes so far as final: they are not undone when the run later fails or is cancelled.

    A run that continues as new takes over its successes, to undo them if a later generation fails. A run that continues
    for ever and has a step with ``undo=`` calls this at the end of each round.
    """
    _, program = current("keep_done()")
    program.keep_done()


def now() -> datetime.datetime:
    """The current time (UTC), the same in every replay."""
    loop, _ = current("now()")
    return datetime.datetime.fromtimestamp(loop.scribe.now() / 1e6, datetime.UTC)


def random() -> float:
    """A random number in [0, 1), the same in every replay."""
    loop, _ = current("random()")
    return int.from_bytes(loop.scribe.random(7)) / (1 << 56)


def uuid() -> uuids.UUID:
    """A random UUID (version 4), the same in every replay."""
    loop, _ = current("uuid()")
    return uuids.UUID(bytes=loop.scribe.random(16), version=4)


def join_set() -> JoinSet[Any]:
    """A set of concurrent calls whose results are taken in the order in which they are settled."""
    return JoinSet()


def patched(name: str) -> bool:
    """Whether this run takes the new branch of a code change: true for runs that reach this point from now on."""
    loop, program = current("patched()")
    if not name:
        raise InvalidRequest("patched() needs a name for the change")
    if name not in program.patches:
        program.patches[name] = loop.scribe.patched(name)
    return program.patches[name]
