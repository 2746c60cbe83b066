"""The machines of a simulation, in two versions of their code, and the world in which their effects happen.

Each event that a handler handles leaves an annotation in the journal of its lane: which event it was, in which life of
its cell, and what it led to. The laws are read off these annotations, off the journals and off what the world saw.
"""

from __future__ import annotations

import asyncio
import contextvars
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final, Protocol

from holdfast import Err, Ok, OutcomeUnknown, RetryPolicy, TerminalError, action, step
from holdfast.programs.machine.handle import Cell
from holdfast.programs.machine.machine import Machine
from holdfast.programs.machine.manifest import MachineLimits
from holdfast.programs.machine.occurrences import Settled

SECRET: Final = "the secret word"
NEXT: Final = ">"
"""What an event that follows from another one has at the end of its id."""
TRIES: Final = RetryPolicy(max_attempts=2, initial=0.5)


class Place(Protocol):
    """The process that runs a handler or an effect."""

    def obey(self, word: str) -> None:
        """Raise, or die, where the word says so and nobody has mended it."""
        ...

    async def perform(self, name: str, id: str, life: str, manner: str, *, acts: bool) -> str: ...


place: contextvars.ContextVar[Place | None] = contextvars.ContextVar("place", default=None)


@dataclass
class Told:
    """From outside: the word says what to do."""

    name: str
    id: str
    word: str
    to: str = ""


@dataclass
class Passed:
    """From another cell, so many times more."""

    name: str
    id: str
    left: int


@dataclass
class Circled:
    name: str
    id: str


@dataclass
class Rung:
    name: str
    id: str


@dataclass
class Lost:
    """Nobody hears it."""

    id: str


@dataclass
class Book:
    life: str
    open: dict[str, str] = field(default_factory=dict)


@dataclass
class TitledBook:
    life: str
    title: str
    open: dict[str, str] = field(default_factory=dict)


def _here() -> Place:
    found = place.get()
    assert found is not None, "an effect happens outside every process"
    return found


@step(name="books.work", retry=TRIES, timeout=4.0)
async def work(name: str, id: str, life: str, manner: str) -> str:
    return await _here().perform(name, id, life, manner, acts=False)


@step(name="books.extra", retry=TRIES, timeout=4.0)
async def extra(name: str, id: str, life: str, manner: str) -> str:
    """Only the second version asks for it."""
    return await _here().perform(name, id, life, manner, acts=False)


@action(
    connector="books",
    operation="print",
    target="{lane}",
    name="books.print",
    secret=["word"],
    retry=TRIES,
    timeout=6.0,
)
async def print_it(name: str, id: str, life: str, manner: str, lane: str, word: str) -> str:
    assert word == SECRET
    return await _here().perform(name, id, life, manner, acts=True)


async def perform(manner: str, attempt: int) -> None:
    """What an effect of this manner does in its attempt, if it does not succeed at once."""
    match manner:
        case "slow":
            await asyncio.sleep(30)
        case "fails once" if attempt == 1:
            raise ValueError("once")
        case "fails":
            raise ValueError("always")
        case "terminal":
            raise TerminalError("it never works")


def lose_answer(manner: str) -> None:
    """After it was done."""
    if manner == "lost":
        raise OutcomeUnknown("no answer came")


def _told(now: Any, event: Told, cell: Cell, version: int) -> dict[str, Any]:
    """Do what the word says; what is to be annotated."""
    kind, _, manner = event.word.partition(":")
    found: dict[str, Any] = {}
    match kind:
        case "pass":
            cell.emit(Passed(event.to, event.id + NEXT, 2))
        case "circle":
            cell.emit(Circled(cell.key, event.id + NEXT))
        case "lost":
            cell.emit(Lost(event.id + NEXT))
        case "work" | "act" | "both":
            effect = extra if version == 2 and len(event.id) % 2 else work
            asked = []
            if kind != "act":
                asked.append((cell.do(effect, cell.key, event.id, now.life, manner), "w"))
            if kind != "work":
                lane = event.to or "free"
                number = cell.do(print_it, cell.key, event.id, now.life, manner, lane=lane, word=SECRET)
                asked.append((number, "a"))
            found["asked"] = [f"{event.id}/{mark}" for _, mark in asked]
            now.open.update((str(number), f"{event.id}/{mark}") for number, mark in asked)
        case "later":
            for _ in range(2):
                cell.send(Rung(cell.key, event.id), after=timedelta(seconds=len(manner)))
            found["rings"] = 2
        case "raise" | "kill":
            here = place.get()
            if here is not None:
                here.obey(kind)
        case "complete":
            cell.complete()
        case "fail":
            cell.fail("it was told to")
    return found


def _handle(now: Any, event: Any, cell: Cell, version: int) -> Any:
    more: dict[str, Any] = {}
    match event:
        case Told():
            more = _told(now, event, cell, version)
            id = event.id
        case Passed(id=id, left=left):
            if left:
                cell.emit(Passed(cell.key, id + NEXT, left - 1))
        case Circled(id=id):
            cell.emit(Circled(cell.key, id + NEXT))
        case Rung(id=id):
            more = {"rung": True}
        case Settled(outcome=outcome, sequence=sequence):
            id = now.open.pop(str(sequence))
            value = outcome.value if isinstance(outcome, Ok) else None
            more = {"settled": value, "error": str(outcome.failure)[:60] if isinstance(outcome, Err) else None}
    cell.annotate({"id": id, "life": now.life, "version": version, **more})
    return None if isinstance(event, Told) and event.word == "delete" else now


Heard = Told | Passed | Circled | Rung | Settled


def first(state: Book | None, event: Told | Passed | Circled | Rung | Settled, cell: Cell) -> Book | None:
    """The first version."""
    born = Book(f"{cell.uuid()}")
    return _handle(replace(state or born, open=dict((state or born).open)), event, cell, 1)  # type: ignore[no-any-return]


def second(state: TitledBook | None, event: Told | Passed | Circled | Rung | Settled, cell: Cell) -> TitledBook | None:
    """The second version: its state has a title, and it may ask for another effect."""
    born = TitledBook(f"{cell.uuid()}", "untitled")
    return _handle(replace(state or born, open=dict((state or born).open)), event, cell, 2)  # type: ignore[no-any-return]


def _titled(state: Any, version: int) -> TitledBook:
    return TitledBook(state["life"], "old", dict(state["open"]))


def _book(function: Any, effects: list[Any], version: int, migrate: Any = None) -> Machine[Any]:
    return Machine(
        function,
        name="books.book",
        key="name",
        effects=effects,
        emits=(Passed, Circled, Lost),
        version=version,
        lanes=2,
        limits=MachineLimits(),
        migrate=migrate,
    )


FIRST: Final = _book(first, [work, print_it], 1)
SECOND: Final = _book(second, [work, print_it, extra], 2, _titled)
VERSIONS: Final = {1: FIRST, 2: SECOND}
MACHINE: Final = FIRST.name
