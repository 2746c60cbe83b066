"""The rebuilder: it makes a taken run live again, from its checkpoint, its journal or what was kept warm.

A run that does not fit this code is offered to another worker. What cannot be rebuilt at all is parked.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from holdfast.errors import AuthorError, StoreCorrupt, WorkflowUnknown
from holdfast.kernel.carried_signals import SignalsMissing
from holdfast.kernel.checkpoint import CheckpointUnusable
from holdfast.runs.carried import read_ahead
from holdfast.runs.checkpoints import carried_signals, load
from holdfast.runs.lanes import WAITS
from holdfast.store import protocol as p
from holdfast.store.patience import patiently
from holdfast.worker.executions import Executions
from holdfast.worker.gate.answers import Recorded
from holdfast.worker.handovers import Handovers, Lack
from holdfast.worker.held import Held
from holdfast.worker.names import look_up
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

    def enter(
        self, held: Held, loaded: p.Loaded | None, inbox: list[p.Received], recorded: Recorded | None = None
    ) -> None:
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
            self._background(self._load_whole(held, inbox, recorded))
        except SignalsMissing as lack:
            self._background(self._load_whole(held, inbox, recorded, lack))
        except AuthorError as error:
            self._offer(held, describe(error), partial(self._parker.unbuilt, held, error, inbox))
        except Exception as error:
            if held.is_lane and isinstance(error, WorkflowUnknown):  # it goes on when a worker has the machine
                self._offer(held, describe(error), partial(self._parker.park, held, f"{WAITS}{error}", inbox))
            else:
                self._parker.unbuilt(held, error, inbox)
        else:
            take_in = partial(self._take_in, held, inbox, recorded)
            if loaded is not None and (missing := self._handovers.missing(held)) is not None:
                self._offer(held, missing.reason, partial(self._lack, held, missing, inbox, take_in))
            elif (reason := self._handovers.unserved(held)) is not None:
                self._offer(held, reason, partial(self._push, take_in))
            else:
                take_in()

    async def _load_whole(
        self,
        held: Held,
        inbox: list[p.Received],
        recorded: Recorded | None,
        missing: SignalsMissing | None = None,
    ) -> None:
        """A checkpoint was of no use, or too few carried signals were read: rebuild the run from its whole journal."""
        if (loaded := await self._whole(held, missing)) is not None:
            self._push(partial(self.enter, held, loaded, inbox, recorded))

    def go_on(self, held: Held) -> None:
        """Take the next turn of a lane that was offered, and that nobody has taken over. Its execution is a new one: it
        asks for what is outstanding, and is told the manifest in force."""
        held.fresh, held.admitted = True, False
        self._push(partial(self._turn, held))

    async def resolve(self, held: Held, reference: str) -> None:
        """The turn of a run failed because it calls by a name that may be published: take it again with the answer."""
        held.names[reference] = await look_up(self._store, held.key.tenant, reference)
        if not held.dropped:
            await self._turn_again(held)

    async def read_signals(self, held: Held, missing: SignalsMissing) -> None:
        """The turn of a run failed because too few of the signals that it carries were read: take it with more."""
        await self._turn_again(held, missing)

    async def _turn_again(self, held: Held, missing: SignalsMissing | None = None) -> None:
        if (loaded := await self._whole(held, missing)) is not None and not held.dropped:
            self._push(partial(self._again, held, loaded))

    def _again(self, held: Held, loaded: p.Loaded) -> None:
        if held.dropped:
            return
        try:
            self._executions.rebuild(held, loaded.segments, loaded.blobs)
        except SignalsMissing as missing:
            self._background(self.read_signals(held, missing))
        except Exception as error:
            self._parker.unbuilt(held, error)
        else:
            held.committing = False
            self._turn(held)

    async def _whole(self, held: Held, missing: SignalsMissing | None = None) -> p.Loaded | None:
        """The whole journal of a held run, and twice as many of its carried signals as before where one is ``missing``;
        None where it is lost, or parked because it cannot be read."""
        try:
            reading = partial(load, self._store, [held.row], whole=True)
            loaded = await patiently(reading, unless=(StoreCorrupt,))
            if missing is not None and (found := loaded.get(held.key)) is not None:
                await self._read_more(held, found, missing)
        except Exception as error:
            if not held.dropped:
                self._parker.unreadable(held, "journal", error)
            return None
        return loaded.get(held.key)

    async def _read_more(self, held: Held, loaded: p.Loaded, missing: SignalsMissing) -> None:
        if (signals := carried_signals(loaded, held.id)) is None:
            return
        held.learn_signals(signals, loaded.blobs)
        held.most_signals *= 2
        reading = partial(
            read_ahead, self._store, held.key.tenant, signals, held.signals, held.most_signals, missing.blob
        )
        await patiently(reading, unless=(StoreCorrupt,))

    def _offer(self, held: Held, reason: str, otherwise: Callable[[], None]) -> None:
        self._background(self._handovers.offer(held, reason, otherwise))

    def _lack(self, held: Held, missing: Lack, inbox: list[p.Received], take_in: Callable[[], None]) -> None:
        """No worker has a step that the run waits for. One that undoes something must come. Of another a function is
        told; a definition, which cannot know, waits, unless it is cancelled: then it no longer waits for the step."""
        if not missing.must_wait and (held.row.program_kind == p.FUNCTION or held.must_hear_cancel(inbox)):
            self._push(take_in)
        else:
            self._parker.park(held, missing.reason, inbox)

    def _take_in(self, held: Held, inbox: list[p.Received], recorded: Recorded | None) -> None:
        try:
            held.take_in(inbox, recorded)
        except Exception as error:
            self._parker.unbuilt(held, error)
        else:
            self._turn(held)
