"""What the simulated runs do to the outside: actions of every kind, some of which people take back.

The lane of an act decides which rule of the policy applies: see ``rules``. Its manner decides its outcome.
"""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from typing import Any, Final, Protocol

import cbor2
import msgspec

from holdfast import DidNotHappen, Happened, Receipt, RetryPolicy, StepFailed, action, ask
from holdfast.programs.function.actions import Action
from holdfast.programs.function.values import encode
from tests.laws.programs import world

TRIES: Final = RetryPolicy(max_attempts=3, initial=0.5)


class Outsider(Protocol):
    """Where acts happen: one worker's way to the outside."""

    async def act(self, action: Action[..., Any], arguments: dict[str, Any], lane: str, manner: str) -> str: ...
    async def look(self, action: Action[..., Any], name: str) -> str | None: ...


def _outsider() -> Outsider:
    return world.get()  # type: ignore[return-value]  # in a simulation it is one


async def _do(action: Action[..., Any], name: str, lane: str, manner: str) -> str:
    return await _outsider().act(action, {"name": name, "lane": lane, "manner": manner}, lane, manner)


@action(connector="sim", operation="read", target="{lane}", writes=False, name="gate.read", retry=TRIES)
async def read(name: str, lane: str, manner: str) -> str:
    return await _do(read, name, lane, manner)


@action(connector="sim", operation="write", target="{lane}", name="gate.write", retry=TRIES)
async def write(name: str, lane: str, manner: str) -> str:
    return await _do(write, name, lane, manner)


@action(
    connector="sim",
    operation="shared",
    target="{lane}",
    idempotency_key="shared:{name}",
    name="gate.shared",
    retry=TRIES,
)
async def shared(name: str, lane: str, manner: str) -> str:
    """One act for all runs that give it the same name."""
    return await _do(shared, name, lane, manner)


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
    return await _do(put, name, lane, manner)


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
    return await _do(probed, name, lane, manner)


@action(connector="sim", operation="write", target="{lane}", risk="high", name="gate.write (next)", retry=TRIES)
async def _next_write(name: str, lane: str, manner: str) -> str:
    return await _do(_next_write, name, lane, manner)


ACTIONS: Final[dict[str, Action[..., Any]]] = {one.name: one for one in (read, write, shared, put, probed)}
DEPLOYED: Final[dict[str, Action[..., Any]]] = {write.name: _next_write}
"""Newer code that some workers already have: there the same act is another proposal."""


@action(connector="sim", operation="take back", target="{receipt.target}", name="gate.take_back", retry=TRIES)
async def take_back(receipt: Receipt) -> str:
    """The act that takes another one back at a person's request: in the same lane, and in the same manner."""
    arguments = {"receipt": cbor2.loads(encode(receipt).data)}
    return await _outsider().act(take_back, arguments, receipt.target, receipt.arguments["manner"])


@action(connector="sim", operation="undo", target="{lane}", name="gate.undo", retry=TRIES)
async def undo(value: str, name: str, lane: str, manner: str) -> str:
    """The undo of an act, in a run that fails or is cancelled."""
    arguments = {"value": value, "name": name, "lane": lane, "manner": manner}
    return await _outsider().act(undo, arguments, lane, manner)


@action(connector="sim", operation="book", target="{lane}", reverse=take_back, undo=undo, name="gate.book", retry=TRIES)
async def book(name: str, lane: str, manner: str) -> str:
    return await _do(book, name, lane, manner)


@action(
    connector="sim",
    operation="share",
    target="{lane}",
    idempotency_key="share:{name}",
    reverse=take_back,
    name="gate.share",
    retry=TRIES,
)
async def share(name: str, lane: str, manner: str) -> str:
    """One act for all runs that give it the same name, and one that takes it back."""
    return await _do(share, name, lane, manner)


TAKEN_BACK: Final[dict[str, Action[..., Any]]] = {one.name: one for one in (book, share)}
"""Further actions, where people steer."""

