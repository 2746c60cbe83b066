"""How a visit of a node, or a line of nodes, is over; and the errors that definitions see."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.expressions.engine import CannotEvaluate
from holdfast.journal.error_classes import (
    AUTHORISATION,
    BUSINESS,
    CONSISTENCY,
    EXPRESSION,
    TIMEOUT,
    error_class,
    error_members,
    written_details,
)
from holdfast.journal.payload import Failure
from holdfast.programs.definition.model import Node

_PARKING: Final = frozenset({CONSISTENCY, EXPRESSION})
_TYPES: Final = {
    AUTHORISATION: "holdfast.errors:ActionDenied",
    BUSINESS: "holdfast.errors:BusinessError",
    CONSISTENCY: "holdfast.definition:InvalidDefinition",
    EXPRESSION: "holdfast.definition:InvalidDefinition",
    TIMEOUT: "holdfast.errors:NodeTimeout",
}


class NodeError(msgspec.Struct, frozen=True, array_like=True):
    """What went wrong in a node. ``kind`` is the error's class; ``type`` is empty where no call has failed."""

    kind: str
    message: str
    code: str = ""
    type: str = ""
    trace: str = ""
    node: str = ""
    details: Any = None

    def at(self, node: str) -> NodeError:
        """The same error, with the node that it began in."""
        return self if self.node else msgspec.structs.replace(self, node=node)

    @property
    def parks(self) -> bool:
        """Whether nobody but the author can mend it: where no handler catches it, the run waits for that."""
        return not self.type and self.kind in _PARKING

    @property
    def may_be_retried(self) -> bool:
        """Whether another attempt may go better. A denial stands, and so does a definition."""
        return not self.parks and self.kind != AUTHORISATION

    def shown(self) -> dict[str, Any]:
        """As the root ``error`` in expressions."""
        members = self.details if isinstance(self.details, dict) else {}
        return {
            **members,
            "class": self.kind,
            "message": self.message,
            "code": self.code,
            "type": self.type,
            "node": self.node,
            "details": self.details,
        }

    def failure(self) -> Failure:
        """As the journal keeps it, when the run fails of it."""
        type = self.type or _TYPES.get(self.kind, "holdfast.errors:StepFailed")
        members = {"class": self.kind, "code": self.code, "node": self.node, "details": self.details}
        return Failure(type, self.message, self.trace, written_details(members))


def expression_error(error: CannotEvaluate, node: Node) -> NodeError:
    """An expression of a node could not be evaluated."""
    return NodeError("expression", str(error), "EXPRESSION", node=node.name)


def error_of(failure: Failure) -> NodeError:
    """A recorded failure of a call as an error of its node."""
    members = error_members(failure)
    code = members.pop("code", None)
    details = members.pop("details", None)
    rest = {name: value for name, value in members.items() if name not in ("class", "node")}
    code = str(code or failure.type.rpartition(":")[2])
    shown = {**rest, **details} if isinstance(details, dict) else details if details is not None else rest or None
    return NodeError(error_class(failure), failure.message, code, failure.type, failure.trace, details=shown)


class Succeeded(msgspec.Struct, frozen=True, array_like=True, tag="succeeded"):
    """It went well. ``skipped`` is a node whose condition was false, or whose error a handler took care of."""

    value: Any = None
    skipped: bool = False


class Erred(msgspec.Struct, frozen=True, array_like=True, tag="erred"):
    """It failed."""

    error: NodeError


class Dropped(msgspec.Struct, frozen=True, array_like=True, tag="dropped"):
    """It was cancelled."""


class Finished(msgspec.Struct, frozen=True, array_like=True, tag="finished"):
    """It ended the run."""

    result: Any = None


NodeOutcome = Succeeded | Erred | Dropped | Finished

DONE: Final = Succeeded()
DROPPED: Final = Dropped()
