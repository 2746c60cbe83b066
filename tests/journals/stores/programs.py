"""The workflows behind the kept databases. Never change one, never remove one, only add.

They use public names alone, so that the version that made a database and the present one both have them.
``HANGS``, ``BROKEN`` and ``CHANGED`` say what is wrong with the world while a database is made.
"""

from __future__ import annotations

import asyncio
from typing import Final

from holdfast import StepFailed, TerminalError, action, continue_as_new, receive, step, workflow

LARGE: Final = 33_000
"""Characters; more than what a journal keeps in itself."""

QUEUE: Final = "kept"

HANGS: set[str] = set()
"""Whatever is named here is begun and never ends."""

BROKEN: set[str] = set()
"""Whatever is named here fails for good."""

CHANGED: set[str] = set()
"""The workflows named here are other code than what their journals were written by."""


async def _do(name: str) -> None:
    if name in BROKEN:
        raise TerminalError(f"{name} is broken")
    if name in HANGS:
        await asyncio.Event().wait()


@step(name="kept.note")
async def note(text: str) -> str:
    await _do(text)
    return text


@step(name="kept.queued_note", queue=QUEUE)
async def queued_note(text: str) -> str:
    return text


@step(name="kept.release")
async def release(seat: str) -> str:
    await _do(f"release {seat}")
    return f"{seat} is free"


@step(name="kept.reserve", undo=release)
async def reserve(seat: str) -> str:
    return seat


@action(connector="shop", operation="order", target="{item}", name="kept.order")
async def order(item: str, remark: str = "") -> str:
    await _do(item)
    return f"{item} ordered"


@action(connector="shop", operation="book", idempotency_key="book:{item}", safe_to_retry=True, name="kept.book")
async def book(item: str) -> str:
    await _do(item)
    return item + "." * LARGE


@workflow(name="kept.signalled")
async def signalled(text: str, *, signals: int = 1) -> list[str]:
    """Waits for signals. With ``text`` it has arguments, a result and signals that may be large."""
    first = await note(text)
    return [first, *[await receive("go", str) for _ in range(signals)]]


@workflow(name="kept.slept")
async def slept() -> str:
    await asyncio.sleep(3600)
    return await note("awake")


@workflow(name="kept.parent")
async def parent() -> list[str]:
    return await signalled("child")


@workflow(name="kept.ordering")
async def ordering(item: str, remark: str = "") -> str:
    return await order(item, remark)


@workflow(name="kept.booking")
async def booking(item: str) -> str:
    return (await book(item)).rstrip(".")


@workflow(name="kept.queueing")
async def queueing() -> str:
    return await queued_note("from the queue")


@workflow(name="kept.changing")
async def changing() -> str:
    await note("other" if "kept.changing" in CHANGED else "first")
    return await receive("go", str)


@workflow(name="kept.failing")
async def failing() -> str:
    await note("before")
    return await note("mended")


@workflow(name="kept.travelling")
async def travelling() -> str:
    await reserve("12A")
    await reserve("12B")
    raise TerminalError("no hotel")


@workflow(name="kept.counting")
async def counting(count: int) -> int:
    if count < 2:
        continue_as_new(count + 1)
    return count + len(await receive("go", str))


@workflow(name="kept.forgiving")
async def forgiving() -> str:
    try:
        return await note("forgiven")
    except StepFailed as error:
        return str(error)


CLAIM = {
    "holdfast": "definition/1",
    "name": "kept.claim",
    "version": 1,
    "reference": '="C-" + start.no',
    "tasks": {"well": {"title": "Well?", "form": {"type": "object"}}},
    "steps": [
        {"noted": {"step": "kept.note", "with": {"text": "=start.no"}, "as": "state.noted"}},
        {"ask": {"task": "well", "as": "state.answer"}},
        {"done": {"end": "=[state.noted, run.reference]"}},
    ],
}
"""A definition, for databases of versions that have them."""
