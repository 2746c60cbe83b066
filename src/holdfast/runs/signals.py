"""Signals by name and key: a key is part of the name under which a signal is buffered and received."""

from __future__ import annotations

import json
from typing import Final

from holdfast.errors import InvalidRequest

KEY_MARK: Final = "#"
RESERVED: Final = "holdfast:"


def check_name(name: str) -> None:
    """Raises InvalidRequest for a name that only the engine itself may use."""
    if name.startswith(RESERVED):
        raise InvalidRequest(f"names of signals that begin with {RESERVED!r} are the engine's own: {name!r}")


def keyed(name: str, key: object = None) -> str:
    """The name under which a signal with this key is delivered. Raises InvalidRequest."""
    check_name(name)
    if key is None:
        return name
    if KEY_MARK in name:
        raise InvalidRequest(f"a signal with a key has no {KEY_MARK!r} in its name: {name!r}")
    text = key if isinstance(key, str) else json.dumps(key, sort_keys=True, ensure_ascii=False)
    return f"{name}{KEY_MARK}{text}"
