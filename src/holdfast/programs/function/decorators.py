"""The decorators: a workflow is an ``async def`` that replays, a step is a function whose result is kept."""

from __future__ import annotations

import datetime
import inspect
import math
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Protocol, TypeVar, overload

from holdfast.errors import InvalidFunction, NotInWorkflow, Undecodable
from holdfast.journal.payload import ONCE, Payload, RetryPolicy
from holdfast.journal.promise import PromiseId
from holdfast.kernel.pen import Halt
from holdfast.programs.function.bound import Bound
from holdfast.programs.function.declared import check_repeatable
from holdfast.programs.function.durable_call import ChildCall, DurableCall, StepCall
from holdfast.programs.function.executor_names import named_executor
from holdfast.programs.function.failures import misfit, unwrap
from holdfast.programs.function.loop import DurableLoop, durable_loop
from holdfast.programs.function.program import FunctionProgram
from holdfast.programs.function.registry import Registry
from holdfast.programs.function.source import source_digest
from holdfast.programs.function.values import Signature
from holdfast.runs.kinds.child import WORKFLOW
from holdfast.runs.kinds.step import STEP

if TYPE_CHECKING:
    from holdfast.programs.function.named_workflows import Directory
    from holdfast.schedules.declarations import DeclaredSchedule

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


def current(what: str) -> tuple[DurableLoop, FunctionProgram]:
    """The loop and program of the calling workflow. Raises NotInWorkflow elsewhere."""
    loop = durable_loop()
    if loop is None:
        raise NotInWorkflow(f"{what} works only inside a workflow, and only outside its steps.")
    if loop.disposed:
        raise Halt
    return loop, loop.program


class KnowsSecrets(Protocol):
    """What a program remembers, so that no error of its run quotes a secret."""

    @property
    def secrets(self) -> set[str | bytes | int | float]: ...


class Durable(Generic[R_co]):
    """The base of everything that a workflow can call durably."""

    name: str
    kind: str
    signature: Signature
    function: Callable[..., Any]

    def __init__(self, function: Callable[..., Any], name: str | None) -> None:
        self.function = function
        self.name = name or function.__name__
        self.what = f"{self.kind} {self.name}"
        self.module = function.__module__
        self.qualname = function.__qualname__
        self.signature = Signature(function, self.name)
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__module__ = function.__module__
        self.__wrapped__ = function
        if not self.name.strip() or len(self.name) > 200:
            raise InvalidFunction(f"{self.name!r} is no usable name: use 1 to 200 characters")

    retry: RetryPolicy = ONCE
    queue: str | None = None

    def callee(self) -> object:
        """The object that an author's code calls to make a call of this."""
        return self

    def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Coroutine[Any, Any, R_co]:
        raise NotImplementedError

    def schedule(self, loop: DurableLoop, args: tuple[Any, ...], kwargs: dict[str, Any]) -> PromiseId:
        """Record the intent of a call; gives its promise id."""
        payload = self.signature.write(args, kwargs)
        return loop.program.own(loop.scribe.invoke(self.kind, self.name, payload, self.retry, self.queue))

    def read_result(self, payload: Payload) -> R_co:
        value: R_co = self.signature.read_result(payload)
        return value

    def __repr__(self) -> str:
        return f"<{self.what}>"


