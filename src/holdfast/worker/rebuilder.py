"""The rebuilder: it makes a taken run live again, from its checkpoint, its journal or what was kept warm.

A run that does not fit this code is offered to another worker. What cannot be rebuilt at all is parked.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from holdfast.errors import AuthorError, StoreCorrupt
from holdfast.kernel.checkpoint import CheckpointUnusable
from holdfast.store import protocol as p
from holdfast.store.patience import patiently
from holdfast.worker.executions import Executions
from holdfast.worker.handovers import Handovers
from holdfast.worker.held import Held
from holdfast.worker.parker import Parker, describe
from holdfast.worker.steps.dispatcher import Dispatcher


class Rebuilder:
    """``push`` runs a plain callback soon, ``turn`` takes a run's turn, ``background`` lets work run beside."""

    def __init__(
        self,
        store: p.Store,
        executions: Executions,
        dispatcher: Dispatcher,
        handovers: Handovers,
        parker: Parker,
        push: Callable[[Callable[[], None]], None],
        turn: Callable[[Held], None],
        background: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._store = store
        self._executions = executions
        self._dispatcher = dispatcher
        self._handovers = handovers
        self._parker = parker
        self._push = push
        self._turn = turn
        self._background = background

    def enter(self, held: Held, loaded: p.Loaded | None, inbox: list[p.Received]) -> None:
        """Rebuild a taken run and take its first turn here. Only from a plain callback: it steps workflow code."""
        if held.dropped:
            return
        try:
            if loaded is not None:
                self._executions.resume(held, loaded)
                self._dispatcher.inherit(held)
            else:
                held.warm_up()
        except CheckpointUnusable:
            self._background(self._load_whole(held, inbox))
        except AuthorError as error:
            self._background(self._handovers.offer(held, describe(error), partial(self._parker.unbuilt, held, error)))
        except Exception as error:
            self._parker.unbuilt(held, error)
        else:
            self._go_on(held, inbox, None if loaded is None else self._handovers.missing(held))

    async def _load_whole(self, held: Held, inbox: list[p.Received]) -> None:
        """A checkpoint was of no use: rebuild the run from its whole journal."""
        try:
            reading = partial(self._store.load, [held.key], whole=True)
            loaded = await patiently(reading, unless=(StoreCorrupt,))
        except Exception as error:
            if not held.dropped:
                self._parker.unreadable(held, "journal", error)
            return
        if held.key in loaded:
            self._push(partial(self.enter, held, loaded[held.key], inbox))

    def _go_on(self, held: Held, inbox: list[p.Received], misfit: str | None) -> None:
        if misfit is not None:
            turn = partial(self._go_on, held, inbox, None)
            self._background(self._handovers.offer(held, misfit, partial(self._push, turn)))
            return
        try:
            held.take_in(inbox)
        except Exception as error:
            self._parker.unbuilt(held, error)
        else:
            self._turn(held)
