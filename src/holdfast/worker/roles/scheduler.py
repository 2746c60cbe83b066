"""The scheduler: it starts what schedules say, when they say it. Every worker has one, and there is no leader.

What becomes of a tick is one commit: the run is started, the schedule moves on to its next version, and the audit has
its note. Of two schedulers that try it, one succeeds by the schedule's version. The run's id and the note's follow from
the schedule and the tick, so a tick is started once whoever tries it, also after its run was deleted. Where very many
are due, each scheduler begins with a share of its own (``share``), so that they do not try the same ones.

The time is the store's, read together with what is due: no tick is written that is later than that clock says, whatever
this worker's own one does. A worker whose clock is off the store's by more than 5 s starts nothing, since it would give
its runs wrong times. A store's clock that has jumped ahead is looked at twice (``store_clock``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from holdfast.errors import HoldfastError
from holdfast.runs import messages
from holdfast.runs.clock import Clock
from holdfast.runs.role import Role
from holdfast.schedules.launch import Judgement, Launcher, NotHere
from holdfast.schedules.notes import outcome_note, tick_note
from holdfast.schedules.planner import Move, Situation, found, plan, refused
from holdfast.schedules.schedule import (
    KIND,
    Schedule,
    decode,
    due_at,
    encode,
    offset_of,
    schedule_in,
)
from holdfast.schedules.timing import written
from holdfast.store import protocol as p
from holdfast.store.committer import CALLER_PATIENCE_SECONDS, Committer, into
from holdfast.store.patience import TROUBLE
from holdfast.worker.roles.share import Share
from holdfast.worker.roles.store_clock import MOST_OFF, SECOND_LOOK_SECONDS, StoreClock, clock_ahead

log = logging.getLogger("holdfast.scheduler")

BATCH: Final = 500
YIELD_EVERY: Final = 64
CHAIN: Final = 50
"""So many moves of one schedule are committed together, at most."""
LOOK_SECONDS: Final = 5.0
"""Hints can be lost: so often the store is looked at without one."""
SPACING_SECONDS: Final = 0.1
"""Hints come with every commit of other processes. More often than this they cause no look."""
WAITING_SECONDS: Final = 0.5
"""So often the schedules are looked at whose ticks wait, at most."""
ASIDE_SECONDS: Final = 60.0
"""After this time a schedule that cannot be followed here is tried again."""


class _Planned(NamedTuple):
    """A move, and the change that makes it."""

    key: p.ItemKey
    move: Move
    change: p.Operate


class _Sent(NamedTuple):
    """A move that is being committed."""

    key: p.ItemKey
    move: Move
    answer: asyncio.Future[p.Answer]


class Scheduler(Role):
    """Looks when the next tick is due, when something may have changed, and every few seconds."""

    name = "scheduler"

    def __init__(
        self,
        store: p.Store,
        committer: Committer,
        clock: Clock,
        launcher: Launcher,
        started: Callable[[], None],
        cancelled: Callable[[p.Key], None],
        worker: str,
        *,
        declares: bool,
    ) -> None:
        super().__init__()
        self._store = store
        self._committer = committer
        self._clock = clock
        self._launcher = launcher
        self._started = started
        self._cancelled = cancelled
        self._worker = worker
        self._share = Share(store, worker)
        self._store_clock = StoreClock()
        self._is_off = False
        self._aside: dict[p.ItemKey, tuple[int, float]] = {}  # version, and when it is tried again
        self._waiting: set[p.ItemKey] = set()
        self._freed: set[p.ItemKey] = set()
        self._found: set[tuple[p.ItemKey, int]] = set()
        self._place: p.ItemKey | None = None
        self._rests_until = self._waiting_until = 0.0
        self._is_overlooked = False
        self._has_declared = not declares

    def ended(self, run: p.Key) -> None:
        """A run has ended here: a tick may have waited for it."""
        id = schedule_in(run.run)
        key = None if id is None else p.ItemKey(run.tenant, KIND, id)
        if key is not None and key in self._waiting:
            self._freed.add(key)
            self._rests_until = 0.0
            self.wake()

    async def round(self) -> float | None:
        time = asyncio.get_running_loop().time
        if (rest := self._rests_until - time()) > 0:
            return rest
        self._rests_until = time() + SPACING_SECONDS
        if not self._has_declared:
            await self._launcher.declare()
            self._has_declared = True
        before = self._clock.now()
        now, due = await self._store.due_now(KIND, BATCH * self._share.schedulers + len(self._aside))
        if not await self._may_schedule(before, now, self._clock.now(), time()):
            self._rests_until = time() + SECOND_LOOK_SECONDS
            return SECOND_LOOK_SECONDS
        mine = await self._share.of(due, time()) if len(due) >= BATCH else due
        rows = {row.key: row for row in (*mine, *await self._look_at_waiting(time()))}
        made = await self._handle([row for row in rows.values() if not self._is_aside(row, time())], now)
        self._share.made(made)
        if made and (len(due) >= BATCH or made >= CHAIN):
            self._rests_until = 0.0
            return 0.0
        return await self._until_next()

    async def _until_next(self) -> float:
        """The seconds until there may be something to do."""
        longest = LOOK_SECONDS
        if self._is_overlooked:
            longest = max(0.001, self._waiting_until - asyncio.get_running_loop().time())
        following = await self._store.next_due_item(KIND)
        if following is None:
            return longest
        now = self._store_clock.now(asyncio.get_running_loop().time())
        shortest = 1.0 if self._aside else 0.001  # what is aside stays due
        return min(longest, max(shortest, (following - now) / 1e6))

    async def _may_schedule(self, before: int, now: int, after: int, time: float) -> bool:
        """Whether the store's clock, which was read between two readings of this worker's, may be gone by here."""
        ahead = clock_ahead(before, now, after)
        is_off = abs(ahead) > MOST_OFF
        if is_off and not self._is_off:
            log.warning(
                "the clock of this worker is %.1f s %s the store's: until it is right, it starts nothing by a schedule",
                abs(ahead) / 1e6,
                "ahead of" if ahead > 0 else "behind",
            )
        elif self._is_off and not is_off:
            log.info("the clock of this worker is right again: it follows schedules")
        if is_off or self._is_off:
            await self._store.report_clock(self._worker, ahead if is_off else 0)
        self._is_off = is_off
        if is_off:
            return False
        if self._store_clock.believes(now, time):
            return True
        log.warning("the store's clock has jumped ahead: it is looked at again before ticks are called missed")
        return False

    # -- what is looked at -----------------------------------------------------------------------------------------

    async def _look_at_waiting(self, time: float) -> list[p.ItemRow]:
        """The schedules whose ticks wait for a run's end, or for their template; a page of them at a time."""
        freed, self._freed = self._freed, set()
        rows = [row for key in sorted(freed) if (row := await self._store.item(key)) is not None]
        self._is_overlooked = time < self._waiting_until
        if self._is_overlooked:
            return rows
        self._waiting_until = time + WAITING_SECONDS
        begin = self._place
        page = await self._store.items(KIND, BATCH, status="waiting", after=begin)
        self._place = page[-1].key if len(page) == BATCH else None
        seen = {row.key for row in page}
        self._waiting = seen if begin is self._place else self._waiting | seen
        return [*rows, *page]

    def _is_aside(self, row: p.ItemRow, time: float) -> bool:
        version, until = self._aside.get(row.key, (0, 0.0))
        if version == row.version and time < until:
            return True
        self._aside.pop(row.key, None)
        return False

    def _set_aside(self, row: p.ItemRow, error: Exception) -> None:
        """It cannot be followed here; another worker may be able to, and a person may correct it."""
        log.warning("schedule %s of tenant %s cannot be followed by this worker: %s", row.id, row.tenant, error)
        self._aside[row.key] = row.version, asyncio.get_running_loop().time() + ASIDE_SECONDS

    # -- what is done ----------------------------------------------------------------------------------------------

    async def _handle(self, rows: Sequence[p.ItemRow], now: int) -> int:
        """Plan and commit the next moves of these schedules; gives how many were made."""
        schedules: dict[p.ItemKey, Schedule] = {}
        keys = [row.key for row in rows]
        for key, row in zip(keys, rows, strict=True):
            try:
                schedules[key] = decode(row.body, row.id)
            except HoldfastError as error:
                self._set_aside(row, error)
        judgements = await self._launcher.judge(schedules) if schedules else {}
        under_way = await self._under_way(schedules)
        sent: list[_Sent] = []
        following: dict[p.ItemKey, list[_Planned]] = {}
        try:
            for number, (key, row) in enumerate(zip(keys, rows, strict=True)):
                if (schedule := schedules.get(key)) is not None:
                    moves = await self._moves(key, row, schedule, judgements[key], under_way.get(key, ()), now)
                    sent += map(self._submitted, moves[:1])
                    following[key] = moves[1:]
                if number % YIELD_EVERY == 0:
                    await asyncio.sleep(0)  # the store commits the first ones, and others have their turn
        finally:
            moved = await self._answered(sent)
        return len(moved) + await self._follow_up(moved, following)

    async def _follow_up(self, moved: Collection[p.ItemKey], following: Mapping[p.ItemKey, list[_Planned]]) -> int:
        """Commit the further moves of schedules, each when the one before it was made; gives how many were.

        A person's change takes the version of a move that is refused. The next move would then fit by its number, and
        undo the change, and what became of a tick would be lost.
        """
        made, number = 0, 0
        while sent := [self._submitted(following[key][number]) for key in moved if len(following[key]) > number]:
            moved = await self._answered(sent)
            made, number = made + len(moved), number + 1
        return made

    async def _under_way(self, schedules: Mapping[p.ItemKey, Schedule]) -> dict[p.ItemKey, tuple[str, ...]]:
        """Those runs of each schedule that are under way, where that matters."""
        matters = {key: schedule.runs for key, schedule in schedules.items() if schedule.overlap != "allow"}
        keys = {p.Key(key.tenant, run) for key, runs in matters.items() for run in runs}
        rows = await self._store.get(sorted(keys)) if keys else []
        live = {row.key for row in rows if row.ended_at is None}
        return {key: tuple(run for run in runs if p.Key(key.tenant, run) in live) for key, runs in matters.items()}

    async def _moves(
        self,
        key: p.ItemKey,
        row: p.ItemRow,
        schedule: Schedule,
        judgement: Judgement,
        live: tuple[str, ...],
        now: int,
    ) -> list[_Planned]:
        """The next moves of one schedule, each for the version that the one before it makes, if that is made."""
        planned: list[_Planned] = []
        offset = offset_of(row.tenant, row.id, schedule)
        while len(planned) < CHAIN:
            try:
                move = plan(row.id, schedule, Situation(now, bool(live), judgement.gate, offset, live))
                if move is None:
                    break
                start = None
                if move.start is not None:
                    move, start = await self._begun(key, schedule, move, judgement, now)
            except TROUBLE:
                raise
            except (HoldfastError, NotHere) as error:  # its time zone is not known here, or what it starts
                self._set_aside(row, error)
                return planned
            if move.outcome.run is not None:  # it is started, or is there
                live = (move.outcome.run,)
            version = row.version + len(planned) + 1
            planned.append(_Planned(key, move, _operate(key, version, move, judgement, start, now, offset)))
            schedule = move.schedule
        self._note_waiting(key, schedule)
        return planned

    def _note_waiting(self, key: p.ItemKey, schedule: Schedule) -> None:
        if schedule.queue:
            self._waiting.add(key)
        else:
            self._waiting.discard(key)

    async def _begun(
        self, key: p.ItemKey, schedule: Schedule, move: Move, judgement: Judgement, now: int
    ) -> tuple[Move, p.Start | None]:
        tick = move.start or 0
        if (key, tick) in self._found:
            return found(move), None
        try:
            return move, await self._launcher.start(key, schedule, judgement, tick, now)
        except TROUBLE:
            raise
        except HoldfastError as error:
            return refused(schedule, move, f"it cannot be started: {error}"), None

    def _submitted(self, planned: _Planned) -> _Sent:
        answer: asyncio.Future[p.Answer] = asyncio.get_running_loop().create_future()
        self._committer.submit(planned.change, into(answer), CALLER_PATIENCE_SECONDS)
        return _Sent(planned.key, planned.move, answer)

    async def _answered(self, sent: Sequence[_Sent]) -> list[p.ItemKey]:
        """Wait for the commits; gives the schedules that have moved. The others are planned anew in a later round."""
        results = await asyncio.gather(*(each.answer for each in sent), return_exceptions=True)
        moved = [each.key for each, answer in zip(sent, results, strict=True) if self._took(each, answer)]
        if moved:
            self._started()
        for answer in results:
            if isinstance(answer, BaseException):
                raise answer
        return moved

    def _took(self, sent: _Sent, answer: p.Answer | BaseException) -> bool:
        """Take note of the store's answer; whether the move was made."""
        place = (sent.key, sent.move.outcome.tick)
        if isinstance(answer, p.Exists | p.Retired | p.Repeated) and sent.move.start is not None:
            self._found.add(place)  # if the schedule has not moved on with it, the next move says so
            return False
        if not isinstance(answer, p.OperatedOn):
            return False
        self._found.discard(place)
        for run in sent.move.cancel:
            self._cancelled(p.Key(sent.key.tenant, run))
        return True


def _operate(
    key: p.ItemKey, version: int, move: Move, judgement: Judgement, start: p.Start | None, now: int, offset: int
) -> p.Operate:
    """The act that makes a move."""
    after = move.schedule
    put = p.PutItem(p.ItemRow(*key, version, encode(after), after.status, due_at(after, offset), now))
    acts: list[p.Act] = [*judgement.conditions, put]
    if start is not None:
        acts.append(start)
    reason = f"tick {written(move.outcome.tick)} of schedule {key.id} takes its place"
    acts += (p.Deliver(p.Key(key.tenant, run), messages.cancel(reason, now)) for run in move.cancel)
    name = f"schedule:{key.id}:v{version}" if start is None else tick_note(key.id, move.outcome.tick)
    return p.Operate(outcome_note(key, after, move.outcome, now, name), tuple(acts))