MANNERS: Final = (*3 * ("good",), "fails 1", "fails 2", "fails 9", "terminal", "lost", "silent", "slow", "large")
STEERED_MANNERS: Final = (*MANNERS, "terminal once", "terminal once")
LANES: Final = ("free", "free", "free", "free", "asked", "brief", "pair", "high", "never")
SHARED: Final = ("gate.shared", "gate.put", "gate.probed", "gate.share")


FORM: Final = "form"


class FormAnswer(msgspec.Struct, forbid_unknown_fields=True):
    """What people answer to a form."""

    word: str


class Gated(msgspec.Struct, frozen=True, tag="gated"):
    """An action, or a form that people are asked to fill in. Unless it is ``bare``, the run catches its failure."""

    action: str
    name: str
    lane: str
    manner: str
    bare: bool = False


class Several(msgspec.Struct, frozen=True, tag="several"):
    """Actions at once, perhaps for so many seconds only."""

    items: tuple[Gated, ...]
    seconds: float | None = None


class Instead(msgspec.Struct, frozen=True, tag="instead"):
    """An action, another one where it fails, and a third, which may stand at another place in a retried run."""

    item: Gated
    other: Gated
    then: Gated


async def play_gated(part: Gated | Several | Instead) -> Any:
    """Play the acting part of a workflow's body."""
    if isinstance(part, Gated):
        return await _play_one(part)
    if isinstance(part, Instead):
        return await _play_either(part)
    try:
        async with asyncio.timeout(part.seconds):
            return await asyncio.gather(*map(_play_one, part.items))
    except TimeoutError:
        return "too late"


async def _play_either(part: Instead) -> Any:
    try:
        first = await _play_one(part.item)
    except StepFailed:
        first = await _play_one(part.other)
    return [first, await _play_one(part.then)]


async def _play_one(part: Gated) -> Any:
    try:
        if part.action == FORM:
            return await _ask(part)
        chosen = ACTIONS.get(part.action) or TAKEN_BACK[part.action]
        return await chosen(part.name, part.lane, part.manner)
    except StepFailed as error:
        if part.bare:
            raise
        return type(error).__name__


async def _ask(part: Gated) -> str:
    """The lane decides who may answer, and by when."""
    answer = await ask(
        part.name,
        FormAnswer,
        show={"lane": part.lane},
        candidates=["ann"] if part.lane == "pair" else [],
        exclude=["bob"] if part.lane == "high" else [],
        remind=[timedelta(seconds=1), timedelta(seconds=2)],
        due=timedelta(seconds=4),
        escalate={"candidates": ["cy", "dan"]},
        expire=timedelta(seconds=3 if part.lane == "brief" else 60),
    )
    return answer.word


class GatedPlanner:
    """Plans acts from a source of randomness. Shared names are few, so that runs meet at them."""

    def __init__(self, source: random.Random, prefix: str, *, steered: bool = False) -> None:
        self._source = source
        self._prefix = prefix
        self._actions = [*ACTIONS, FORM, *TAKEN_BACK, *TAKEN_BACK] if steered else [*ACTIONS, FORM]
        self._bare = 0.3 if steered else 0.15
        self._manners = STEERED_MANNERS if steered else MANNERS
        self._steered = steered
        self._count = 0

    def part(self) -> Gated | Several | Instead:
        source = self._source
        if self._steered and source.random() < 0.2:
            return self._instead()
        if source.random() < 0.65:
            return self._one()
        items = tuple(self._one() for _ in range(source.randint(2, 3)))
        return Several(items, source.choice((None, 0.3, 3.0, 15.0)))

    def _instead(self) -> Instead:
        """All three call one action, so that only their places differ."""
        action = self._source.choice(("gate.write", "gate.book"))
        item, other, then = (msgspec.structs.replace(self._one(), action=action) for _ in range(3))
        return Instead(msgspec.structs.replace(item, bare=True), other, then)

    def _one(self) -> Gated:
        source = self._source
        chosen = source.choice(self._actions)
        self._count += 1
        name = f"{self._prefix}{self._count}"
        if chosen in SHARED and source.random() < 0.7:
            name = f"common {source.randint(1, 2)}"
        return Gated(chosen, name, source.choice(LANES), source.choice(self._manners), source.random() < self._bare)
