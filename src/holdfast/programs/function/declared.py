"""What is read off a function when it is declared: whether its options fit together, and the digest of its code."""

from __future__ import annotations

from holdfast.errors import InvalidFunction


def check_repeatable(function: object, undo: object, *, repeatable: bool) -> None:
    """A step that has something to undo is no reading one. Raises InvalidFunction."""
    if repeatable and undo is not None:
        name = getattr(function, "__name__", repr(function))
        raise InvalidFunction(f"step {name}: repeatable=True is for steps that only read, undo= for those that do not")
