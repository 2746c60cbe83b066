"""What is read off a function when it is declared: whether its options fit together, and the digest of its code."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable

from holdfast.errors import InvalidFunction


def check_repeatable(function: object, undo: object, *, repeatable: bool) -> None:
    """A step that has something to undo is no reading one. Raises InvalidFunction."""
    if repeatable and undo is not None:
        name = getattr(function, "__name__", repr(function))
        raise InvalidFunction(f"step {name}: repeatable=True is for steps that only read, undo= for those that do not")


def source_digest(function: Callable[..., object]) -> str:
    """A digest of the function's code: recorded with each run, so that a change of code can be seen."""
    try:
        source = inspect.getsource(function).encode()
    except (OSError, TypeError):
        source = function.__code__.co_code
    return hashlib.sha256(source).hexdigest()
