"""One check of ``doctor``, and its result."""

from __future__ import annotations

from typing import Any

import msgspec


class Check(msgspec.Struct):
    """``good`` means that nothing is broken; with a ``warning`` something could still go wrong."""

    name: str
    good: bool
    detail: str
    facts: dict[str, Any] = {}
    warning: bool = False
