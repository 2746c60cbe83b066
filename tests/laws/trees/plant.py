"""The workflows that play any program. They give the labels of the acts that they rely on."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

import msgspec

from holdfast import child, receive, workflow
from tests.laws.trees.world import MODERN, book, fetch, hire, modern, worlds


class Op(msgspec.Struct, frozen=True, omit_defaults=True):
    """One statement of a program. The label is that of its act, or of its child's program."""

    do: str
    label: str = ""
    seconds: float = 0.0
    parts: tuple[Op, ...] = ()


class Unhappy(Exception):
    """The program fails."""


ACTS: Final[dict[str, Any]] = {"book": book, "fetch": fetch, "modern": modern, "hire": hire}


@workflow(name="trees.tree")
async def tree(label: str, ops: tuple[Op, ...]) -> Any:
    return await _play(label, ops)


@workflow(name="trees.hurried", cleanup_timeout=120.0)
async def hurried(label: str, ops: tuple[Op, ...]) -> Any:
    """It does not wait for its children for ever."""
    return await _play(label, ops)


FLOW: Final = {
    "holdfast": "definition/1",
    "name": "trees.flow",
    "version": 1,
    "steps": [
        {"act": {"step": MODERN, "with": {"label": "=start.label"}, "as": "state.label"}},
        {"done": {"end": "=[state.label]"}},
    ],
}
"""A definition: it parks where the step that it calls is missing, and a function fails."""

CHILDREN: Final[dict[str, Any]] = {"child": tree, "hurried": hurried, "left": tree}


async def _play(label: str, ops: tuple[Op, ...]) -> Any:
    relied: list[str] = []
    for op in ops:
        await _do(op, relied)
    world = worlds[-1]
    if any(op.do == "misfit" for op in ops) and not world.fits:
        return object()
    world.returned.setdefault(label, world.now)
    return relied


async def _do(op: Op, relied: list[str]) -> None:
    match op.do:
        case "book" | "fetch" | "modern" | "hire":
            relied.append(await ACTS[op.do](op.label))
        case "child" | "hurried":
            await CHILDREN[op.do](op.label, op.parts)
        case "flow":
            await child("trees.flow")({"label": op.label})
        case "left":
            left = asyncio.ensure_future(tree(op.label, op.parts))
            await asyncio.sleep(op.seconds)
            assert left is not None
        case "gather":
            found = await asyncio.gather(*(_do(part, relied) for part in op.parts), return_exceptions=True)
            for each in found:
                if isinstance(each, Exception):
                    raise each
        case "limit":
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(op.seconds):
                    await _all(op, relied)
        case "try":
            with contextlib.suppress(Exception):
                await _all(op, relied)
        case "cleanup":
            try:
                await _all(op, relied)
            finally:
                await receive("cleaned")
        case "sleep":
            await asyncio.sleep(op.seconds)
        case "word":
            await receive("word")
        case "fail":
            raise Unhappy("the program fails")
        case "misfit":
            pass
        case other:
            raise AssertionError(other)


async def _all(op: Op, relied: list[str]) -> None:
    for part in op.parts:
        await _do(part, relied)
