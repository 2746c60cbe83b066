"""One thing that ``doctor`` looked at, and what it found."""

from __future__ import annotations

from typing import Any

import msgspec


class Check(msgspec.Struct):
    """``good`` says that nothing is broken; with a ``warning`` something could still go wrong."""

    name: str
    good: bool
    detail: str
    facts: dict[str, Any] = {}
    warning: bool = False
