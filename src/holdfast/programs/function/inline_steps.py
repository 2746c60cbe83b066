"""``perform``: a step that is written where it is called.

Its function exists in memory only. The journal has its name, its arguments and its outcome, as of any other step. So an
attempt needs a body that has reached the call: replay brings the body there before anything is begun.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

from holdfast.errors import InvalidFunction
from holdfast.journal.payload import ONCE, RetryPolicy
from holdfast.journal.promise import PromiseId
from holdfast.programs.function.declared import check_repeatable
from holdfast.programs.function.decorators import Step, check_step
from holdfast.programs.function.durable_call import DurableCall, StepCall
from holdfast.programs.function.loop import DurableLoop

P = ParamSpec("P")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")


class InlineStep(Step[P, R]):
    """A step of one call. It is not in the registry: the calling program keeps it until the call is settled."""

    def callee(self) -> object:
        return perform

    def schedule(self, loop: DurableLoop, args: tuple[Any, ...], kwargs: dict[str, Any]) -> PromiseId:
        promise = super().schedule(loop, args, kwargs)
        loop.program.inline[promise] = self
        return promise


def perform(
    name: str,
    function: Callable[[*Ts], Coroutine[Any, Any, R]],
    /,
    *args: *Ts,
    retry: RetryPolicy | None = None,
    retries: int | None = None,
    timeout: float | None = None,
    heartbeat_timeout: float | None = None,
    undo: Step[..., Any] | None = None,
    repeatable: bool = False,
) -> StepCall[R]:
    """Run an ``async def`` as a step, without decorating it: ``await perform("fetch", fetch, url, retries=3)``.

    It is a step in every respect. The journal keeps its name, arguments and result; the result is read as the
    function's annotated type; it is retried by ``retry`` or ``retries``; ``step_info().key`` is unique to this run and
    this call. It always runs in the worker that holds the run. Give values as arguments: variables of the surrounding
    code are not recorded, and a change that the function makes to one is not repeated in a replay.
    Raises InvalidFunction where the name is not usable or the function is no ``async def``.
    """
    if not isinstance(name, str):
        raise InvalidFunction(f"perform() takes the step's name first, a text, not {name!r:.60}")
    if not inspect.iscoroutinefunction(function) or not hasattr(function, "__qualname__"):
        raise InvalidFunction(
            f"perform({name!r:.60}, …) takes an `async def`, and its arguments behind it, not {function!r:.60}"
        )
    check_step(function, retry, retries, timeout, heartbeat_timeout, None, None, undo)
    check_repeatable(function, undo, repeatable=repeatable)
    if not name.strip():
        raise InvalidFunction(f"{name!r} is no usable name: use 1 to 200 characters")
    step: InlineStep[..., R] = InlineStep(
        function,
        name=name,
        retry=retry or (ONCE if retries is None else RetryPolicy(max_attempts=retries + 1)),
        timeout=timeout,
        heartbeat_timeout=heartbeat_timeout,
        queue=None,
        concurrency=None,
        undo=undo,
        repeatable=repeatable,
    )
    return DurableCall(step, args, {})
