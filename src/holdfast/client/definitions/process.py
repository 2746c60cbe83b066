"""The process that reads what users send: it compiles definitions, imports documents and draws, on a budget.

Reading a megabyte that a user wrote can take minutes, or all memory. Here it takes ``BUDGET_SECONDS`` of processor
time and ``LARGEST_MEMORY`` at most: then the system ends the process, and another one is started. It has none of its
parent's environment, so no secrets, and answers only what it is asked.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from holdfast.errors import HoldfastError, InvalidDefinition, TooCostly
from holdfast.expressions.process import (
    BARE_ENVIRONMENT,
    CutOff,
    EvaluationProcess,
    ProcessEnded,
    cut_off,
    limit_memory,
    questions,
    reply,
)
from holdfast.programs.definition.compiler.faults import DefinitionFault

BUDGET_SECONDS: Final = 2.0
"""So much processor time reading what one request sends may take."""
PATIENCE_SECONDS: Final = 30.0
"""So long an answer is waited for by the clock, on a machine that gives the process no processor."""
LARGEST_MEMORY: Final = 1024**3

_LIMITS: Final = f"{BUDGET_SECONDS:.0f} s of processor time and {LARGEST_MEMORY // 1024**2:,} MiB of memory"


class ReaderBroken(Exception):
    """The process found a defect of Holdfast; the message is its trace."""


class ReaderProcess(EvaluationProcess):
    """A process that does the ``WORK`` of this module."""

    def __init__(self) -> None:
        super().__init__(__name__, None, PATIENCE_SECONDS, BARE_ENVIRONMENT)

    def work(self, name: str, question: bytes, seconds: float) -> tuple[bytes, float]:
        """The answer, and the processor time that it took. Raises TooCostly, what the work raises, and ReaderBroken."""
        try:
            verdict, data, spent = self.ask([name, question, seconds])
        except (CutOff, ProcessEnded):
            raise too_costly() from None
        if verdict == "broken":
            raise ReaderBroken(data.decode())
        if verdict == "failed":
            failure = msgspec.msgpack.decode(data, type=_Failure)
            raise failure.error()
        return data, spent


def too_costly() -> TooCostly:
    """The error of what is over the budget."""
    return TooCostly(f"reading this takes more than {_LIMITS}, which is the limit: send less, or something simpler.")


class _Failure(msgspec.Struct, frozen=True):
    """An error of Holdfast's, by the name of its class."""

    kind: str
    message: str
    faults: list[DefinitionFault] = []

    def error(self) -> HoldfastError:
        import holdfast.errors

        kind = getattr(holdfast.errors, self.kind)
        if issubclass(kind, InvalidDefinition):
            return InvalidDefinition(self.message, self.faults)
        found: HoldfastError = kind(self.message)
        return found


# -- in the process ----------------------------------------------------------------------------------------------------


def _compile(question: bytes) -> Any:
    from holdfast.client.definitions.compilation import compiled

    return compiled(question)


def _import(question: bytes) -> Any:
    from holdfast.client.definitions.compilation import imported

    return imported(question)


def _draw(question: bytes) -> Any:
    from holdfast.client.definitions.drawn import draw

    return draw(question)


def _write(question: bytes) -> Any:
    from holdfast.client.definitions.drawn import write

    return write(question)


def _text(question: bytes) -> Any:
    from holdfast.client.definitions.drawn import write_text

    return write_text(question)


WORK: Final[Mapping[str, Callable[[bytes], Any]]] = {
    "compile": _compile,
    "draw": _draw,
    "import": _import,
    "text": _text,
    "write": _write,
}
"""What it can be asked for. Questions and answers are msgpack."""


def _done(name: str, question: bytes) -> tuple[str, bytes]:
    try:
        return "done", msgspec.msgpack.encode(WORK[name](question))
    except HoldfastError as error:
        faults = [each for each in getattr(error, "faults", ()) if isinstance(each, DefinitionFault)]
        return "failed", msgspec.msgpack.encode(_Failure(type(error).__name__, str(error), faults))
    except (MemoryError, RecursionError):
        return "failed", msgspec.msgpack.encode(_Failure("TooCostly", str(too_costly())))
    except Exception:
        return "broken", traceback.format_exc().encode(errors="replace")


def main() -> None:
    """Answer questions until the input ends."""
    limit_memory(LARGEST_MEMORY)
    asked = questions(sys.stdin.buffer)
    next(asked)
    from holdfast.client.definitions.compilation import warm

    warm()
    reply("done", None)
    for name, question, seconds in asked:
        began = time.process_time()
        with cut_off(seconds):
            verdict, data = _done(name, question)
        reply("done", [verdict, data, time.process_time() - began])


if __name__ == "__main__":
    main()
