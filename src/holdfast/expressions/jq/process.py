"""The process that evaluates jq: the only module that imports the library.

It has none of its parent's environment, and no home: jq would read ``~/.jq``, and definitions in it would change what
an expression means. Its zone is UTC. An evaluation has a second of processor time; then the system ends the process.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import Any, Final

from holdfast.expressions.process import limit_memory, limited, questions, reply

EVALUATION_SECONDS: Final = 1.0
"""Processor time of one evaluation. A busy machine does not make an expression slow."""
LARGEST_RESULT: Final = 8 * 1024 * 1024
LARGEST_MEMORY: Final = 2 * 1024**3
_KEPT: Final = 256


_programs: OrderedDict[str, Any] = OrderedDict()
"""Compiled programs, the last used ones kept: compiling costs some milliseconds."""


def _program(text: str) -> Any:
    found = _programs.pop(text, None)
    if found is None:
        import jq

        found = jq.compile(text)
        if len(_programs) >= _KEPT:
            _programs.popitem(last=False)
    _programs[text] = found
    return found


def answer(text: str, input: str | None) -> list[Any]:
    """The result of a program over an input in JSON, or whether it is one if there is no input.

    For a process of which the processor time and the memory are limited: jq cannot be interrupted.
    """
    try:
        program = _program(text)
    except ValueError as error:
        return ["invalid", str(error)]
    if input is None:
        return ["valid"]
    try:
        values = iter(program.input_text(input))
        found = next(values, None)
        if found is None:
            return ["nothing"]
        if next(values, None) is not None:
            return ["several"]
    except ValueError as error:
        return ["failed", str(error)]
    return ["large"] if len(found) > LARGEST_RESULT else ["value", found]


def main() -> None:
    """Answer questions until the input ends: a program, and its input in JSON, or None to compile it alone."""
    limit_memory(LARGEST_MEMORY)
    asked = questions(sys.stdin.buffer)
    next(asked)
    import jq  # noqa: F401  # before the first question, whose time it must not take

    reply("done", None)
    for text, input in limited(asked, EVALUATION_SECONDS):
        reply("done", answer(text, input))


if __name__ == "__main__":
    main()
