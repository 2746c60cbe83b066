"""Versions of definitions: whole numbers from 1 on, and which of them a reference means.

``letters`` and ``letters@latest`` mean the newest, ``letters@3`` that one, ``letters@>=2`` and ``letters@^2`` the
newest from 2 on.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from holdfast.errors import InvalidRequest

_REFERENCE = re.compile(r"(?P<name>[^@#\s]+)(?:@(?P<sign>\^|>=|)(?P<version>\d{1,9}|latest))?")


def parse_reference(reference: str) -> tuple[str, tuple[int, int | None]]:
    """The name, and the lowest and highest version that are meant. Raises InvalidRequest."""
    found = _REFERENCE.fullmatch(reference)
    if found is None or (found["sign"] and found["version"] == "latest"):
        raise InvalidRequest(f"a workflow is named as letters, letters@3 or letters@^2, not {reference!r:.60}")
    if found["version"] in (None, "latest"):
        return found["name"], (1, None)
    version = int(found["version"])
    return found["name"], (version, None if found["sign"] else version)


def means_itself(reference: str, name: str, version: int) -> bool:
    """Whether a reference in this version of a definition means that version. One that older versions fit means those:
    they are what there was when it was written."""
    called, (lowest, highest) = parse_reference(reference)
    return called == name and lowest == version and highest in (None, version)


def latest(versions: Collection[int], wanted: tuple[int, int | None]) -> int | None:
    """The newest version within the bounds; None where there is none."""
    lowest, highest = wanted
    fitting = [version for version in versions if version >= lowest and (highest is None or version <= highest)]
    return max(fitting, default=None)


def may_mean(reference: str, called: str) -> bool:
    """Whether a reference may have been resolved to this recorded name, ``letters@3#DIGEST`` or that of a function."""
    known, mark, _ = called.partition("#")
    if not mark:
        return reference == called
    name, (lowest, highest) = parse_reference(reference)
    version = int(known.rpartition("@")[2])
    return known.rpartition("@")[0] == name and version >= lowest and (highest is None or version <= highest)
