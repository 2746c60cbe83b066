"""The app of the trials: a workflow and a machine whose effects are written to a file, outside the engine."""

from __future__ import annotations

import asyncio
import json
import os
import time
from dataclasses import dataclass, replace

from holdfast import Cell, Err, Holdfast, Ok, Settled, action, machine, receive, step, step_info, workflow

EFFECTS = "TRIAL_EFFECTS"

app = Holdfast("sqlite:///trials.db", worker=False)


def note(phase: str) -> None:
    """Write one line at once: lines of several processes never mix."""
    line = {"at": time.time(), "process": os.getpid(), "phase": phase, "run": step_info().run, "key": step_info().key}
    descriptor = os.open(os.environ[EFFECTS], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, json.dumps(line).encode() + b"\n")
    finally:
        os.close(descriptor)


async def effect(seconds: float) -> None:
    note("begin")
    await asyncio.sleep(seconds)
    note("end")


@step(name="trials.prepare", retries=3)
async def prepare(number: int, seconds: float) -> int:
    await effect(seconds)
    return number


@step(name="trials.finish", retries=3)
async def finish(word: str) -> str:
    await effect(0.05)
    return word


@action(name="trials.pay", connector="bank", operation="payment.make", target="{to}", safe_to_retry=True)
async def pay(to: str, cents: int) -> str:
    await effect(0.05)
    return f"paid {to}"


@action(name="trials.pay_cell", connector="bank", operation="payment.cell", target="{to}", safe_to_retry=True)
async def pay_cell(to: str, number: int) -> int:
    await effect(0.02)
    return number


@workflow(name="trials.order")
async def order(number: int, seconds: float) -> str:
    await prepare(number, seconds)
    word = await finish(await receive("go", str))
    return f"{word}, {await pay(f'customer {number}', number + 1)}"


@dataclass
class Placed:
    key: str
    number: int


@dataclass
class Orders:
    seen: list[int]
    paid: list[int]


@machine(key="key", effects=[pay_cell])
def orders(state: Orders | None, event: Placed | Settled, cell: Cell) -> Orders | None:
    state = state or Orders([], [])
    match event:
        case Placed(number=number):
            cell.do(pay_cell, cell.key, number)
            return replace(state, seen=[*state.seen, number])
        case Settled(outcome=Ok(number)):
            return replace(state, paid=[*state.paid, number])
        case Settled(outcome=Err()):
            return replace(state, paid=[*state.paid, -1])
    return state


def result_of(number: int) -> str:
    """What the order of this number returns."""
    return f"go {number}, paid customer {number}"
