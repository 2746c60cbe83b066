"""The inboxes of held runs: read when something is in them, and given to their runs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from holdfast.store import protocol as p
from holdfast.store.patience import patiently
from holdfast.worker.gate.answers import Recorded, answered_tasks, recorded_answers
from holdfast.worker.held import Held


class Inboxes:
    """``schedule`` gives a run its turn, ``fail`` parks one whose messages cannot be read, ``beside`` lets work run."""

    def __init__(
        self,
        store: p.Store,
        schedule: Callable[[Held], None],
        fail: Callable[[Held, str, Exception], None],
        beside: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._store = store
        self._schedule = schedule
        self._fail = fail
        self._beside = beside

    def fetch(self, held: Held) -> None:
        """Read the messages of a run, in the background. Many that come at once are read at once."""
        if not held.reading_inbox:
            held.reading_inbox = True
            self._beside(self._fetch(held))

    async def _fetch(self, held: Held) -> None:
        held.reading_inbox = False  # what comes from now on may be too late for this reading
        inbox = (await patiently(partial(self._store.messages, [held.key]))).get(held.key, [])
        answered = answered_tasks(inbox)
        recorded = await recorded_answers(self._store, held.key.tenant, answered) if answered else None
        if held.dropped or held.pause is not None or not self._take_in(held, inbox, recorded):
            return
        if held.arrivals or held.through > held.consumed:
            self._schedule(held)

    def receive(self, held: Held, inbox: list[p.Received]) -> None:
        """Messages of a run were read by somebody else."""
        if held.dropped or held.execution is None:
            return
        if answered_tasks(inbox):  # they are taken in together with what the audit records of them
            self.fetch(held)
        elif self._take_in(held, inbox):
            self._schedule(held)

    def _take_in(self, held: Held, inbox: list[p.Received], recorded: Recorded | None = None) -> bool:
        """Give a run its messages; False where one of them cannot be read, and the run is parked for it."""
        try:
            held.take_in(inbox, recorded)
        except Exception as error:
            self._fail(held, "cannot read its inbox", error)
            return False
        return True
