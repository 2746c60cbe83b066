"""The process that evaluates jq: the only module that imports the library.

It has none of its parent's environment, and no home: jq would read ``~/.jq``, and definitions in it would change what
an expression means. Its zone is UTC. An evaluation has a second of processor time; then the system ends the process.
"""

from __future__ import annotations

import signal
import sys
from collections import OrderedDict
from typing import Any, Final

from holdfast.expressions.process import questions, reply

EVALUATION_SECONDS: Final = 1.0
"""Processor time of one evaluation. A busy machine does not make an expression slow."""
LARGEST_RESULT: Final = 8 * 1024 * 1024
LARGEST_MEMORY: Final = 2 * 1024**3
_KEPT: Final = 256


class _Programs:
    """Compiled programs, the last used ones kept: compiling costs some milliseconds."""

    def __init__(self, compile: Any) -> None:
        self._compile = compile
        self._kept: OrderedDict[str, Any] = OrderedDict()

    def get(self, text: str) -> Any:
        found = self._kept.pop(text, None)
        if found is None:
            found = self._compile(text)
            if len(self._kept) >= _KEPT:
                self._kept.popitem(last=False)
        self._kept[text] = found
        return found


def _evaluated(programs: _Programs, text: str, input: str | None) -> list[Any]:
    try:
        program = programs.get(text)
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
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (LARGEST_MEMORY, LARGEST_MEMORY))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    asked = questions(sys.stdin.buffer)
    next(asked)
    import jq

    programs = _Programs(jq.compile)
    reply("done", None)
    for text, input in asked:
        signal.setitimer(signal.ITIMER_PROF, EVALUATION_SECONDS)
        answer = _evaluated(programs, text, input)
        signal.setitimer(signal.ITIMER_PROF, 0)
        reply("done", answer)


if __name__ == "__main__":
    main()
