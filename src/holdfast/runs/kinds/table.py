"""All kinds of invocation by name. A new one is one file, and one line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from holdfast.errors import EngineError
from holdfast.runs.kinds.action import ActionKind
from holdfast.runs.kinds.cells import CellsKind
from holdfast.runs.kinds.child import ChildKind
from holdfast.runs.kinds.detached import DetachedKind
from holdfast.runs.kinds.form import FormKind
from holdfast.runs.kinds.kind import Kind, Place
from holdfast.runs.kinds.signal import SignalKind
from holdfast.runs.kinds.step import StepKind

_ALL: Final[tuple[Kind, ...]] = (
    ActionKind(),
    CellsKind(),
    ChildKind(),
    DetachedKind(),
    FormKind(),
    SignalKind(),
    StepKind(),
)


class _Kinds(dict[str, Kind]):
    def __missing__(self, name: str) -> Kind:
        raise EngineError(f"no worker knows the invoke kind {name!r}")


KINDS: Final = _Kinds({kind.name: kind for kind in _ALL})

_UNKNOWN: Final = Kind()

kind_of: Final[Callable[[str], Kind]] = KINDS.__getitem__
"""The kind of that name. Raises EngineError: a worker can do nothing with a call that it does not know.

Every request of a turn is looked up, so this is the table's own lookup and no function around it."""


def readable_kind(name: str) -> Kind:
    """The kind of that name, to show a call. A call of an unknown kind is shown by its name alone."""
    return KINDS.get(name, _UNKNOWN)


def is_gated(name: str) -> bool:
    """Whether calls of that kind go through the gate: they leave a receipt, and a person may be asked."""
    return readable_kind(name).place(None) is Place.GATE
