"""Handovers: a run that does not fit the code of this worker is given to another whose code may fit.

While a new version is rolled out, workers with older code meet runs that newer code has taken further: the journal has
calls that this code does not make, or steps that it does not know. Such a run is declined, and is parked only where no
living worker is left that has not declined it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeGuard

from holdfast.errors import StepMissing
from holdfast.gate.effects import Effects
from holdfast.journal.payload import NOTHING
from holdfast.kernel.execution import Turn
from holdfast.kernel.requests import Invoke, Request
from holdfast.runs.clock import Clock
from holdfast.runs.kinds.kind import Place
from holdfast.runs.kinds.table import kind_of
from holdfast.runs.log_records import about
from holdfast.store import protocol as p
from holdfast.store.patience import patiently
from holdfast.worker.held import Held
from holdfast.worker.parker import describe
from holdfast.worker.steps.receipt_signer import ReceiptSigner

log = logging.getLogger("holdfast.worker")


class Lack(NamedTuple):
    """Why a run cannot go on here. One that ``must_wait`` has no other way on: not even a cancellation is one."""

    reason: str
    must_wait: bool = False


def is_performed(request: Request) -> TypeGuard[Invoke]:
    """Whether it asks for a step or an act that the worker of the run performs."""
    if type(request) is not Invoke:
        return False
    kind = kind_of(request.kind)
    return kind.has_step and kind.place(request.queue) is not Place.COMMIT


class Handovers:
    """Declines runs. ``has_declined`` is whether it ever did: until then a claim need not look for what it declined."""

    def __init__(
        self,
        store: p.Store,
        clock: Clock,
        effects: Effects,
        let_go: Callable[[Held], None],
        announce: Callable[[], None],
        signer: ReceiptSigner,
    ) -> None:
        self.has_declined = False
        self._store = store
        self._clock = clock
        self._effects = effects
        self._let_go = let_go
        self._announce = announce
        self._signer = signer

    def missing(self, held: Held) -> Lack | None:
        """Why this code cannot go on with a run that it could rebuild: a step that it asks for is not known here. An
        undo is named first."""
        outstanding = held.live.outstanding()
        for request in sorted(filter(is_performed, outstanding), key=lambda each: each.undoes is None):
            if request.promise_id in held.inline:
                continue
            if not self._effects.has(request.function_name):
                reason = describe(StepMissing(request.function_name))
                return Lack(reason, must_wait=request.undoes is not None)
            if held.is_lane and (lack := self._lack(request.function_name)) is not None:
                return Lack(f"{lack}: deploy code that has it, then resume the run.")
        return None

    def check_undos(self, turn: Turn) -> None:
        """Raises StepMissing where the turn undoes something by a step that is not here: such a call must not fail, so
        it is not made."""
        for request in turn.requests:
            is_undo = type(request) is Invoke and request.undoes is not None
            if is_undo and is_performed(request) and not self._effects.has(request.function_name):
                raise StepMissing(request.function_name)

    def unserved(self, held: Held) -> str | None:
        """Why another worker should rather take a run: its program says what it needs, and that is not all here."""
        undoing = (each for each in held.live.outstanding() if type(each) is Invoke and each.undoes is not None)
        undos = {request.function_name for request in filter(is_performed, undoing)}
        needs = sorted(undos.union(held.live.program.needs))
        lacking = [name for name in needs if not self._effects.has(name)]
        if lacking:
            return f"there is no step {lacking[0]!r} here, which {held.workflow} needs"
        locked = (self._lack(name) for name in needs) if held.is_lane else ()
        return next((lack for lack in locked if lack is not None), None)

    def _lack(self, name: str) -> str | None:
        """Why what comes of an effect could not be signed here. What is queued is signed by whoever carries it out."""
        effect = self._effects.find(name, NOTHING)
        return None if effect is None or effect.queue is not None else self._signer.lack(effect)

    async def offer(self, held: Held, reason: str, otherwise: Callable[[], None]) -> None:
        """Hand the run to another worker; ``otherwise`` is called where there is none. Until then it takes no turn."""
        held.committing = True
        worker, key = held.row.owner or "", held.key
        self.has_declined = True  # before it is so: a claim may come between
        decline = partial(self._store.decline, worker, key, held.epoch, reason, self._clock.now())
        handed = await patiently(decline)
        self._announce()
        if held.dropped:
            return
        held.committing = False
        if handed:
            summary = reason.splitlines()[0]
            line = "run %s of tenant %s is handed to a worker whose code fits: %s"
            log.warning(line, key.run, key.tenant, summary, extra=about(key))
            self._let_go(held)
        else:
            otherwise()
