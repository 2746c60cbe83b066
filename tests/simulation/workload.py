"""What the simulated runs do: random trees, and what only whole runs can do.

A plan is data made from a seed. ``act`` plays it: steps on queues, signals between runs, detached runs, compensation,
patches, continue-as-new and, in governed simulations, actions, around trees from the law tests' generator.
"""

from __future__ import annotations

import random
from typing import Any, Final

import msgspec

from holdfast import RetryPolicy, StepFailed, continue_as_new, patched, send, spawn, step, workflow
from tests.laws.programs import MAX_ATTEMPTS, Grower, Node, _play, world
from tests.simulation.gated import Gated, GatedPlanner, Instead, Several, play_gated

QUEUE: Final = "press"


class Tree(msgspec.Struct, frozen=True, tag="tree"):
    node: Node


class Queued(msgspec.Struct, frozen=True, tag="queued"):
    """A step that any worker serving the queue may take."""

    key: str
    fails: int


class Undoable(msgspec.Struct, frozen=True, tag="undoable"):
    """A step that is taken back when the run fails or is cancelled."""

    key: str


class Send(msgspec.Struct, frozen=True, tag="send"):
    """A signal to another run, which may not be there, or have ended."""

    target: str
    name: str
    text: str


class Spawn(msgspec.Struct, frozen=True, tag="spawn"):
    """A detached run."""

    plan: tuple[Act, ...]


class Fail(msgspec.Struct, frozen=True, tag="fail"):
    """The body raises."""


class Patch(msgspec.Struct, frozen=True, tag="patch"):
    name: str


class Again(msgspec.Struct, frozen=True, tag="again"):
    """The run goes on as new, with this plan."""

    plan: tuple[Act, ...]


class Below(msgspec.Struct, frozen=True, tag="below"):
    """A child plays this plan."""

    plan: tuple[Act, ...]


Act = Tree | Queued | Undoable | Send | Spawn | Fail | Patch | Again | Below | Gated | Several | Instead


@step(name="sim.queued", queue=QUEUE, concurrency=2, retry=RetryPolicy(max_attempts=MAX_ATTEMPTS, initial=0.5))
async def queued(key: str, fails: int) -> str:
    return await world.get().perform(key, fails)


@step(name="sim.undo", retry=RetryPolicy(max_attempts=5, initial=0.2))
async def undo(key: str) -> str:
    return await world.get().perform(f"undo {key}", 0)


@step(name="sim.undoable", undo=undo)
async def undoable(key: str) -> str:
    return await world.get().perform(key, 0)


@workflow(name="sim.act")
async def act(plan: tuple[Act, ...]) -> list[Any]:
    results: list[Any] = []
    for part in plan:
        match part:
            case Tree(node=node):
                results.append(await _play(node))
            case Queued(key=key, fails=fails):
                results.append(await queued(key, fails))
            case Undoable(key=key):
                results.append(await undoable(key))
            case Send():
                results.append(await _send(part))
            case Spawn(plan=inner):
                results.append(await spawn(act, inner))
            case Below(plan=inner):
                results.append(await act(inner))
            case Gated() | Several() | Instead():
                results.append(await play_gated(part))
            case Patch(name=name):
                results.append(patched(name))
            case Fail():
                raise ArithmeticError("the plan says so")
            case Again(plan=inner):
                continue_as_new(inner)
    return results


async def _send(part: Send) -> str:
    try:
        await send(part.target, part.name, part.text)
    except StepFailed as error:
        return type(error).__name__
    return "sent"


class Planner:
    """Makes plans from a source of randomness."""

    def __init__(
        self, source: random.Random, prefix: str, others: list[str], *, governed: bool = False, steered: bool = False
    ) -> None:
        self._gated = GatedPlanner(source, prefix, steered=steered) if governed else None
        self._source = source
        self._others = others
        self._steered = steered
        self._prefix = prefix
        self._grower = Grower(source, prefix=prefix)
        self._count = 0

    def plan(self, size: int, depth: int = 0) -> tuple[Act, ...]:
        acts = [self._act(depth) for _ in range(self._source.randint(1, size))]
        if depth == 0 and self._source.random() < 0.1:
            acts.append(Again(self.plan(2, depth + 1)))
        elif depth == 0 and self._steered and self._source.random() < 0.25:
            acts.append(Fail())
        return tuple(acts)

    def _key(self) -> str:
        self._count += 1
        return f"{self._prefix}q{self._count}"

    def _act(self, depth: int) -> Act:
        source = self._source
        if self._gated is not None and source.random() < 0.6:
            return Below(self.plan(2, depth + 1)) if depth < 2 and source.random() < 0.2 else self._gated.part()
        roll = source.random()
        if roll < 0.55:
            return Tree(self._grower.grow(source.randint(1, 6)))
        if roll < 0.70:
            return Queued(self._key(), source.choice((0, 0, 0, 1, 2, 3)))
        if roll < 0.80:
            return Undoable(self._key())
        if roll < 0.87:
            return Send(source.choice(self._others), source.choice(("left", "right")), f"from {self._key()}")
        if roll < 0.92:
            return Spawn(self.plan(2, depth + 1)) if depth < 2 else Patch("deep")
        if roll < 0.96:
            return Patch("change")
        return Fail()
