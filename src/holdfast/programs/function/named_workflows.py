"""``child``: a workflow that is called by its name. A definition has no function that could be called.

A reference (``letters``, ``letters@3``, ``letters@^2``) is resolved when the call is scheduled, and the journal keeps
what it was resolved to: a name, a version and a digest. A replay takes that, whatever has been deployed since. What is
not known in this process may be published: the turn fails, the worker asks the store, and takes the turn once more.
"""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar, overload

from holdfast.errors import InvalidDefinition, InvalidRequest, NotInWorkflow
from holdfast.journal.payload import ONCE, Payload
from holdfast.journal.promise import PromiseId
from holdfast.kernel.pen import Halt
from holdfast.programs.definition.versions import may_mean
from holdfast.programs.function.decorators import Durable, current
from holdfast.programs.function.durable_call import ChildCall, DurableCall
from holdfast.programs.function.failures import unwrap
from holdfast.programs.function.loop import DurableLoop, durable_loop
from holdfast.programs.function.values import decode, encode
from holdfast.runs.kinds.child import WORKFLOW

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)


class Directory(Protocol):
    """The programs that can be called by name."""

    def called(self, reference: str) -> str | None:
        """The name by which a call starts what a reference means now; None where it means nothing here.

        Raises InvalidRequest where it is no reference.
        """
        ...


class UnresolvedName(InvalidDefinition):
    """A name means nothing in this process, and the store was not asked yet."""

    def __init__(self, reference: str) -> None:
        super().__init__(f"what {reference!r} means is not known here: resume the run on a worker")
        self.reference = reference


class NamedWorkflow(Durable[R_co], Generic[R_co]):
    """A workflow by its name: a definition, or a function that another worker has. It is called like one."""

    kind = WORKFLOW

    def __init__(self, reference: str, result: Any) -> None:
        self.name = reference
        self.what = f"workflow {reference}"
        self.module = self.qualname = reference
        self._result = result

    def __call__(self, *args: Any, **kwargs: Any) -> ChildCall[R_co]:
        if durable_loop() is None:
            raise NotInWorkflow(
                f"{self.name} is a workflow: start it with app.start({self.name!r}, …). Calling it starts a child, and "
                "only another workflow can do that."
            )
        return DurableCall(self, args, kwargs)

    async def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R_co:
        loop, _ = current(self.name)
        return self.read_result(unwrap(await loop.promise(self.schedule(loop, args, kwargs)), self.what))

    def schedule(self, loop: DurableLoop, args: tuple[Any, ...], kwargs: dict[str, Any]) -> PromiseId:
        payload = self.write(args, kwargs)
        return loop.program.own(loop.scribe.invoke(WORKFLOW, self.called(loop, WORKFLOW), payload, ONCE))

    def write(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Payload:
        """A call's arguments, as they are recorded."""
        return encode([args, kwargs], f"the arguments of {self.name}")

    def called(self, loop: DurableLoop, kind: str) -> str:
        """The name that the call is recorded by. Raises InvalidDefinition, which parks the run, where it has none."""
        program, recorded = loop.program, loop.scribe.upcoming_call(kind)
        if recorded is not None and may_mean(self.name, recorded):
            return recorded
        found = self.name if program.directory is None else program.directory.called(self.name)
        if found is not None:
            return found
        if self.name not in program.names:
            loop.fault = loop.fault or UnresolvedName(self.name)
            raise Halt  # no author's ``except`` may take it for an answer
        found = program.names[self.name]
        if found is None and "@" in self.name:
            raise InvalidDefinition(
                f"there is no definition {self.name!r} here, and none is published in the tenant of the run: add it "
                "with app.definitions.add(…) or publish it, then resume the run"
            )
        return self.name if found is None else found  # a function of another worker

    def read_result(self, payload: Payload) -> R_co:
        value: R_co = decode(payload, self._result, f"the result of {self.name}")
        return value


@overload
def child(reference: str) -> NamedWorkflow[Any]: ...


@overload
def child(reference: str, result: type[T]) -> NamedWorkflow[T]: ...


def child(reference: str, result: Any = Any) -> NamedWorkflow[Any]:
    """A workflow by its name, to be called by a workflow function: ``await child("letters@^2")({"to": "ann"})``.

    ``reference`` is the name of a definition, with a version or a range if need be, or that of a workflow function.
    A definition takes one value, or named ones. ``result`` is the type that its result is read as.
    """
    given: object = reference
    if not isinstance(given, str) or not given.strip():
        raise InvalidRequest(f"a workflow is named as letters, letters@3 or letters@^2, not {reference!r:.60}")
    return NamedWorkflow(reference, result)
