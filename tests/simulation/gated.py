"""What the simulated runs do to the outside: actions of every kind, under rules that the laws know by themselves.

The lane of an act decides what policy says of it. ``RULES`` is the one description of that: the policy's text is made
from it, and the laws are checked against it.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final, Literal, Protocol

import msgspec

from holdfast import DidNotHappen, Happened, Policy, RetryPolicy, StepFailed, action
from holdfast.gate.actions import Action
from holdfast.gate.policy import parse
from tests.laws.programs import world

TRIES: Final = RetryPolicy(max_attempts=3, initial=0.5)

Lane = Literal["free", "asked", "brief", "pair", "high", "never"]


class Demand(msgspec.Struct, frozen=True):
    """What the rule of a lane wants."""

    effect: str
    tier: str = "low"
    two_person: bool = False
    expires_seconds: int | None = None


class Rules(msgspec.Struct, frozen=True):
    """A policy, as the laws know it."""

    name: str
    lanes: dict[str, Demand]
    max_writes: int | None = None
    max_concurrency: int | None = None
    max_runs_per_min: int | None = None

    def policy(self) -> Policy:
        caps = {
            "max_writes_per_run": self.max_writes,
            "max_concurrency": self.max_concurrency,
            "max_runs_per_min": self.max_runs_per_min,
        }
        rules = [_rule(lane, demand) for lane, demand in self.lanes.items()]
        file = {
            "version": 1,
            "caps": {"default": {name: cap for name, cap in caps.items() if cap is not None}},
            "rules": rules,
        }
        # Its own clock stands still: what takes too long is denied, and a busy machine would change a seed's history.
        return parse(msgspec.json.encode(file), self.name, clock=lambda: 0)


def _rule(lane: str, demand: Demand) -> dict[str, Any]:
    rule: dict[str, Any] = {"name": lane, "when": f'action.target == "{lane}"', "effect": demand.effect}
    if demand.effect == "needs_approval":
        rule |= {"tier": demand.tier, "two_person": demand.two_person}
        if demand.expires_seconds is not None:
            rule["expires_in"] = f"{demand.expires_seconds}s"
    return rule


_LANES: Final = {
    "free": Demand("allow"),
    "asked": Demand("needs_approval"),
    "brief": Demand("needs_approval", "med", expires_seconds=12),
    "pair": Demand("needs_approval", "med", two_person=True),
    "high": Demand("needs_approval", "high"),
    "never": Demand("deny"),
}
_STRICT: Final = {**_LANES, "asked": Demand("needs_approval", "high", two_person=True), "free": Demand("allow")}

RULES: Final = (
    Rules("open", _LANES),
    Rules("few writes", _LANES, max_writes=2),
    Rules("crowded", _LANES, max_concurrency=2, max_runs_per_min=3),
    Rules("strict", _STRICT),
)
STRICTER: Final = 3
"""The policy that some workers of a rolling change have already."""

POLICIES: Final = {rules.name: rules.policy() for rules in RULES}


class Outsider(Protocol):
    """Where acts happen: one worker's way to the outside."""

    async def act(self, action: Action[..., Any], name: str, lane: str, manner: str) -> str: ...
    async def look(self, action: Action[..., Any], name: str) -> str | None: ...


def _outsider() -> Outsider:
    return world.get()  # type: ignore[return-value]  # in a simulation it is one


@action(connector="sim", operation="read", target="{lane}", writes=False, name="gate.read", retry=TRIES)
async def read(name: str, lane: str, manner: str) -> str:
    return await _outsider().act(read, name, lane, manner)


@action(connector="sim", operation="write", target="{lane}", name="gate.write", retry=TRIES)
async def write(name: str, lane: str, manner: str) -> str:
    return await _outsider().act(write, name, lane, manner)


@action(
    connector="sim",
    operation="shared",
    target="{lane}",
    idempotency_key="shared:{name}",
    name="gate.shared",
    retry=TRIES,
)
async def shared(name: str, lane: str, manner: str) -> str:
    """One act for all runs that name it alike."""
    return await _outsider().act(shared, name, lane, manner)


@action(
    connector="sim",
    operation="put",
    target="{lane}",
    idempotency_key="put:{name}",
    safe_to_retry=True,
    name="gate.put",
    retry=TRIES,
)
async def put(name: str, lane: str, manner: str) -> str:
    return await _outsider().act(put, name, lane, manner)


async def _look(name: str, lane: str, manner: str) -> Happened | DidNotHappen:
    found = await _outsider().look(probed, name)
    return DidNotHappen() if found is None else Happened(found)


@action(
    connector="sim",
    operation="probed",
    target="{lane}",
    idempotency_key="probed:{name}",
    probe=_look,
    name="gate.probed",
    retry=TRIES,
)
async def probed(name: str, lane: str, manner: str) -> str:
    return await _outsider().act(probed, name, lane, manner)


@action(connector="sim", operation="write", target="{lane}", risk="high", name="gate.write (next)", retry=TRIES)
async def _next_write(name: str, lane: str, manner: str) -> str:
    return await _outsider().act(_next_write, name, lane, manner)


ACTIONS: Final[dict[str, Action[..., Any]]] = {one.name: one for one in (read, write, shared, put, probed)}
DEPLOYED: Final[dict[str, Action[..., Any]]] = {write.name: _next_write}
"""What some workers of a rolling deployment have already: the same act is another proposal there."""

MANNERS: Final = (*3 * ("good",), "fails 1", "fails 2", "fails 9", "terminal", "lost", "silent", "slow", "large")
LANES: Final = ("free", "free", "free", "free", "asked", "brief", "pair", "high", "never")
SHARED: Final = ("gate.shared", "gate.put", "gate.probed")


class Gated(msgspec.Struct, frozen=True, tag="gated"):
    """An action. Unless it is ``bare`` the run lives on when it fails."""

    action: str
    name: str
    lane: str
    manner: str
    bare: bool = False


class Several(msgspec.Struct, frozen=True, tag="several"):
    """Actions at once, perhaps for so many seconds only."""

    items: tuple[Gated, ...]
    seconds: float | None = None


async def play_gated(part: Gated | Several) -> Any:
    """The part of a workflow's body that acts."""
    if isinstance(part, Gated):
        return await _play_one(part)
    try:
        async with asyncio.timeout(part.seconds):
            return await asyncio.gather(*map(_play_one, part.items))
    except TimeoutError:
        return "too late"


async def _play_one(part: Gated) -> Any:
    try:
        return await ACTIONS[part.action](part.name, part.lane, part.manner)
    except StepFailed as error:
        if part.bare:
            raise
        return type(error).__name__


class GatedPlanner:
    """Plans acts from a source of randomness. Names are few where runs share them, so that they meet."""

    def __init__(self, source: random.Random, prefix: str) -> None:
        self._source = source
        self._prefix = prefix
        self._count = 0

    def part(self) -> Gated | Several:
        source = self._source
        if source.random() < 0.65:
            return self._one()
        items = tuple(self._one() for _ in range(source.randint(2, 3)))
        return Several(items, source.choice((None, 0.3, 3.0, 15.0)))

    def _one(self) -> Gated:
        source = self._source
        chosen = source.choice(list(ACTIONS))
        self._count += 1
        name = f"{self._prefix}{self._count}"
        if chosen in SHARED and source.random() < 0.7:
            name = f"common {source.randint(1, 2)}"
        return Gated(chosen, name, source.choice(LANES), source.choice(MANNERS), source.random() < 0.15)
