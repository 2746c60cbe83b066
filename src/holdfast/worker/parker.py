"""The parker: it pauses a run that cannot go on, where people see it, with the reason. Nothing is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from holdfast.errors import HoldfastError, StoreCorrupt
from holdfast.gate.run_calls import Closing
from holdfast.journal.quotes import SHORTEST, forms_of, without_forms
from holdfast.journal.secrecy import secrets_of
from holdfast.kernel.arrivals import Arrival
from holdfast.runs.carried import read_all
from holdfast.runs.checkpoints import carried_signals, load
from holdfast.runs.log_records import about
from holdfast.runs.segments import unseal
from holdfast.store import protocol as p
from holdfast.store.committer import Committer
from holdfast.store.patience import patiently
from holdfast.worker.executions import Executions
from holdfast.worker.held import Held
from holdfast.worker.lifecycle import Lifecycle

log = logging.getLogger("holdfast.worker")

_CANCELLATION_WAITS: Final = "Its cancellation could not be carried out: it comes first when the run is resumed."


def describe(error: Exception, otherwise: str = "") -> str:
    """Why a run is parked: by its code where the error is one of ours, else by what went wrong and how."""
    if isinstance(error, HoldfastError):
        return f"{error.code}: {error}"
    return f"{otherwise}: {type(error).__name__}: {error}"


def _with_note(change: p.Advance, lifecycle: Lifecycle, held: Held, now: int) -> p.Advance:
    """The pause, with the note of it where the tenant is told of such."""
    if not lifecycle.is_noted(held.key.tenant):
        return change
    return msgspec.structs.replace(change, attached=(*change.attached, lifecycle.parked(held, now)))


def _without_secrets(held: Held, loaded: p.Loaded, reason: str) -> str:
    """The reason without the secrets of the run's actions, which the inputs of other calls may quote."""
    if held.gate is None:
        return reason
    events = (entry.event for entry in unseal(loaded.segments, held.id, loaded.blobs))
    forms = forms_of(secret for event in events for secret in secrets_of(event))
    return without_forms(reason, [form for form in forms if len(form) >= SHORTEST])


