"""The names of executors: who signs what came of an effect that a machine asks for."""

from __future__ import annotations

from holdfast.errors import InvalidFunction
from holdfast.journal.receipt_signatures import EXECUTOR


def named_executor(executor: str | None, what: str) -> str | None:
    """The name, as it is given. Raises InvalidFunction where it is none."""
    given: object = executor
    if given is not None and not (isinstance(given, str) and EXECUTOR.fullmatch(given)):
        raise InvalidFunction(f"{what}: executor= is a name of letters, digits, '.', '_' and '-', not {given!r:.60}")
    return executor
