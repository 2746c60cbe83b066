"""The advancer: it holds the runs that this worker leases and takes their turns.

A run has one change under way at a time, and nothing that a turn asks for begins before the turn is durable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from holdfast.gate.call import Call
from holdfast.gate.effects import Effects, Performable
from holdfast.journal import events as e
from holdfast.kernel.arrivals import Arrival
from holdfast.runs.birth import Birth
from holdfast.store import protocol as p
from holdfast.store.committer import Committer, Done
from holdfast.worker.executions import Executions
from holdfast.worker.faults import Faults
from holdfast.worker.gate.answers import Recorded
from holdfast.worker.gate.governor import Governor
from holdfast.worker.gate.settler import Floor
from holdfast.worker.handovers import Handovers
from holdfast.worker.held import Held
from holdfast.worker.held_runs import HeldRuns
from holdfast.worker.inboxes import Inboxes
from holdfast.worker.lanes.cell_supplier import CellSupplier
from holdfast.worker.lanes.lane_warden import LaneWarden
from holdfast.worker.messenger import Messenger, Roles
from holdfast.worker.opener import Opener
from holdfast.worker.parker import Parker
from holdfast.worker.presence.lease import LocalLease
from holdfast.worker.pump import Pump
from holdfast.worker.rebuilder import Rebuilder
from holdfast.worker.steps.dispatcher import Dispatcher
from holdfast.worker.steps.performer import Performer
from holdfast.worker.steps.receipt_signer import ReceiptSigner
from holdfast.worker.turn_plan import Plan

log = logging.getLogger("holdfast.worker")

Ended = Callable[[p.Run, e.Event, int], None]
"""Called for a run that ended here: its row as it was taken, its last event, its generation if it was retried."""


class Advancer:
    """Takes turns of the runs that this worker leases. ``ended`` is called for every run that ends here."""

    def __init__(
        self,
        store: p.Store,
        committer: Committer,
        performer: Performer,
        executions: Executions,
        steps: Mapping[str, Performable],
        effects: Effects,
        ended: Ended,
        lease: LocalLease,
        make_gate: Callable[[Floor], Governor],
        roles: Roles,
        signer: ReceiptSigner,
        *,
        warm_limit: int,
        crash_limit: int,
    ) -> None:
        self._store = store
        self._committer = committer
        self._executions = executions
        self._clock = executions.clock
        self._ended = ended
        self._lease = lease
        self._roles = roles
        self._governor = make_gate(self)
        self._runs = HeldRuns(self._governor.acts, roles.doubt, warm_limit)
        self.held = self._runs.by_key
        self.freed = self._runs.freed
        self._crash_limit = crash_limit
        doing = (performer, committer, executions.clock, steps, self._governor.acts)
        self._dispatcher = Dispatcher(*doing, self.arrive, signer)
        self._pump = Pump()
        self._push = self._pump.push
        self._parker = Parker(store, committer, executions, self._push, self._runs.let_go, roles.rested)
        self._handovers = Handovers(store, executions.clock, effects, self._runs.let_go, roles.announce, signer)
        self._rebuilder = Rebuilder(
            store,
            executions,
            self._dispatcher,
            self._handovers,
            self._parker,
            self._push,
            self._turn,
            self._background,
        )
        self._faults = Faults(self._parker, self._handovers, self._rebuilder, self._runs.relinquish, self._background)
        self._inboxes = Inboxes(store, self._schedule, self._faults.engine_failed, self._background)
        self._cells = CellSupplier(
            store, executions.clock, self._schedule, self._faults.engine_failed, self._background
        )
        judging = (self._schedule, self._faults, self._background)
        self.warden = LaneWarden(store, committer, executions.clock, executions.machines, *judging)
        self._messenger = Messenger(
            store, committer, executions.clock, self.held, self._inboxes, roles, self.give_turn, self._background
        )
        self._opener = Opener(executions, self._governor, committer, self._push, self._started, roles.wake_claimer)
        self._loads: set[asyncio.Task[None]] = set()

    # -- what others report -------------------------------------------------------------------------------------

    def take(self, run: p.Run) -> bool:
        """Hold a run that was just claimed; True where its journal must be loaded and given to ``loaded``."""
        return self._runs.take(run).warm is None

    def holds(self, run: p.Run) -> bool:
        """Whether this very lease of the run is held here: an older one may be on its way out."""
        return self._runs.of_lease(run) is not None

    def loaded(
        self,
        run: p.Run,
        loaded: p.Loaded | None,
        inbox: list[p.Received],
        governed: p.Governed | None = None,
        recorded: Recorded | None = None,
    ) -> None:
        """Give a taken run its journal (None where it was warm), its inbox, what it has at the gate and what the audit
        records of its answered tasks; it goes on."""
        held = self._runs.of_lease(run)
        if held is None or held.dropped:
            return
        if governed is not None:
            try:
                held.learn(governed)
            except Exception as error:
                self.unreadable(run, "receipts and tasks", error)
                return
        if run.crashes >= self._crash_limit:
            times = f"{run.crashes} times in a row the worker that held it died"
            if not held.is_lane:
                what = f"poison: {times} before it could go on. Look for what kills it, then resume it."
                self._parker.park(held, what)
                return
            held.poison = f"poison: {times} before it was handled. Look for what kills it, then release the cell."
        self._push(partial(self._rebuilder.enter, held, loaded, inbox, recorded))

    def unreadable(self, run: p.Run, what: str, error: Exception) -> None:
        """What the store has of a taken run cannot be read: it is parked, so that no other run waits for it."""
        if (held := self._runs.of_lease(run)) is not None and not held.dropped:
            self._parker.unreadable(held, what, error)

    def begin(self, birth: Birth, owner: str, done: Done) -> None:
        """Start a run here: its creation, its lease and its first turn are one change."""
        self._opener.begin(birth, owner, done)

    def arrive(self, held: Held, arrival: Arrival) -> None:
        """Something happened to a held run."""
        if not held.dropped:
            held.arrivals.append(arrival)
            self._schedule(held)

    def receive(self, key: p.Key, inbox: list[p.Received]) -> None:
        """Messages came for a held run."""
        if (held := self.held.get(key)) is not None:
            self._inboxes.receive(held, inbox)

    def paused(self, key: p.Key, reason: str) -> None:
        """A held run was paused: it ends what it has begun, and is handed back."""
        if (held := self.held.get(key)) is not None and held.pause is None:
            held.pause = reason
            self._schedule(held)

    def give_turn(self, held: Held) -> None:
        """Something about a held run must be judged again."""
        if not held.dropped:
            self._schedule(held)

    @property
    def has_declined(self) -> bool:
        """Whether runs were handed to other workers because their journals do not fit the code here."""
        return self._handovers.has_declined

    @property
    def busy(self) -> bool:
        """Whether a turn is to be taken, or something is read or written for one. A commit is the committer's."""
        return self._pump.running or bool(self._loads)

    async def rested(self) -> None:
        """Wait until it is not busy, or has become so again."""
        if self._loads:
            await asyncio.wait(self._loads)
        await self._pump.rested()

    def lose_all(self) -> None:
        """Every lease is lost: another worker may have taken the runs already."""
        for held in [*self.held.values(), *self._opener.unstored]:
            self._runs.let_go(held)
        self._opener.unstored.clear()

    def close(self) -> None:
        """Forget everything, running none of it."""
        self.lose_all()
        self._runs.close()
        for task in self._loads:
            task.cancel()

    # -- turns ---------------------------------------------------------------------------------------------------

    def _schedule(self, held: Held) -> None:
        if not held.scheduled and not held.committing:
            held.scheduled = True
            self._push(partial(self._turn, held))

    def _turn(self, held: Held) -> None:
        held.scheduled = False
        if held.dropped or held.committing or held.execution is None:
            return
        if held.gate is not None and self._governor.reads_answers(held, held.gate):
            return  # the next turn comes with them
        if held.is_lane and (self.warden.must_wait(held) or self._cells.must_read(held) or self.warden.declines(held)):
            return
        arrivals, resume = held.take_arrivals()
        held.silence()
        try:
            turn = self._executions.advance(held, arrivals, resume=resume)
        except Exception as error:
            self._faults.failed(held, arrivals, error)
            return
        if held.is_lane:
            self._cells.release(held)
        held.names.clear()  # a later turn asks anew: something else may be published by then
        before = None if held.gate is None else held.gate.before_turn()
        try:
            if turn.events or turn.requests or held.fresh or held.through > held.consumed or not self._stays(held):
                self._commit(held, self._executions.plan(held, turn, self._governor))
            elif held.has_more:
                self._schedule(held)
            else:
                self._set_alarm(held, held.next_due())
        except Exception as error:
            if held.gate is not None:
                held.gate.undo_turn(before or ((), 0))
            self._faults.unplanned(held, arrivals, error)

    def _stays(self, held: Held) -> bool:
        """Whether something here will move the run soon, a step, an act or a timer, and nothing is to be judged."""
        gate = held.gate
        if gate is not None and (gate.wants_turn or gate.is_expired(self._clock.now())):
            return False
        if held.steps or (gate is not None and gate.is_moving):
            return True
        return held.pause is None and self._executions.is_due_soon(held)

    def _commit(self, held: Held, work: Plan) -> None:
        held.committing = True
        self._dispatcher.end(held, work.abandon, work.stop)
        self._committer.submit(work.change, partial(self._answered, held, work, held.pause is not None))

    def _answered(self, held: Held, work: Plan, was_paused: bool, answer: p.Answer | Exception) -> None:
        """The turn is durable, or refused. Called from inside a task: no program runs here."""
        held.end_turn()
        try:
            self._take_answer(held, work, was_paused, answer)
        except Exception as error:
            self._faults.engine_failed(held, "cannot go on from what the store answered", error)

    def _take_answer(self, held: Held, work: Plan, was_paused: bool, answer: p.Answer | Exception) -> None:
        if work.closings and not isinstance(answer, p.Advanced):
            self._governor.acts.let_go(held, work.closings)
        if held.dropped:
            if isinstance(answer, p.Advanced):  # acts that were cleared meanwhile are closed as not begun
                work.follow(answer.attached)
            else:
                work.give_up()
            return
        if not isinstance(answer, p.Advanced):
            if isinstance(answer, Exception):
                self._parker.park(held, f"the store refused what the run did: {answer}")
            else:
                self._runs.relinquish(held)
                work.give_up()
            return
        held.reach(work.change, self._clock.now())
        if work.is_gated:
            self._roles.wake_sealer()
        if answer.pause is not None or was_paused:  # without one, it was resumed before it could be handed back
            held.pause, held.admitted = answer.pause, False
        if work.ending is not None:
            self._runs.let_go(held)
            work.follow(answer.attached)
            self._ended(held.row, work.ending, held.generation if held.generation > held.lineage else 0)
            if work.attached:
                self._messenger.wake_others(work, answer.attached)
            return
        self._carry_on(held, work, answer)
        if was_paused:
            self.give_turn(held)

    def _carry_on(self, held: Held, work: Plan, answer: p.Advanced) -> None:
        if work.change.renewal is not None:
            self._push(partial(self._next_generation, held, work.change.renewal))
            work.follow(answer.attached)  # behind it: nothing may take another turn of the generation that has ended
            self._messenger.wake_others(work, answer.attached)
            return
        held.fresh = False
        if work.attached:
            self._messenger.settle_errands(held, work, answer)
            self._messenger.wake_others(work, answer.attached)
            work.follow(answer.attached)
            if held.dropped:  # its lease has lapsed
                return
        if work.change.projection.standing == "waiting":
            self._roles.rested(held.key)
        if answer.released and not held.arrivals:
            self._runs.give_back(held)
            if (due := work.change.projection.wake_at) is not None:
                self._roles.wake_claimer_at(due)
            return
        if answer.released:  # an arrival came in while the lease was given up: take the run again, with all it has
            self._runs.let_go(held)
            self._roles.wake_claimer()
            return
        if work.invoke and not self._lease.alive():
            self._runs.relinquish(held)
            return
        for request in work.invoke:
            self._dispatcher.begin(held, request)
        if answer.arrived > held.through and held.pause is None:
            self._inboxes.fetch(held)
        if held.has_more or held.pause is not None or (held.gate is not None and held.gate.wants_turn):
            self._schedule(held)
        else:  # what the gate knows may have changed since the turn was planned
            self._set_alarm(held, held.next_due() if held.gate is not None else work.change.projection.wake_at)

    def delivered(self, key: p.Key) -> None:
        """A message was put into a run's inbox by this process."""
        self._messenger.delivered(key)

    def _next_generation(self, held: Held, renewal: p.Renewal) -> None:
        if held.dropped or held.execution is None:
            return
        held.execution.program.close()
        held.renew(renewal)
        try:
            self._executions.rebuild(held, [renewal.segment], renewal.blobs)
        except Exception as error:
            self._faults.unbuilt(held, error)
        else:
            self._turn(held)

    # -- new runs --------------------------------------------------------------------------------------------------

    def _started(self, held: Held, work: Plan, start: p.Start, done: Done, answer: p.Answer | Exception) -> None:
        """The store has answered for a new run. Called from inside a task: no program runs here."""
        if not isinstance(answer, p.Started) or held.dropped or held.key in self.held:
            held.drop()
            if isinstance(answer, p.Started):  # acts that were cleared meanwhile are closed as not begun
                work.follow(answer.attached)
            elif not isinstance(answer, p.Exists | p.Retired):  # it may have been made all the same, and leased to us
                work.give_up()
            if not isinstance(answer, p.Exists | p.Retired):
                self._roles.doubt()
            done(answer)
            return
        if start.owner is not None:
            self.held[held.key] = held
        done(answer)
        self._answered(held, work, False, p.Advanced(0, None, start.owner is None, answer.attached))

    # -- acts ------------------------------------------------------------------------------------------------------

    def perform_effect(self, held: Held, call: Call) -> None:
        """Begin an act whose receipt is open, or its probe; where the lease has lapsed, nothing is begun."""
        if held.dropped:
            return
        if not self._lease.alive():
            self._runs.relinquish(held)
        elif call.state == "probing":
            self._dispatcher.probe(held, call)
        else:
            self._dispatcher.act(held, call)

    # -- faults ----------------------------------------------------------------------------------------------------

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._loads.add(task)
        task.add_done_callback(self._loads.discard)

    def _set_alarm(self, held: Held, due: int | None) -> None:
        if due is None or held.dropped or held.pause is not None:
            return
        delay = max(0.0, (due - self._clock.now()) / 1e6)
        held.alarm = asyncio.get_running_loop().call_later(delay, self._ring, held)

    def _ring(self, held: Held) -> None:
        held.alarm = None
        self.give_turn(held)
