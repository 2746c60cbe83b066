"""Whether the caller may: every public operation of the client is decorated with its name, and judged before it begins.

Where nobody is bound the decorator does nothing: the process is its own. Bound, the user and the token are read anew
for each operation, so what was changed a moment ago counts. Operations inside of an operation are not judged again: the
outer one is what was asked for. What is under way is known by the task that began it, so that a task which was started
meanwhile, and may be anybody's, is judged for itself.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from holdfast.errors import EngineError, InvalidRequest
from holdfast.people.caller import Caller
from holdfast.people.permissions import LEAST

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast
    from holdfast.client.people.binding import Binding

M = TypeVar("M", bound=Callable[..., Any])

AGAIN_SECONDS: Final = 1.0
"""A long list is judged again after this time, while it is read."""


class CallerChanged(Exception):
    """The user or the token was changed since the operation was judged, and nothing was committed: begin it again."""


class Judged:
    """An operation that is under way: its caller as judged, the operations that it will need later, and its task."""

    __slots__ = ("_task", "binding", "caller", "later", "operation")

    def __init__(self, binding: Binding, operation: str, caller: Caller) -> None:
        self.binding = binding
        self.operation = operation
        self.caller = caller
        self.later: dict[str, str] = {}
        self._task = _task_reference()

    async def judge_again(self) -> Caller:
        """The caller as of now, who may still do all of it. Raises as ``Binding.judge`` does."""
        caller = await self.binding.judge(self.operation)
        for name, thing in self.later.items():
            await self.binding.check_later(caller, name, thing)
        return caller

    @property
    def is_here(self) -> bool:
        """Whether the present task is the one that began it."""
        task = _task()
        return task is None if self._task is None else task is not None and self._task() is task


_UNDER_WAY: ContextVar[Judged | None] = ContextVar("holdfast_operation", default=None)


def operation(name: str) -> Callable[[M], M]:
    """Make a method of a client's class an operation of that name, which must be in ``people.permissions.LEAST``.

    It may be a coroutine, an asynchronous generator or a plain method. A plain method cannot read the store: it is
    judged by what is known from the last operation.
    """
    if name not in LEAST:
        raise EngineError(f"{name} is no operation: give it a level in people/permissions.py")

    def decorate(method: M) -> M:
        if inspect.isasyncgenfunction(method):
            wrapper: Any = _each(name, method)
        elif inspect.iscoroutinefunction(method):
            wrapper = _awaited(name, method)
        else:
            wrapper = _called(name, method)
        wrapper.operation = name
        return cast("M", wrapper)

    return decorate


def judged_now(binding: Binding) -> Judged:
    """The operation that is under way for this client. Raises EngineError where none is: nothing is done unjudged."""
    found = _UNDER_WAY.get()
    if found is None or found.binding is not binding:
        raise EngineError("a bound client was used outside of its operations")
    return found


async def require_later(app: Holdfast, thing: str, operations: Iterable[str]) -> None:
    """The caller may do these operations, which a thing will do later in their name. They are judged as the operation
    under way is: now, and again in its commit. Raises NotPermitted; no effect if no user is bound."""
    if app.binding is None:
        return
    judged = judged_now(app.binding)
    for name in operations:
        await app.binding.check_later(judged.caller, name, thing)
        judged.later[name] = thing


@asynccontextmanager
async def operating(app: Holdfast, name: str, tenant: str | None = None) -> AsyncIterator[None]:
    """Do several things as one operation, for code that is no method of a client."""
    binding = app.binding
    if binding is None or _is_inside(binding):
        yield
        return
    caller = await binding.judge(name, tenant)
    token = _UNDER_WAY.set(Judged(binding, name, caller))
    try:
        yield
    finally:
        _UNDER_WAY.reset(token)


def _awaited(name: str, method: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    @functools.wraps(method)
    async def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        binding = _binding(self)
        if binding is None or _is_inside(binding):
            return await method(self, *args, **kwargs)
        while True:
            caller = await binding.judge(name, _tenant_asked(self, kwargs))
            with _under_way(Judged(binding, name, caller)):
                try:
                    return await method(self, *args, **kwargs)
                except CallerChanged:
                    continue

    return call


def _each(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    async def each(self: Any, /, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        binding = _binding(self)
        async with aclosing(method(self, *args, **kwargs)) as items:
            if binding is None or _is_inside(binding):
                async for item in items:
                    yield item
                return
            judged, since = None, 0.0
            while True:
                now = asyncio.get_running_loop().time()
                if judged is None or now - since >= AGAIN_SECONDS:
                    judged = Judged(binding, name, await binding.judge(name, _tenant_asked(self, kwargs)))
                    since = now
                # Its reader's code runs between two items, in the same context: then nothing is under way.
                with _under_way(judged):
                    item = await anext(items, _END)
                if item is _END:
                    return
                yield item

    return each


def _called(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        binding = _binding(self)
        if binding is None or _is_inside(binding):
            return method(self, *args, **kwargs)
        caller = binding.judge_known(name)
        with _under_way(Judged(binding, name, caller)):
            return method(self, *args, **kwargs)

    return call


_END: Final = object()


def _binding(part: Any) -> Binding | None:
    app: Holdfast = getattr(part, "_app", part)
    return app.binding


def _tenant_asked(part: Any, kwargs: dict[str, Any]) -> str | None:
    """The tenant that the operation is about; None where the caller's own is meant."""
    asked = kwargs.get("tenant")
    if asked is None:
        asked = getattr(part, "tenant_asked", None)
    if asked is not None and not isinstance(asked, str):
        raise InvalidRequest(f"the tenant is a text, not {asked!r:.60}")
    return asked


def _task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # a plain method, called where no loop runs
        return None


def _task_reference() -> weakref.ref[asyncio.Task[Any]] | None:
    """Weak: whatever was started in an operation has its context, and must not keep its task for as long as it runs."""
    task = _task()
    return None if task is None else weakref.ref(task)


def _is_inside(binding: Binding) -> bool:
    found = _UNDER_WAY.get()
    return found is not None and found.binding is binding and found.is_here


@contextmanager
def _under_way(judged: Judged) -> Iterator[None]:
    token = _UNDER_WAY.set(judged)
    try:
        yield
    finally:
        _UNDER_WAY.reset(token)
