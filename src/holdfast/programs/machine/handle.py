"""The cell as a handler sees it: what it may know, and what it may ask for.

Everything that a handler asks for is collected here and recorded when it has returned. Nothing is done meanwhile.
"""

from __future__ import annotations

import datetime
import hashlib
import random as _random
import uuid as _uuid
from collections.abc import Callable
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidFunction, InvalidRequest
from holdfast.programs.machine.manifest import MachineLimits


class TurnContext(msgspec.Struct, frozen=True, gc=False):
    """What a turn knows, the same in every replay: time, seed and place, and which code is in force."""

    now: int = 0
    seed: bytes = b""
    position: int = 0
    manifest: str = ""
    machine: str = ""
    machine_hash: str = ""


class AskedEffect(msgspec.Struct, gc=False):
    """One call of an effect that a handler asks for. ``intent`` is its number within the cell."""

    effect: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    issuer: str | None
    sequence: int


class Cell:
    """One key's cell, while one event is handled. It is of no use afterwards."""

    __slots__ = (
        "_annotation",
        "_asked",
        "_chance",
        "_closed",
        "_ending",
        "_entropy",
        "_events",
        "_limits",
        "_next",
        "_timers",
        "_where",
        "key",
        "mode",
    )

    def __init__(
        self,
        key: Any,
        where: TurnContext,
        limits: MachineLimits,
        first: int = 0,
        mode: str = "keyed",
        mark: bytes = b"",
    ) -> None:
        self.key = key
        self.mode = mode
        self._where = where
        self._limits = limits
        self._asked: list[AskedEffect] = []
        self._events: list[Any] = []
        self._timers: list[tuple[int, Any]] = []
        self._ending: tuple[str, str] | None = None
        self._annotation: Any = None
        self._entropy = mark
        self._chance: _random.Random | None = None
        self._next = first
        self._closed = False

    # -- what it may know ----------------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime.datetime:
        """The recorded time, in UTC."""
        return datetime.datetime.fromtimestamp(self._where.now / 1e6, datetime.UTC)

    @property
    def position(self) -> int:
        """Where the journal of its lane stood when this turn began."""
        return self._where.position

    @property
    def manifest(self) -> str:
        """The digest of the manifest in force."""
        return self._where.manifest

    @property
    def machine(self) -> str:
        """The name of its machine."""
        return self._where.machine

    @property
    def machine_hash(self) -> str:
        """The digest of what its machine declares."""
        return self._where.machine_hash

    @property
    def random(self) -> _random.Random:
        """Recorded randomness: the same in every replay, another for every event."""
        if self._chance is None:
            digest = hashlib.sha256(self._where.seed + self._entropy).digest()
            self._chance = _random.Random(digest)  # reproducible on purpose
        return self._chance

    def uuid(self) -> _uuid.UUID:
        """A UUID made of recorded randomness; another one at every call."""
        self._entropy += b"u"
        return _uuid.UUID(bytes=hashlib.sha256(self._where.seed + self._entropy).digest()[:16], version=4)

    # -- what it may ask for -------------------------------------------------------------------------------------------

    def do(self, effect: Callable[..., Any], /, *args: Any, **kwargs: Any) -> int:
        """Ask for a declared effect. Its outcome comes as ``Settled`` with the number that this gives.

        Raises InvalidFunction for an effect that the machine does not declare, and where there are too many.
        """
        return self.ask(effect, args, kwargs)

    def ask(
        self, effect: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], issuer: str | None = None
    ) -> int:
        """As ``do``, with a reference of the cell's own, which ``Settled`` has as ``issuer``."""
        self._check_open()
        if len(self._asked) >= self._limits.effects:
            raise InvalidFunction(f"one event asks for at most {self._limits.effects} effects: spread them over events")
        sequence = self._next
        self._next += 1
        self._asked.append(AskedEffect(effect, args, kwargs, issuer, sequence))
        return sequence

    def emit(self, event: Any) -> None:
        """Emit a domain event, to whoever hears it."""
        self._check_open()
        self._check_events()
        self._events.append(event)

    def send(self, event: Any, *, after: datetime.timedelta | None = None, at: datetime.datetime | None = None) -> None:
        """Send an event to this very cell, at that time."""
        self._check_open()
        self._check_events()
        if (after is None) == (at is None):
            raise InvalidRequest("give after= or at=, and not both")
        if at is not None and at.tzinfo is None:
            raise InvalidRequest("at= is a time with a zone, such as datetime.now(UTC)")
        micros = round(after / _MICROSECOND) if after is not None else 0
        wake_at = self._where.now + max(0, micros) if at is None else round(at.timestamp() * 1e6)
        self._timers.append((wake_at, event))

    def complete(self) -> None:
        """End this cell: it is done. Its state stays to be read."""
        self._check_open()
        self._ending = ("completed", "")

    def fail(self, reason: str) -> None:
        """End this cell as failed, for this reason. Its state stays to be read."""
        self._check_open()
        self._ending = ("failed", reason)

    def annotate(self, note: Any) -> None:
        """Note something about this event, for people: it is kept with the event."""
        self._check_open()
        self._annotation = note

    # -- for whoever called the handler --------------------------------------------------------------------------------

    def close(self) -> tuple[list[AskedEffect], list[Any], list[tuple[int, Any]], tuple[str, str] | None, Any]:
        """What was asked for: effects, events, timers, the end, the note."""
        self._closed = True
        return self._asked, self._events, self._timers, self._ending, self._annotation

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidFunction("a cell can be used only while its event is handled")

    def _check_events(self) -> None:
        if len(self._events) + len(self._timers) >= self._limits.events:
            raise InvalidFunction(f"one event emits at most {self._limits.events} others: spread them over events")


_MICROSECOND: Final = datetime.timedelta(microseconds=1)
