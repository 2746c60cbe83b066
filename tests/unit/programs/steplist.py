"""A kind of programs that is no Python function: a list of waits, kept as code in the store."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import cbor2
import msgspec

from holdfast.errors import WorkflowUnknown
from holdfast.journal.events import ExecutionStarted, Signal
from holdfast.journal.payload import NOTHING, Outcome, Payload
from holdfast.journal.promise import PromiseId
from holdfast.kernel.program import Program, Returned, Scribe, Stopped, Waiting, Yielded
from holdfast.runs.birth import Pin
from holdfast.store.protocol import Code

LIST: Final = "list"


class ListProgram:
    """Receives the signals of a list, one after the other, and ends."""

    needs: Final = ()
    reference: Final = None

    def __init__(self, names: list[str]) -> None:
        self._left = names
        self.names: Mapping[str, str | None] = {}
        self._open: tuple[PromiseId, str] | None = None
        self._cancelled = False

    def start(self, scribe: Scribe, started: ExecutionStarted) -> None:
        self._scribe = scribe
        self._next()

    def _next(self) -> None:
        while self._left and self._open is None:
            name = self._left.pop(0)
            promise, payload = self._scribe.receive(name)
            if payload is None:
                self._open = promise, name

    def settle(self, promise_id: PromiseId, outcome: Outcome | None) -> None:
        self._open = None
        self._next()

    def cancel(self, reason: str) -> None:
        self._cancelled = True

    def revise(self, payload: Payload) -> None:
        """Receive other signals from here on."""
        self._left = list(cbor2.loads(payload.data))

    def run(self) -> Yielded:
        if self._cancelled:
            return Stopped()
        if self._open is None:
            return Returned(NOTHING)
        promise, name = self._open
        return Waiting((promise,), Signal(name, promise))

    def clock_of(self, promise_id: PromiseId) -> PromiseId | None:
        return None

    def waiting_on(self) -> tuple[PromiseId, ...]:
        return () if self._open is None else (self._open[0],)

    def close(self) -> None:
        self._open = None


class Lists:
    """The kind: its programs are found by their code alone."""

    kind = LIST

    def names(self) -> Collection[str]:
        return ()

    def pin(self, name: str) -> Pin | None:
        return None

    def program(self, name: str, digest: str, code: Code | None) -> Program:
        if code is None or code.digest.hex() != digest:
            raise WorkflowUnknown(f"no list {name!r} of digest {digest!r} is known")
        return ListProgram(msgspec.json.decode(code.data, type=list[str]))
