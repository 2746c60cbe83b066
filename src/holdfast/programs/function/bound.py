"""A workflow with its arguments, before it is started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from holdfast.programs.function.decorators import Workflow

R_co = TypeVar("R_co", covariant=True)


class Bound(Generic[R_co]):
    """A workflow together with its arguments. It is not started or checked yet."""

    __slots__ = ("args", "kwargs", "workflow")

    def __init__(self, workflow: Workflow[..., R_co], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.workflow = workflow
        self.args = args
        self.kwargs = kwargs
