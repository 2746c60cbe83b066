"""Where a call of a step, an action or a child was made, and whether anybody can still await it there."""

from __future__ import annotations

import dis
from types import CodeType
from typing import Final, NamedTuple


class CallSite(NamedTuple):
    """What was called, and the place in the code: cheap to take, looked up only for a complaint."""

    what: str
    code: CodeType
    instruction: int

    @property
    def line(self) -> int:
        """The line of the call."""
        lines = [line for start, _, line in self.code.co_lines() if start <= self.instruction and line is not None]
        return lines[-1] if lines else self.code.co_firstlineno

    def complaint(self) -> str:
        """What to say of a call that was never awaited."""
        place = f"{self.code.co_filename}, line {self.line}, in {self.code.co_name}"
        return (
            f"{self.what} was called and never awaited, so it was not done: {place}. Write `await` before the call, or "
            "`.close()` behind it if it is not wanted."
        )


def is_discarded(code: CodeType, instruction: int) -> bool:
    """Whether the code throws the value of this call away at once, so that nobody can await it."""
    known = _known.get((id(code), instruction))
    if known is None:
        known = _known[id(code), instruction] = (code, _next_is_pop(code, instruction))
    return known[1]


def _next_is_pop(code: CodeType, instruction: int) -> bool:
    following = (found for found in dis.get_instructions(code) if found.offset > instruction)
    return next((found.opname for found in following), "") == "POP_TOP"


_known: Final[dict[tuple[int, int], tuple[CodeType, bool]]] = {}
"""By a code's address: its own hash is slow to find. The code is kept, so that the address stays its own."""
