"""The code of a function, as far as runs record it."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable


def source_digest(function: Callable[..., object]) -> str:
    """A digest of the function's code: recorded with each run, so that a change of code can be seen."""
    try:
        source = inspect.getsource(function).encode()
    except (OSError, TypeError):
        source = function.__code__.co_code
    return hashlib.sha256(source).hexdigest()
