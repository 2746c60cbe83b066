"""Handovers: a run that does not fit the code of this worker is given to another whose code may fit.

While a new version is rolled out, workers with older code meet runs that newer code has taken further: the journal has
calls that this code does not make, or steps that it does not know. Such a run is declined, and is parked only where no
living worker is left that has not declined it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from holdfast.gate.effects import Performable
from holdfast.kernel.requests import Invoke
from holdfast.runs.clock import Clock
from holdfast.runs.kinds.kind import Place
from holdfast.runs.kinds.table import kind_of
from holdfast.store import protocol as p
from holdfast.store.patience import patiently
from holdfast.worker.held import Held

log = logging.getLogger("holdfast.worker")


class Handovers:
    """Declines runs. ``has_declined`` is whether it ever did: until then a claim need not look for what it declined."""

    def __init__(
        self, store: p.Store, clock: Clock, steps: Mapping[str, Performable], let_go: Callable[[Held], None]
    ) -> None:
        self.has_declined = False
        self._store = store
        self._clock = clock
        self._steps = steps
        self._let_go = let_go

    def missing(self, held: Held) -> str | None:
        """Why this code cannot go on with a run that it could rebuild: a step that it asks for is not known here."""
        for request in held.live.outstanding():
            kind = kind_of(request.kind)
            performed = kind.has_step and kind.place(request.queue) is not Place.COMMIT
            if not performed or type(request) is not Invoke or held.inline_step(request.promise_id) is not None:
                continue
            if request.function_name not in self._steps:
                return f"no {request.kind} is called {request.function_name!r} here"
        return None

    async def offer(self, held: Held, reason: str, otherwise: Callable[[], None]) -> None:
        """Hand the run to another worker; ``otherwise`` is called where there is none. Until then it takes no turn."""
        held.committing = True
        worker, key = held.row.owner or "", held.key
        self.has_declined = True  # before it is so: a claim may come between
        decline = partial(self._store.decline, worker, key, held.epoch, reason, self._clock.now())
        handed = await patiently(decline)
        if held.dropped:
            return
        held.committing = False
        if handed:
            said = reason.splitlines()[0]
            log.warning("run %s of tenant %s is handed to a worker whose code fits: %s", key.run, key.tenant, said)
            self._let_go(held)
        else:
            otherwise()