class Step(Durable[R_co], Generic[P, R_co]):
    """A function whose result is kept: once it has completed, it is never run again for that call."""

    kind = STEP
    not_done: frozenset[int] = frozenset()
    writes = False  # its effects outside are its author's responsibility: no gate judges them

    def __init__(
        self,
        function: Callable[P, Any],
        *,
        name: str | None,
        retry: RetryPolicy,
        timeout: float | None,
        heartbeat_timeout: float | None,
        queue: str | None,
        concurrency: int | None,
        undo: Step[..., Any] | None,
        executor: str | None = None,
        repeatable: bool = False,
    ) -> None:
        super().__init__(function, name)
        self.retry = retry
        self.timeout = timeout
        self.heartbeat_timeout = heartbeat_timeout
        self.queue = queue
        self.concurrency = concurrency
        self.undo = undo
        self.repeatable = repeatable
        self.executor = named_executor(executor, self.what)
        self.is_async = inspect.iscoroutinefunction(function)
        self.is_plain = self.is_async and timeout is None and heartbeat_timeout is None
        self.read = self.signature.read
        self.write_result = self.signature.write_result
        self._undo_takes = 0 if undo is None else _positional(undo.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> StepCall[R_co]:
        return DurableCall(self, args, kwargs)

    async def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R_co:
        loop = durable_loop()
        if loop is None:  # called by another step, a test or a script: just a function
            result = self.function(*args, **kwargs)
            value: R_co = await result if self.is_async else result
            return value
        if loop.disposed:
            raise Halt
        value = self.value_of(unwrap(await loop.promise(self.schedule(loop, args, kwargs)), self.what), loop.program)
        if loop.program.first_edition is not None:
            self.got(loop.program, value, args)
        return value

    def value_of(self, result: Payload, program: FunctionProgram) -> R_co:
        """The value that the body gets. Raises StepFailed if it does not fit the annotation: the call has succeeded, so
        it is undone, and not tried again. In older editions that raises Undecodable, which parks the run.
        """
        try:
            return self.read_result(result)
        except Undecodable as error:
            if program.edition < 2:
                raise
            raise misfit(error) from error

    def schedule(self, loop: DurableLoop, args: tuple[Any, ...], kwargs: dict[str, Any]) -> PromiseId:
        payload = self.write_call(args, kwargs, loop.program)
        invoke, repeatable = loop.scribe.invoke, self.repeatable
        promise = invoke(self.kind, self.name, payload, self.retry, self.queue, repeatable=repeatable)
        if self.undo is not None and loop.program.first_edition is None:
            loop.program.compensations.asked[promise] = (self, payload)
            loop.program.fresh.add(promise)
        return promise

    def write_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], program: KnowsSecrets) -> Payload:
        """A call's arguments, as they are recorded."""
        return self.signature.write(args, kwargs)

    def undo_call(self, result: Payload, input: Payload, program: FunctionProgram) -> tuple[Step[..., Any], Payload]:
        """The step that undoes a call with this result, and its arguments: the result, then as many of the call's
        arguments, in their order and with their defaults, as it takes. Raises where a value cannot be read or written.
        """
        if self.undo is None:
            raise InvalidFunction(f"{self.what} has no undo= any more, and a call of it must be undone: restore it")
        args, kwargs = self.signature.read(input)
        call = inspect.signature(self.function).bind(*args, **kwargs)
        call.apply_defaults()  # else an omitted argument would hide those after it
        read = self.signature.read_result if program.edition < 2 else self.signature.read_result_anyway
        values = (read(result), *call.args, *call.kwargs.values())
        return self.undo, self.undo.write_call(values[: self._undo_takes], {}, program)

    def got(self, program: FunctionProgram, value: Any, args: tuple[Any, ...]) -> None:
        """A task has got the value of a call. In the first edition a call can be undone from here on."""
        if self.undo is not None and program.first_edition is not None:
            program.first_edition.done(self.undo, (value, *args)[: self._undo_takes])


class Workflow(Durable[R_co], Generic[P, R_co]):
    """An ``async def`` that survives its process: rebuilt from its journal, it continues where it was."""

    kind = WORKFLOW

    def __init__(
        self,
        function: Callable[P, Any],
        *,
        name: str | None,
        schedule: str | datetime.timedelta | None = None,
        timezone: str | None = None,
        cleanup_timeout: float | None = None,
    ) -> None:
        super().__init__(function, name)
        if cleanup_timeout is not None and not 0 < cleanup_timeout < math.inf:
            raise InvalidFunction(f"workflow {self.name}: cleanup_timeout= is more than 0 seconds")
        self.cleanup_timeout = cleanup_timeout
        self.digest = source_digest(function)
        self.scheduled: DeclaredSchedule | None = None
        if schedule is not None or timezone is not None:
            from holdfast.programs.function.scheduled import declaration  # cron is loaded where it is used

            self.scheduled = declaration(self.name, self.signature, schedule, timezone)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> ChildCall[R_co]:
        if durable_loop() is None:
            raise NotInWorkflow(
                f"{self.name} is a workflow: start it with app.start({self.name}, …). Calling it starts a child, and "
                "only another workflow can do that."
            )
        return DurableCall(self, args, kwargs)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Bound[R_co]:
        """This workflow with its arguments, for ``app.start(workflow.bind(…), id=…)``."""
        return Bound(self, args, kwargs)

    async def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R_co:
        loop, _ = current(self.name)
        return self.read_result(unwrap(await loop.promise(self.schedule(loop, args, kwargs)), self.what))

    def program(self, directory: Directory | None = None) -> FunctionProgram:
        """A fresh program for one run. ``directory`` has what it can call by name."""
        return FunctionProgram(self, directory)


STEPS: Final[Registry[Step[..., Any]]] = Registry("step")
WORKFLOWS: Final[Registry[Workflow[..., Any]]] = Registry("workflow")


@overload
def workflow(function: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...


@overload
def workflow(
    *,
    name: str | None = None,
    schedule: str | datetime.timedelta | None = None,
    timezone: str | None = None,
    cleanup_timeout: float | None = None,
) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Workflow[P, R]]: ...


