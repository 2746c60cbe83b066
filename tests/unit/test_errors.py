"""The errors: the drawn tree is the real one."""

from __future__ import annotations

import pickle
import re

from holdfast import errors
from holdfast.programs.function.failures import describe


def _drawn() -> dict[str, str]:
    """Each class of the drawing with the class that it is drawn under."""
    above: dict[int, str] = {}
    found: dict[str, str] = {}
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"    ((?:[│ ]   )*(?:[├└]── )?)([A-Z]\w+)", line):
            depth = len(match[1]) // 4
            above[depth] = match[2]
            if depth:
                found[match[2]] = above[depth - 1]
    return found


def test_the_drawn_tree_is_the_real_one() -> None:
    """Whoever reads the drawing sees every class, below the class that it is caught by."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    real = {kind.__name__: kind.__bases__[0].__name__ for kind in kinds if kind.__bases__[0] is not Exception}
    assert _drawn() == real


def test_every_error_is_known_by_the_module_that_journals_record() -> None:
    """Wherever its code stands: a recorded name is found again, and an error of today is recorded like an old one."""
    for name in errors.__all__:
        kind = getattr(errors, name)
        assert (kind.__module__, kind.__qualname__) == ("holdfast.errors", name)
        assert pickle.loads(pickle.dumps(kind)) is kind
    failure = describe(errors.TaskExpired("too late"))
    assert failure.type == "holdfast.errors:TaskExpired"
