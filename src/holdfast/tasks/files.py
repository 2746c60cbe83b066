"""Files in answers. The answer names each by its name, media type, size and hash; the bytes are a blob of the task."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from holdfast.tasks.fields import FILE_MEMBERS

FILES_LIMIT: Final = 32 * 1024 * 1024
"""How many bytes the files of one answer may have together."""

_HASH: Final = re.compile("[0-9a-f]{64}")


class FileReference(msgspec.Struct, frozen=True, gc=False):
    """A file as an answer names it. ``sha256`` is hexadecimal."""

    name: str
    sha256: str
    size: int
    type: str

    @property
    def digest(self) -> bytes:
        """The digest under which its bytes are kept."""
        return bytes.fromhex(self.sha256)


def files_in(value: Any, place: str = "") -> Iterator[tuple[str, FileReference]]:
    """The files that an answer names, each with its JSON pointer, in order."""
    if isinstance(value, dict):
        if (found := _reference(value)) is not None:
            yield place, found
            return
        for name in sorted(value, key=str):
            yield from files_in(value[name], f"{place}/{str(name).replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from files_in(item, f"{place}/{index}")


def _reference(value: dict[Any, Any]) -> FileReference | None:
    if value.keys() != set(FILE_MEMBERS) or not _HASH.fullmatch(str(value["sha256"])):
        return None
    try:
        return msgspec.convert(value, FileReference)
    except msgspec.ValidationError:
        return None
