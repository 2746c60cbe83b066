"""Where a call of a step, an action or a child was made, and whether anybody can still await it there.

A place is a code and an instruction in it: cheap to take at every call, looked up only for a complaint.
"""

from __future__ import annotations

import dis
from types import CodeType
from typing import Final

CallSite = tuple[str, CodeType, int]
"""What was called, and where."""

DISCARDED: Final[dict[tuple[int, int], tuple[CodeType, bool]]] = {}
"""The places that were looked at, and whether they throw the call away. By a code's address: its own hash is slow to
find. The code is kept, so that the address stays its own."""


def is_discarded(code: CodeType, instruction: int) -> bool:
    """Whether the code throws the value of this call away at once, so that nobody can await it."""
    following = (found.opname for found in dis.get_instructions(code) if found.offset > instruction)
    discarded = next(following, "") == "POP_TOP"
    DISCARDED[id(code), instruction] = (code, discarded)
    return discarded


def complaint(what: str, code: CodeType, instruction: int) -> str:
    """What to say of a call that was never awaited."""
    lines = [line for start, _, line in code.co_lines() if start <= instruction and line is not None]
    line = lines[-1] if lines else code.co_firstlineno
    return (
        f"{what} was called and never awaited, so it was not done: {code.co_filename}, line {line}, in {code.co_name}. "
        "Write `await` before the call, or `.close()` behind it if it is not wanted."
    )
