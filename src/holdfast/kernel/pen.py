"""The pen: it writes new events under the laws, or compares them with the recorded journal while there is one.

Recording and replaying are the same calls. A command is recorded if the journal has ended, else compared with the
recorded one.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from holdfast.errors import AuthorError, Nondeterminism
from holdfast.journal import events as e
from holdfast.journal.blobs import fill
from holdfast.journal.ledger import Ledger
from holdfast.journal.payload import Payload
from holdfast.journal.promise import PromiseId
from holdfast.journal.render import line
from holdfast.kernel.carried_signals import CarriedSignals, SignalsMissing
from holdfast.kernel.commands import same

Stamped = tuple[int, e.Event]

_NOTED: Final = frozenset({e.CancelRequested, e.ExecutionStarted})
"""The events from which the pen keeps a value."""


class Halt(BaseException):
    """Unwinds the program once its code and what is recorded disagree. No author's ``except Exception`` can stop it."""


class Pen:
    """One run's journal while it is written: the recorded events that are not replayed yet, and the new ones.

    ``clock`` is the worker's time. ``now`` is the time of recorded events: it never goes back, even where a clock was
    ahead and was set right. Timers and retries use ``clock``, or they would wait until it has caught up with ``now``.
    ``carried`` are the signals that the start carries, and ``nodes`` the blobs of them at hand.
    """

    __slots__ = (
        "_script",
        "_written",
        "cancel_reason",
        "carried",
        "clock",
        "halted",
        "ledger",
        "nodes",
        "now",
        "recorded_at",
        "started",
    )

    def __init__(self, run: PromiseId, now: int) -> None:
        self.ledger = Ledger(run, read_carried=self._read_carried)
        self.carried: CarriedSignals | None = None
        self.nodes: dict[bytes, bytes] = {}
        self.now = self.clock = now
        self.recorded_at = 0  # the time of the last event that was handed out or loaded
        self.started: e.ExecutionStarted | None = None
        self.cancel_reason = ""
        self.halted: AuthorError | SignalsMissing | None = None
        self._script: deque[e.Entry] = deque()
        self._written: list[Stamped] = []

    def load(self, entries: list[e.Entry]) -> None:
        """Give the pen a recorded journal to replay."""
        self._script.extend(entries)
        if entries:
            self.recorded_at = entries[-1].timestamp
            self.now = max(self.now, self.recorded_at)

    def go_on_from(self, ledger: Ledger, started: e.ExecutionStarted, cancel_reason: str, recorded_at: int) -> None:
        """Continue in place of a pen that has written a journal up to here."""
        self.ledger = ledger
        self.started = started
        self.cancel_reason = cancel_reason
        self.recorded_at = recorded_at
        self.now = max(self.now, recorded_at)

    def tell(self, time: int) -> None:
        """A turn begins at this time of the worker's clock."""
        self.clock = time
        self.now = max(time, self.now)

    def upcoming(self) -> e.Entry | None:
        """The next recorded entry; None where the run is live."""
        return self._script[0] if self._script else None

    def record(self, event: e.Event, timestamp: int | None = None) -> None:
        """Append a new event, judged by the laws. What the pen itself remembers comes by ``note``."""
        self.ledger.append(event, self.now)
        self._written.append((self.now if timestamp is None else timestamp, event))

    def note(self, event: e.ExecutionStarted | e.CancelRequested) -> None:
        """Append a new event and remember it."""
        self.record(event)
        self._remember(event)

    def take(self) -> e.Event:
        """Fold in the next recorded event."""
        entry = self._script.popleft()
        event = entry.event
        self.ledger.append(event, entry.timestamp, entry.sequence)
        if type(event) in _NOTED:
            self._remember(event)
        return event

    def command(self, event: e.Event) -> e.Event:
        """Record a command, or compare it with the recorded one and give that back. Raises Halt where they differ."""
        if self.halted is not None:
            raise Halt
        if not self._script:
            self.record(event)
            return event
        recorded = self._script[0]
        if not same(recorded.event, event):
            filled = fill(recorded.event, event)
            if filled is recorded.event or not same(filled, event):
                self.halted = Nondeterminism(recorded.sequence, line(recorded.event), line(event))
                raise Halt
            self._script[0] = e.Entry(recorded.sequence, recorded.timestamp, filled)
        return self.take()

    def written(self) -> list[Stamped]:
        """The new events since the last call."""
        written, self._written = self._written, []
        if written:
            self.recorded_at = written[-1][0]
        return written

    def _read_carried(self, signals: Payload) -> CarriedSignals:
        self.carried = CarriedSignals(signals, self.nodes)
        return self.carried

    def _remember(self, event: e.Event) -> None:
        if type(event) is e.CancelRequested:
            self.cancel_reason = event.reason
        elif type(event) is e.ExecutionStarted:
            self.started = event
