"""The place where a call of a step, an action or a child was made, and whether the code there can still await it.

A place is a code object and an instruction in it. It is cheap to take at every call; its line is looked up only for an
error.
"""

from __future__ import annotations

import ast
import builtins
import dis
import linecache
from itertools import islice
from types import CodeType, FrameType
from typing import Final

CallSite = tuple[str, CodeType, int]
"""The called function, and the place of the call."""

DISCARDED: Final[dict[tuple[int, int], tuple[CodeType, bool]]] = {}
"""The places that were examined, and whether they discard the call. Keyed by the code's address, because its hash is
slow. The code is kept, so that its address is not reused."""

MOST_KNOWN: Final = 10_000


def is_discarded(frame: FrameType, called: object) -> bool:
    """Whether the frame itself calls this at its present instruction and discards the value, so that nothing can await
    it.

    In doubt the answer is no: ``map()`` or the like may make the call and keep the value.
    """
    code, instruction = frame.f_code, frame.f_lasti
    following = (each.opname for each in dis.get_instructions(code) if each.offset > instruction)
    discarded = next(following, "") == "POP_TOP" and _callee(frame) is called
    if len(DISCARDED) >= MOST_KNOWN:
        DISCARDED.clear()
    DISCARDED[id(code), instruction] = (code, discarded)
    return discarded


def _callee(frame: FrameType) -> object:
    """The object that the frame's source calls at its present instruction; None where that is unknown."""
    first, last, start, end = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    if first is None or last is None or start is None or end is None:
        return None
    lines = [line.encode() for line in linecache.getlines(frame.f_code.co_filename)[first - 1 : last]]
    if not lines:
        return None
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    try:
        expression = ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return _value_of(expression.func, frame) if isinstance(expression, ast.Call) else None


def _value_of(node: ast.expr, frame: FrameType) -> object:
    match node:
        case ast.Name(id=name):
            for names in (frame.f_locals, frame.f_globals, vars(builtins)):
                if name in names:
                    return names[name]
        case ast.Attribute(value=value, attr=attribute):
            return getattr(_value_of(value, frame), attribute, None)
    return None


def complaint(what: str, code: CodeType, instruction: int) -> str:
    """The message about a call that was never awaited."""
    lines = [line for start, _, line in code.co_lines() if start <= instruction and line is not None]
    line = lines[-1] if lines else code.co_firstlineno
    return (
        f"{what} was called and never awaited, so it was not done: {code.co_filename}, line {line}, in {code.co_name}. "
        "Write `await` before the call, or `.close()` behind it if it is not wanted."
    )
