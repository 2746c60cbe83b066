"""Errors that the author of a workflow or step must act on: the code must change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from holdfast.errors.root import HoldfastError


class AuthorError(HoldfastError):
    """The code of a workflow or step must change."""

    code = "author"
    http_status = 422


class InvalidFunction(AuthorError):
    """A decorator was given something that it cannot make durable."""

    code = "invalid_function"


class InvalidDefinition(AuthorError):
    """A definition cannot be accepted, or a run of it cannot go on. ``faults`` are all that is wrong with it."""

    code = "invalid_definition"

    def __init__(self, message: str, faults: Sequence[object] = ()) -> None:
        super().__init__(message)
        self.faults = tuple(faults)


class InvalidManifest(AuthorError):
    """A manifest of machines cannot be accepted. ``faults`` are all that is wrong with it, each with its place."""

    code = "invalid_manifest"

    def __init__(self, message: str, faults: Sequence[object] = ()) -> None:
        super().__init__(message)
        self.faults = tuple(faults)


class TooCostly(AuthorError):
    """What was sent takes too much processor time or memory to read: send less, or something simpler."""

    code = "too_costly"


class DuplicateName(AuthorError):
    """Two workflows, steps or schemas share one name: rename one with ``name=``, a schema with ``@schema``."""

    code = "duplicate_name"


class Unencodable(AuthorError):
    """A value cannot be written as data: return or pass plain data, a dataclass, a msgspec or pydantic model."""

    code = "unencodable"


class Undecodable(AuthorError):
    """Stored data does not fit the annotated type: make the annotation accept it."""

    code = "undecodable"


class PayloadTooLarge(AuthorError):
    """A value is over the payload limit: keep it outside and pass a reference."""

    code = "payload_too_large"
    http_status = 413


class BlockedLoop(AuthorError):
    """A workflow body did real I/O, began a thread or made a blocking call: move it into a step."""

    code = "blocked_loop"


class NotInWorkflow(AuthorError):
    """A call that only a workflow can make was made elsewhere."""

    code = "not_in_workflow"


class NotAwaited(AuthorError):
    """A step, an action or a child was called and the call was never awaited, so nothing was done: await it.

    A call that is not wanted any more is closed: ``call.close()``.
    """

    code = "not_awaited"


class Nondeterminism(AuthorError):
    """The code issued another command than the journal recorded at this point.

    Deploy the old code, guard the change with ``patched()``, or fork the run from an earlier sequence.
    """

    code = "nondeterminism"

    def __init__(self, sequence: int, recorded: str, issued: str) -> None:
        self.sequence = sequence
        self.recorded = recorded
        self.issued = issued
        super().__init__(
            f"the workflow's code no longer matches its journal at sequence {sequence}:\n"
            f"  - recorded: {recorded}\n"
            f"  + issued:   {issued}\n"
            "Deploy the code that wrote the journal, guard the change with patched(), or fork the run from before."
        )


class StepMissing(AuthorError):
    """A call that must not fail asks for a step or an action that the worker does not have.

    Start a worker whose code defines it: a run that is parked because of this goes on then.
    """

    code = "step_missing"
    REASON: ClassVar[str] = f"{code}: no step "
    """The beginning of the reason of a run's pause."""
    END: ClassVar[str] = " is here:"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"no step {name!r}{self.END} start a worker whose code defines it, and the run goes on.")

    @classmethod
    def reason_of(cls, name: str) -> str:
        """The reason of a run's pause up to ``END``, where this step is missing."""
        return f"{cls.REASON}{name!r}{cls.END}"


class RetryDiverged(AuthorError):
    """A retried run calls something with another input than the result has that was kept of it.

    Do it again (`retry --again NAME`), let the kept result count (`--keep NAME`), or mend the code and resume the run.
    """

    code = "retry_diverged"

    def __init__(self, name: str, kept: str, asked: str) -> None:
        self.name = name
        super().__init__(
            f"{name} was done before the retry with another input, and that was not undone:\n"
            f"  - kept:  {name}({kept})\n"
            f"  + asked: {name}({asked})\n"
            f"Say `retry --again {name}` to do it again, `retry --keep {name}` to let the kept result count for the "
            "new input, or `retry --new` to count no result that is left. Or mend the code, and resume the run."
        )
