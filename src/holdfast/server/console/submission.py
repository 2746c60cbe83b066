"""The form that a browser sends, read from the body of a request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from starlette.datastructures import FormData
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from holdfast.errors import BodyTooLarge, MalformedRequest

FIELDS: Final = 1000
FILES: Final = 100
FIELD_BYTES: Final = 2**20


@asynccontextmanager
async def submitted(
    request: Request, limit: int, *, fields: int = FIELDS, field_bytes: int = FIELD_BYTES
) -> AsyncIterator[FormData]:
    """The form, of so many bytes at most; its files are there until the end of the context.

    Raises BodyTooLarge, before anything is read, where it is larger or does not say how large it is, and
    MalformedRequest.
    """
    length = request.headers.get("content-length", "")
    if not length.isdecimal() or int(length) > limit:
        raise BodyTooLarge(f"a form says how large it is, and has {limit} bytes at most.")
    try:
        form = await request.form(max_fields=fields, max_files=FILES, max_part_size=field_bytes)
    except MultiPartException as error:
        raise MalformedRequest(f"the form cannot be read: {error.message}", [("body", error.message)]) from None
    try:
        yield form
    finally:
        await form.close()