def workflow(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    schedule: str | datetime.timedelta | None = None,
    timezone: str | None = None,
    cleanup_timeout: float | None = None,
) -> Any:
    """Make an ``async def`` a workflow. Runs find it by its name, by default the function's: keep the name.

    With ``schedule``, a cron line on the clocks of a ``timezone`` or an interval, workers that serve it start it by
    themselves, without arguments. A run that fails or is cancelled waits for its children to end, ``cleanup_timeout``
    seconds where that is given. Raises InvalidFunction.
    """

    def decorate(function: Callable[..., Any]) -> Workflow[..., Any]:
        if not inspect.iscoroutinefunction(function):
            raise InvalidFunction(
                f"a workflow is an `async def`; {getattr(function, '__name__', function)!r} is not one. "
                "Plain functions make good steps: @step."
            )
        definition: Workflow[..., Any] = Workflow(
            function, name=name, schedule=schedule, timezone=timezone, cleanup_timeout=cleanup_timeout
        )
        WORKFLOWS.add(definition)
        return definition

    return decorate if function is None else decorate(function)


@overload
def step(function: Callable[P, Coroutine[Any, Any, R]], /) -> Step[P, R]: ...


@overload
def step(function: Callable[P, R], /) -> Step[P, R]: ...


@overload
def step(
    *,
    name: str | None = None,
    retry: RetryPolicy | None = None,
    retries: int | None = None,
    timeout: float | None = None,
    heartbeat_timeout: float | None = None,
    queue: str | None = None,
    concurrency: int | None = None,
    undo: Step[..., Any] | None = None,
    executor: str | None = None,
    repeatable: bool = False,
) -> _Decorator: ...


def step(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    retry: RetryPolicy | None = None,
    retries: int | None = None,
    timeout: float | None = None,
    heartbeat_timeout: float | None = None,
    queue: str | None = None,
    concurrency: int | None = None,
    undo: Step[..., Any] | None = None,
    executor: str | None = None,
    repeatable: bool = False,
) -> Any:
    """Make a function a step.

    ``retry`` is the policy for attempts that raise (``retries=n`` is short for n more attempts); without either it is
    tried once. ``timeout`` limits one attempt, ``heartbeat_timeout`` the time between two calls of ``heartbeat()``.
    With ``queue`` it runs only in workers that serve that queue, at most ``concurrency`` at once in each.
    ``undo`` is a step that undoes a success when the workflow later fails or is cancelled. ``executor`` names who signs
    what comes of it where a machine asks for it. ``repeatable`` is a step that only reads: a retried run does it again,
    where it takes the results of other steps that were not undone.
    """

    def decorate(function: Callable[..., Any]) -> Step[..., Any]:
        check_step(function, retry, retries, timeout, heartbeat_timeout, queue, concurrency, undo)
        check_repeatable(function, undo, repeatable=repeatable)
        policy = retry or (ONCE if retries is None else RetryPolicy(max_attempts=retries + 1))
        definition: Step[..., Any] = Step(
            function,
            name=name,
            retry=policy,
            timeout=timeout,
            heartbeat_timeout=heartbeat_timeout,
            queue=queue,
            concurrency=concurrency,
            undo=undo,
            executor=executor,
            repeatable=repeatable,
        )
        STEPS.add(definition)
        return definition

    return decorate if function is None else decorate(function)


class _Decorator:
    """The type of ``step(…)``: async and plain functions both become steps of their result."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Step[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Step[P, R]: ...

    def __call__(self, function: Callable[..., Any], /) -> Any:
        raise NotImplementedError


def check_step(
    function: object,
    retry: RetryPolicy | None,
    retries: int | None,
    timeout: float | None,
    heartbeat_timeout: float | None,
    queue: str | None,
    concurrency: int | None,
    undo: object,
    what: str = STEP,
) -> None:
    """Refuse a declaration that no worker could carry out. Raises InvalidFunction."""
    name = getattr(function, "__name__", repr(function))
    problem = None
    if not callable(function) or not hasattr(function, "__name__"):
        problem = f"{_a(what)} is a function"
    elif inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        problem = f"{_a(what)} returns once; a generator does not"
    elif retry is not None and retries is not None:
        problem = "give retry= or retries=, not both"
    elif retries is not None and retries < 0:
        problem = "retries is 0 or more"
    elif any(seconds is not None and seconds <= 0 for seconds in (timeout, heartbeat_timeout)):
        problem = "timeout and heartbeat_timeout are more than 0 seconds"
    elif concurrency is not None and (queue is None or concurrency < 1):
        problem = "concurrency is 1 or more, and goes with queue="
    elif undo is not None and not isinstance(undo, Step):
        problem = "undo is a step: decorate it with @step"
    if problem is not None:
        raise InvalidFunction(f"{what} {name}: {problem}")


def _a(what: str) -> str:
    return f"an {what}" if what[0] in "aeiou" else f"a {what}"


def _positional(function: Callable[..., object]) -> int:
    kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return 1_000
    return sum(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds)
