"""A simulation of schedules: whole workers that die around every commit, clocks that are apart and jump, and people who
change, pause, run and fill back at any time. When the faults have ended and nothing is due, the laws are checked:

- S1: a tick is started once: it has one note of that, and one run.
- S2: every tick between the making of a schedule and its cursor is accounted for once: it is started or found, skipped,
  missed or refused, or waits. (Ticks that people start by a backfill are theirs.)
- S3: the audit has a reason for every tick that was not started.
- S4: no tick is written that is later than the store's clock.

``python -m tests.simulation.scheduled SEED [COUNT]`` plays seeds.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from holdfast import Holdfast, WorkerOptions, workflow
from holdfast.audit import records as r
from holdfast.audit.collector import entries_of
from holdfast.errors import HoldfastError
from holdfast.programs.machine.kind import Machines
from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.schedules.schedule import KIND, Schedule, decode
from holdfast.schedules.timing import microseconds, moment, next_tick
from holdfast.store import protocol as p
from holdfast.testing.virtual import VirtualClock, VirtualLoop
from holdfast.worker.presence.heart import LoopPulse
from tests.seeds import play_seeds
from tests.simulation.faults import Faults, FaultyStore, Graves, SimulatedStore
from tests.simulation.lockstep import true_store
from tests.simulation.simulate import _abandon
from tests.simulation.violation import Violation

FAULTY_SECONDS: Final = 300.0
OPTIONS: Final = WorkerOptions(lease_seconds=6.0, retention_days=None, grace_seconds=1.0, crash_limit=1000)
LINES: Final = ("* * * * *", "*/20 * * * * *", "*/2 * * * *")
FINAL: Final = frozenset(
    {"trigger_scheduled", "find_scheduled", "skip_scheduled", "miss_scheduled", "refuse_scheduled"}
)


@workflow
async def chore(seconds: float = 0.0) -> None:
    await asyncio.sleep(seconds)


class Ledger(SimulatedStore):
    """The store. It refuses ticks that lie in its future, however often its clock has jumped."""

    latest = 0

    async def commit(self, batch: Sequence[p.Change]) -> list[p.Answer]:
        self.latest = max(self.latest, self._clock())
        for change in batch:
            for act in change.changes if isinstance(change, p.Operate) else ():
                if isinstance(act, p.PutItem) and act.item.kind == KIND:
                    self._check(decode(act.item.body, act.item.id))
        return await super().commit(batch)

    def _check(self, schedule: Schedule) -> None:
        ticks = [max(each.tick, each.last or 0) for each in schedule.recent]
        if _is_once(schedule):  # one time may be given that is over, and a person decides it
            return
        if (tick := max((schedule.cursor, *schedule.queue, *ticks))) > self.latest:
            raise Violation(f"a tick at {moment(tick)} is written, and the store's clock was never there (S4)")


class Life:
    """One process, until it dies."""

    def __init__(self, simulation: ScheduleSimulation) -> None:
        source, loop = simulation.source, asyncio.get_running_loop()
        self._simulation = simulation
        self.store = FaultyStore(simulation.store, simulation.faults, simulation.reached, simulation.graves, self.die)  # type: ignore[arg-type]
        self.clock = VirtualClock(loop, source.choice((0.0, 0.0, 2.5, -40.0, 70.0)))
        self.app = Holdfast(
            self.store,  # type: ignore[arg-type]  # every operation is forwarded by name
            clock=self.clock,
            entropy=random.Random(source.random()),
            options=OPTIONS,
            pulse=LoopPulse,
            workflows=[chore],
        )
        self.app.machine_kind = Machines({})  # whatever machines other tests have declared

    def die(self) -> None:
        self.store.dead = True
        self._simulation.replace(self)


class ScheduleSimulation:
    """Everything that one seed decides."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.faults = Faults(self.source)
        self.faults.reads |= {"due_items", "next_due_item", "item"}
        self.faults.outages = [(start * 5, start * 5 + self.source.uniform(1, 90)) for start, _ in self.faults.outages]
        self.reached: Counter[str] = Counter()
        self.graves = Graves()
        self.lives: list[Life] = []
        self.tasks: set[asyncio.Task[Any]] = set()
        self.changed: set[str] = set()
        self.backfilled: set[str] = set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        self.clock = VirtualClock(loop)
        self.store = true_store(self.clock.now, Ledger)
        await self.store.open()
        self.client = Holdfast(self.store, worker=False, clock=self.clock, entropy=random.Random(1), workflows=[chore])
        await self.client.open()
        for number in range(self.source.randint(1, 4)):
            await self._make(f"s{number}")
        for _ in range(self.source.choice((1, 2, 3))):
            self.spawn(self._boot(self.source.uniform(0, 30)))
        self.spawn(self._disturb())
        await asyncio.sleep(FAULTY_SECONDS)
        self.faults.healed = True
        if not self.lives:
            await self._boot(0.0)
        for clock in (self.clock, *(life.clock for life in self.lives)):
            clock.skew_seconds = 0.0
        await asyncio.sleep(200)
        async for info in self.client.schedules.list(status="active"):
            await self.client.schedules.pause(info.id)
        await asyncio.sleep(400)
        await self._check()

    def spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _make(self, id: str) -> None:
        source = self.source
        when: dict[str, Any] = source.choice(
            (
                {"cron": source.choice(LINES), "timezone": source.choice(("UTC", "Asia/Kolkata"))},
                {"every": source.choice((5, 17, 61))},
                {"at": moment(self.clock.now()) + datetime.timedelta(seconds=source.uniform(-5, 200))},
            )
        )
        await self.client.schedules.create(
            id,
            chore,
            input=source.choice((0.0, 3.0, 70.0)),
            overlap=source.choice(("skip", "queue_one", "queue_all", "cancel_other", "allow")),
            catch_up=source.choice(("latest", "all", "none")),
            catch_up_window=source.choice((None, 30, 120)),
            jitter=source.choice((0, 0, 20)),
            **when,
        )

    async def _boot(self, delay: float) -> None:
        await asyncio.sleep(delay)
        life = Life(self)
        self.lives.append(life)
        await life.app.open()

    def replace(self, life: Life) -> None:
        self.reached["worker died"] += 1
        if life in self.lives:
            self.lives.remove(life)
        self.spawn(self._boot(self.source.uniform(0.1, 60)))

    # -- people, and clocks ------------------------------------------------------------------------------------------

    async def _disturb(self) -> None:
        while not self.faults.healed:
            await asyncio.sleep(self.source.expovariate(0.08))
            infos = [info async for info in self.client.schedules.list()]
            if infos:
                with contextlib.suppress(HoldfastError):
                    await self._act(self.source.choice(infos).id)

    async def _act(self, id: str) -> None:
        source, schedules = self.source, self.client.schedules
        word = source.choice(
            ("pause", "resume", "resume", "run now", "backfill", "change", "overlap", "jump", "all jump", "kill")
        )
        if word == "pause":
            await schedules.pause(id, by="ann", reason="a look")
        elif word == "resume":
            await schedules.resume(id, by="ann")
        elif word == "run now":
            await schedules.run_now(id, by="ann")
        elif word == "backfill":
            now = moment(self.clock.now())
            self.backfilled.add(id)
            await schedules.backfill(id, now - datetime.timedelta(seconds=60), now, by="ann")
        elif word == "change":
            self.changed.add(id)
            await schedules.change(id, cron=source.choice(LINES), timezone="UTC", by="ann")
        elif word == "overlap":
            await schedules.change(id, overlap=source.choice(("skip", "queue_one", "allow")), by="ann")
        elif self.lives and word == "jump":
            source.choice(self.lives).clock.skew_seconds += source.choice((-600.0, -3.0, 3.0, 600.0))
        elif word == "all jump":
            self.spawn(self._jump())
        elif self.lives:
            source.choice(self.lives).die()
        self.reached[f"people: {word}"] += 1

    async def _jump(self) -> None:
        """The clock of the one host that all are on jumps, and perhaps comes back."""
        seconds = self.source.choice((-900.0, 30.0, 900.0, 900.0))
        clocks = [self.clock, *(life.clock for life in self.lives)]
        for clock in clocks:
            clock.skew_seconds += seconds
        await asyncio.sleep(self.source.choice((2.0, 60.0)))
        for clock in clocks:
            clock.skew_seconds -= seconds

    # -- the laws ----------------------------------------------------------------------------------------------------

    async def _check(self) -> None:
        acts = [r.decode(entry.body) async for entry in entries_of(self.store, p.AuditQuery(DEFAULT_TENANT))]
        noted = [each for each in acts if isinstance(each, r.Operated) and "schedule" in each.details]
        self.reached.update(each.act for each in noted)
        runs = {row.key.run for row in await self.store.find(p.Query(), 100_000)}
        started = [each.run for each in noted if each.act == "trigger_scheduled"]
        if len(started) != len(set(started)) or set(started) != runs:
            raise Violation(f"started twice, or without a note (S1): {Counter(started) - Counter(set(started))}")
        for row in await self.store.items(KIND, 1_000):
            self._check_one(row.id, decode(row.body, row.id), [n for n in noted if n.details["schedule"] == row.id])

    def _check_one(self, id: str, schedule: Schedule, noted: list[r.Operated]) -> None:
        if any(not each.reason for each in noted if each.act in FINAL - {"trigger_scheduled"}):
            raise Violation(f"a tick of {id} was not started, and nobody says why (S3)")
        if id in self.changed or schedule.made_at == 0:
            return  # its ticks were of several timings
        account: Counter[int] = Counter(schedule.queue)
        for each in noted:
            if each.act in FINAL and each.reason not in ("run now", "backfill"):
                account.update(_between(schedule, each.details["tick"], each.details.get("last")))
            for name, text in each.details.items():
                if name.startswith(("skip_scheduled.", "miss_scheduled.")):
                    found = re.match(r"(\S+?)(?: to (\S+) \(\d+ ticks\))?: ", text)
                    assert found is not None, text
                    account.update(_between(schedule, found[1], found[2]))
        expected = Counter(_ticks(schedule, schedule.made_at, schedule.cursor))
        if _is_once(schedule) and not expected:
            expected = Counter(account.keys())
        if account != expected:
            lost, doubled = expected - account, account - expected
            raise Violation(f"{id}: not accounted for {lost}, accounted for twice {doubled} (S2)")


def _is_once(schedule: Schedule) -> bool:
    return schedule.timing.__struct_config__.tag == "once"


def _ticks(schedule: Schedule, after: int, until: int) -> Iterator[int]:
    while (tick := next_tick(schedule.timing, after)) is not None and tick <= until:
        yield tick
        after = tick


def _between(schedule: Schedule, first: str, last: str | None) -> list[int]:
    begin = microseconds(datetime.datetime.fromisoformat(first))
    end = begin if last is None else microseconds(datetime.datetime.fromisoformat(last))
    return [begin, *_ticks(schedule, begin, end)]


def simulate_schedules(seed: int) -> Counter[str]:
    """Play one seed; gives what was reached. Raises Violation, with the seed in its note."""
    loop = VirtualLoop()
    simulation = ScheduleSimulation(seed)
    try:
        loop.run_until_complete(simulation.run())
    except BaseException as error:
        error.add_note(f"seed {seed}: python -m tests.simulation.scheduled {seed}")
        raise
    finally:
        _abandon(loop)
    return simulation.reached


if __name__ == "__main__":
    play_seeds(simulate_schedules)
