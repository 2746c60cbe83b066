"""Steps and workflows that several tests use, and the flags with which a test blocks, breaks and observes them."""

from __future__ import annotations

import threading

from holdfast import TerminalError, receive, step, workflow

calls: list[str] = []
began = threading.Event()
let_go = threading.Event()
broken = threading.Event()


def reset() -> None:
    """Clear the calls and flags of the last test."""
    calls.clear()
    for flag in (began, let_go, broken):
        flag.clear()


@step(name="engine.note")
async def note(word: str) -> str:
    calls.append(word)
    return word


@step(name="engine.hold")
def hold() -> None:
    began.set()
    let_go.wait(20)


@step(name="engine.ship")
async def ship() -> str:
    if broken.is_set():
        raise TerminalError("the lorry broke down")
    calls.append("ship")
    return "shipped"


@workflow(name="engine.greet")
async def greet(name: str) -> str:
    ok = await receive("ok", str)
    return f"{await note(name)} {ok}"


@workflow(name="engine.noting")
async def noting(word: str) -> str:
    return await note(word)
