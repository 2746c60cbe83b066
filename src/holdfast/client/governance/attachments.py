"""Files that a caller gives with an answer: read here, and named in the answer by their hash."""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidRequest
from holdfast.store.values import Blobs
from holdfast.tasks.files import FILES_LIMIT, FileReference, files_in

UNKNOWN_TYPE: Final = "application/octet-stream"


class Attachment(msgspec.Struct, frozen=True):
    """A file of an answer: its name, its bytes, and its media type, which is guessed from the name by default."""

    name: str
    data: bytes
    type: str = ""

    @property
    def sha256(self) -> str:
        """The hash of its bytes, hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()


class AttachedAnswer(msgspec.Struct, frozen=True):
    """An answer whose files are named by their hash, and the bytes of these files."""

    answer: Any
    blobs: Blobs


async def attach(answer: Any) -> AttachedAnswer:
    """Take the files out of an answer: each Path, Attachment or bytes. Raises InvalidRequest."""
    blobs: dict[bytes, bytes] = {}
    found = await _without_files(answer, "file", blobs)
    if sum(map(len, blobs.values())) > FILES_LIMIT:
        raise InvalidRequest(f"the files of an answer have at most {FILES_LIMIT // 2**20} MiB together")
    return AttachedAnswer(found, blobs)


def check_attached(attached: AttachedAnswer, plain: Any) -> list[tuple[str, str]]:
    """Problems of an answer that names files which did not come with it: a hash alone gives nobody a file."""
    return [
        (place, "this names a file by its hash: give the file itself")
        for place, file in files_in(plain)
        if file.digest not in attached.blobs
    ]


async def _without_files(value: Any, name: str, blobs: dict[bytes, bytes]) -> Any:
    if isinstance(value, Path):
        value = Attachment(value.name, await _content(value))
    elif isinstance(value, bytes | bytearray | memoryview):
        value = Attachment(name, bytes(value))
    if isinstance(value, Attachment):
        return _kept(value, blobs)
    if isinstance(value, dict):
        return {key: await _without_files(item, str(key), blobs) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [await _without_files(item, name, blobs) for item in value]
    return value


def _kept(file: Attachment, blobs: dict[bytes, bytes]) -> dict[str, Any]:
    given: tuple[object, object] = (file.name, file.data)
    if not isinstance(given[0], str) or not isinstance(given[1], bytes):
        raise InvalidRequest("an Attachment has a name, which is a text, and data, which are bytes")
    reference = FileReference(file.name, file.sha256, len(file.data), file.type or type_of(file.name))
    blobs[reference.digest] = file.data
    found: dict[str, Any] = msgspec.to_builtins(reference)
    return found


def type_of(name: str) -> str:
    """The media type that a file's name tells."""
    return mimetypes.guess_type(name)[0] or UNKNOWN_TYPE


async def _content(path: Path) -> bytes:
    try:
        return await asyncio.to_thread(_read, path)
    except OSError as error:
        raise InvalidRequest(f"the file {path} cannot be read: {error.strerror or error}") from error


def _read(path: Path) -> bytes:
    if path.stat().st_size > FILES_LIMIT:
        raise InvalidRequest(f"the file {path} has more than {FILES_LIMIT // 2**20} MiB, which is the limit")
    return path.read_bytes()