class Parker:
    """Parks held runs; ``let_go`` and ``rested`` are called when one is parked, ``push`` runs a plain callback soon."""

    def __init__(
        self,
        store: p.Store,
        committer: Committer,
        executions: Executions,
        push: Callable[[Callable[[], None]], None],
        let_go: Callable[[Held], None],
        rested: Callable[[p.Key, bool], None],
    ) -> None:
        self._store = store
        self._committer = committer
        self._executions = executions
        self._push = push
        self._let_go = let_go
        self._rested = rested

    def park(self, held: Held, reason: str, inbox: Sequence[p.Received] = ()) -> None:
        """Pause the run where its journal stands. Its inbox is left as it is."""
        if held.must_hear_cancel(inbox):
            reason = f"{reason.rstrip('.')}. {_CANCELLATION_WAITS}"
        self._commit(held, reason)

    def unbuilt(self, held: Held, error: Exception, inbox: Sequence[p.Received] = ()) -> None:
        """Park a run that cannot be made from its journal; ``inbox`` is what it was not given."""
        if not isinstance(error, HoldfastError):
            key = held.key
            log.error("run %s of tenant %s cannot be rebuilt", key.run, key.tenant, exc_info=error, extra=about(key))
        self.park(held, describe(error, "the run cannot be rebuilt"), inbox)

    def unreadable(self, held: Held, what: str, error: Exception) -> None:
        """Park a run of which the store has something that cannot be read."""
        key = held.key
        line = "the %s of run %s, tenant %s, cannot be read"
        log.error(line, what, key.run, key.tenant, exc_info=error, extra=about(key))
        why = f"its {what} in the store cannot be read ({type(error).__name__}: {error})"
        self.park(held, f"{why}: mend them or restore a backup, then resume the run.")

    def forget_turn(self, held: Held, arrivals: Sequence[Arrival]) -> None:
        """The code is at fault: nothing of the turn is kept but what arrived, which ``record`` is to save."""
        if held.execution is not None:
            held.execution.program.close()
        held.execution = None
        held.arrivals[:0] = arrivals
        held.committing = True

    async def record(self, held: Held, reason: str, instead: Callable[[], None] | None = None) -> None:
        """Record what arrived, so that no completed step is run again, and pause the run. ``instead`` of the pause
        something else may follow; then the lease is kept for it."""
        try:
            reading = partial(load, self._store, [held.row], whole=True)
            loaded = (await patiently(reading, unless=(StoreCorrupt,))).get(held.key)
            signals = None if loaded is None else carried_signals(loaded, held.id)
            if signals is not None:
                reading_all = partial(read_all, self._store, held.key.tenant, signals)
                held.learn_signals(signals, await patiently(reading_all, unless=(StoreCorrupt,)))
        except Exception as error:
            log.debug("what arrived could not be recorded: %s", error)
            if not held.dropped:
                self.park(held, reason if held.gate is None else reason.splitlines()[0])
            return
        if loaded is not None and not held.dropped:
            self._push(partial(self._record, held, loaded, _without_secrets(held, loaded, reason), instead))

    def _record(self, held: Held, loaded: p.Loaded, reason: str, instead: Callable[[], None] | None) -> None:
        before = None if held.gate is None else held.gate.before_turn()
        try:
            self._executions.rebuild(held, loaded.segments, loaded.blobs)
            turn = self._executions.advance(held, held.arrivals, resume=False)
            work = self._executions.plan(held, turn, None)
        except Exception as error:
            log.debug("what arrived could not be recorded: %s", error)
            if held.gate is not None and before is not None:
                held.gate.undo_turn(before)
            self.park(held, reason)
            return
        held.arrivals.clear()
        if instead is not None:
            self._commit(held, None, work.change, work.closings, instead)
            return
        if held.must_hear_cancel():
            reason = f"{reason.rstrip('.')}. {_CANCELLATION_WAITS}"
        self._commit(held, reason, work.change, work.closings)

    def _commit(
        self,
        held: Held,
        reason: str | None,
        recorded: p.Advance | None = None,
        closings: tuple[Closing, ...] = (),
        instead: Callable[[], None] | None = None,
    ) -> None:
        """Commit what was recorded, and the pause, with which the lease is given up."""
        if reason is not None:
            held.pause = reason
            key, why = held.key, reason.splitlines()[0]
            log.warning("run %s of tenant %s is parked: %s", key.run, key.tenant, why, extra=about(key))
        cancelling = held.execution is not None and held.execution.ledger.cancel_requested
        projection = p.Projection("waiting", pause=reason, cancelling=cancelling)
        if held.gate is not None:
            projection = msgspec.structs.replace(projection, governed=True, writes=held.gate.writes)
        change = p.Advance(
            held.key,
            held.generation,
            held.epoch,
            held.version,
            None if recorded is None else recorded.segment,
            projection,
            held.consumed if recorded is None else held.through,
            release=instead is None,
            blobs={} if recorded is None else recorded.blobs,
            attached=closings,
        )
        if reason is not None and (lifecycle := self._executions.lifecycle) is not None:
            change = _with_note(change, lifecycle, held, self._executions.clock.now())
        held.committing = True
        self._committer.submit(change, partial(self._answered, held, change, closings, instead))

    def _answered(
        self,
        held: Held,
        change: p.Advance,
        closings: tuple[Closing, ...],
        instead: Callable[[], None] | None,
        answer: p.Answer | Exception,
    ) -> None:
        if closings and held.gate is not None and not isinstance(answer, p.Advanced):
            held.gate.put_back(closings)  # they go alone when the run is let go
        if instead is None or held.dropped or not isinstance(answer, p.Advanced):
            self._let_go(held)
            self._rested(held.key, True)
            return
        held.consumed = change.consumed
        if change.segment is not None:
            held.version, held.head = change.segment.first + change.segment.count, change.segment.head
        instead()
