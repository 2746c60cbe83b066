"""The messenger: what a turn's commit did beside the turn, it brings to whom it concerns."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from holdfast.runs import children
from holdfast.runs.clock import Clock
from holdfast.runs.kinds.kind import Errand
from holdfast.store import protocol as p
from holdfast.store.committer import Committer
from holdfast.store.patience import patiently
from holdfast.worker.errands import outcome_of
from holdfast.worker.held import Held
from holdfast.worker.inboxes import Inboxes
from holdfast.worker.turn_plan import Plan


class Roles(Protocol):
    """What the advancer and its parts need of the worker's other roles."""

    def rested(self, key: p.Key, is_parked: bool = False) -> None:
        """A run waits for something from now on, or is parked."""
        ...

    def wake_claimer(self) -> None: ...
    def wake_claimer_at(self, due: int) -> None:
        """A run was handed back that is to be woken then."""
        ...

    def wake_taker(self) -> None: ...
    def wake_sealer(self) -> None: ...
    def announce(self) -> None:
        """Other processes should look at the store."""
        ...

    def doubt(self) -> None:
        """A lease may be this worker's that nobody here knows of."""
        ...


class Messenger:
    """``held`` are the runs of this worker, ``give_turn`` gives one its turn, ``background`` lets work run beside."""

    def __init__(
        self,
        store: p.Store,
        committer: Committer,
        clock: Clock,
        held: Mapping[p.Key, Held],
        inboxes: Inboxes,
        roles: Roles,
        give_turn: Callable[[Held], None],
        background: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._held = held
        self._inboxes = inboxes
        self._roles = roles
        self._give_turn = give_turn
        self._background = background

    def settle_errands(self, held: Held, work: Plan, answer: p.Advanced) -> None:
        """Give the run what its errands came to."""
        meetings: list[tuple[p.Start, p.Exists | p.Retired]] = []
        for errand, reply in work.paired(answer.attached):
            if not isinstance(errand, Errand) or reply is None:
                continue
            if (settled := outcome_of(errand, reply, self._clock.now())) is not None:
                held.arrivals.append(settled)
            elif (
                errand.meets
                and isinstance(errand.change, p.Start)
                and (isinstance(reply, p.Retired) or (held.generation and isinstance(reply, p.Exists)))
            ):
                meetings.append((errand.change, reply))
        if meetings:
            held.meetings += 1
            self._background(self._meet_again(held, meetings))
        elif held.generation and any(errand.meets for errand in work.errands):
            self._give_turn(held)  # it was kept in case it met one, and may be given back now

    async def _meet_again(self, held: Held, meetings: Sequence[tuple[p.Start, p.Exists | p.Retired]]) -> None:
        """A run has come to places at which it, or another of its name, had children before: these, or others.

        A run of a later generation keeps its lease until all is delivered: if it is lost before, its next holder asks.
        """
        key, generation = held.key, held.generation
        for start, found in meetings:
            message = await children.met_again(self._store, start, found, held.id, generation, self._clock.now())
            if message is not None:
                await patiently(partial(self._committer.commit, p.Deliver(key, message)))
                self.delivered(key)
        held.meetings -= 1
        self._give_turn(held)

    def wake_others(self, work: Plan, answers: Sequence[p.Answer]) -> None:
        """Errands may concern others: runs held here read their inbox, the rest is claimed, work is the taker's."""
        for errand, reply in work.paired(answers):
            if not isinstance(errand, Errand):
                continue
            if isinstance(errand.change, p.Deliver):
                self.delivered(getter_of(errand.change, reply))
            elif isinstance(errand.change, p.Start):
                self._roles.wake_claimer()
            elif isinstance(errand.change, p.Enqueue | p.Withdraw):  # what is withdrawn may be under way here
                self._roles.wake_taker()
            elif not isinstance(errand.change, p.SetReference | p.MarkSplit):
                self._roles.wake_sealer()  # what the gate keeps comes with an entry of the audit

    def delivered(self, key: p.Key) -> None:
        """A message was put into a run's inbox by this process."""
        held = self._held.get(key)
        if held is not None and not held.dropped:
            if not held.committing and held.execution is not None:
                self._inboxes.fetch(held)
        else:
            self._roles.wake_claimer()


def getter_of(change: p.Deliver, answer: p.Answer | None) -> p.Key:
    """The run that got a message: the one that it was sent to, or a heir of that."""
    heir = answer.heir if isinstance(answer, p.Delivered) else None
    return change.key if heir is None else p.Key(change.key.tenant, heir)
