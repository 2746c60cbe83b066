"""Histories that mix all that machines can do: two tenants of the bank, whose handlers raise and kill, whose effects
fail and report, whose lanes are split, paused and resumed, whose parked cells are released and whose events are
dropped, while newer code is proposed and applied, and workers of both versions die around their commits.

What must come of it is in ``mixture_laws``. ``python -m tests.laws.machines.mixture SEED [COUNT]`` plays seeds.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, Final
from unittest import mock

from msgspec.structs import replace

from holdfast import Holdfast, step_info
from holdfast.cells.cell import CellRecord, decode_cell
from holdfast.errors import CellFull, HoldfastError
from holdfast.programs.machine.kind import Machines
from holdfast.programs.machine.lanes import cell_turn, succession
from holdfast.programs.machine.lanes.held_events import ReceiptArrived, read_held, unchained
from holdfast.runs.lanes import HELD, WAITS, is_lane
from holdfast.store import protocol as p
from holdfast.testing.virtual import VirtualClock, run_virtually
from holdfast.worker.lanes import cell_supplier
from holdfast.worker.presence.heart import LoopPulse
from holdfast.worker.steps.performance import StepInfo
from tests.laws.machines import bank
from tests.laws.machines.bank import SECOND, Event, account, events
from tests.laws.machines.mixture_laws import MixtureViolation, check_held, check_history
from tests.laws.machines.test_lanes import Fragile
from tests.seeds import play_seeds
from tests.simulation.faults import Recorder
from tests.simulation.lockstep import true_store
from tests.unit.worker.ground import OPTIONS, Line

TENANTS: Final = {"default": "e", "other": "o"}
"""The tenants, and the letter with which the ids of their events begin."""
MOST_SPLITS: Final = 2
CRASHES: Final = 3
HELD_LIMIT: Final = 3
"""So many events may be held for a cell before no more come from outside."""
PATIENCE_SECONDS: Final = 3_000.0
"""Within this virtual time after the last fault, everything has come to rest."""
TOGETHER_SECONDS: Final = 60.0
PERSON: Final = "a person"
PARKED_BY: Final = ("Storm", "poison", f"InvalidFunction: machine {account.name} no longer declares")


class Storm(Exception):
    """A handler raises because the history says so."""


class Process(bank.Place):
    """One engine, until it dies. Once the weather is fair, nothing goes wrong in it any more."""

    def __init__(self, life: MixedLife, *, second: bool, dies: bool) -> None:
        chance = life.chance
        self.life = life
        self.second = second
        dies_at = chance.randrange(2, 60) if dies else -1
        self.line: Line = Fragile(life.store, dies_at, chance.random() < 0.5)
        self.app = life.engine(self.line, second=second, worker=True)
        self.context = contextvars.copy_context()
        self.context.run(bank.place.set, self)

    async def inside(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do it in this process: whatever it begins belongs to it."""
        return await asyncio.get_running_loop().create_task(work, context=self.context)

    def handle(self, what: str, id: str) -> None:
        manner = self.life.manner(what, id)
        if manner == "raise":
            self.life.reached[f"a handler raised: {what}"] += 1
            raise Storm(f"over {what} {id}")
        if manner == "kill":
            self.life.reached[f"a handler killed: {what}"] += 1
            self.line.dead = True

    async def perform(self, effect: str, id: str, account: str) -> None:
        info = step_info()
        self.life.check_effect(info, effect, id)
        if self.life.fails(id, info.attempt):
            self.life.reached["an effect failed"] += 1
            raise ValueError("it failed")


class MixedLife:
    """One history."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.seed = seed
        self.calm = False  # no worker dies from now on
        self.fair = False  # and no handler raises
        self.reached: Counter[str] = Counter()
        self.drops: Counter[tuple[str, str]] = Counter()  # by tenant and account
        self.given = {
            tenant: events(seed * 2 + number, self.chance.randint(8, 25), letter=letter)
            for number, (tenant, letter) in enumerate(TENANTS.items())
        }
        self.violations: list[str] = []
        self.applied: dict[str, int] = {}  # when newer code was put in force
        self.begun: list[tuple[str, str, str, int]] = []  # tenant, effect, id, when
        self.processes: list[Process] = []
        self.rolls = self.chance.random() < 0.6
        self._proposals: dict[str, str] = {}
        self.clock: VirtualClock
        self.store: Recorder
        self.people: Holdfast

    # -- what goes wrong -----------------------------------------------------------------------------------------------

    def manner(self, what: str, id: str) -> str:
        """What a handler does with an event: the same each time, until the weather is fair."""
        if self.fair:
            return ""
        number = random.Random(f"{self.seed} {what} {id}").random()
        return "raise" if number < 0.12 else "kill" if number < 0.16 and not self.calm else ""

    def fails(self, id: str, attempt: int) -> bool:
        """Whether an effect fails: some in each attempt, some in the first."""
        number = random.Random(f"{self.seed} {id}").random()
        return number < 0.2 or (number < 0.4 and attempt == 1)

    def check_effect(self, info: StepInfo, effect: str, id: str) -> None:
        """No effect begins before its turn is durable, or after its receipt is."""
        self.begun.append((info.tenant, effect, id, self.clock.now()))
        if (info.key, info.attempt) not in self.store.intended:
            self.violations.append(f"{effect} {id} of {info.tenant} began before its turn was durable")
        if info.key in self.store.completed:
            self.violations.append(f"{effect} {id} of {info.tenant} began again after its receipt was durable")

    # -- engines -------------------------------------------------------------------------------------------------------

    def engine(self, line: Any, *, second: bool, worker: bool) -> Holdfast:
        options = replace(
            OPTIONS,
            lease_seconds=8.0,
            checkpoint_events=20,
            crash_limit=CRASHES,
            warm_limit=self.chance.choice((0, 4)),
            cached_cells=self.chance.choice((0, 2, 4096)),
        )
        app = Holdfast(
            line,
            clock=self.clock,
            entropy=random.Random(self.chance.random()),
            pulse=LoopPulse,
            options=options,
            worker=worker,
        )
        app.machine_kind = Machines({account.name: SECOND if second else account}, held_limit=HELD_LIMIT)
        return app

    async def run(self) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.store = true_store(self.clock.now)
        await self.store.open()
        self.people = self.engine(self.store, second=False, worker=False)
        await self.people.open()
        acts = [self._send(tenant) for tenant in TENANTS]
        acts += [self._meddle(tenant) for tenant in TENANTS]
        acts += [self._replace_the_dead()]
        if self.rolls:
            acts.append(self._roll_out())
        tasks = [asyncio.create_task(act) for act in acts]
        try:
            await asyncio.wait(tasks[:2])
            await asyncio.sleep(self.chance.random() * 30)
        finally:
            self.calm = True
            for task in tasks[2:]:
                task.cancel()
            await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error
        await self._come_to_rest()
        await check_history(self)
        await self.store.close()

    async def _replace_the_dead(self) -> None:
        count = self.chance.choice((1, 2, 2))
        while True:
            self.processes = [each for each in self.processes if not each.line.dead]
            while len(self.processes) < count:
                await self._begin_process(dies=True)
            await asyncio.sleep(self.chance.random() * 3)

    async def _begin_process(self, *, dies: bool, second: bool | None = None) -> Process:
        if second is None:
            second = self.rolls and self.chance.random() < 0.5
        process = Process(self, second=second, dies=dies)
        self.processes.append(process)
        opening = asyncio.get_running_loop().create_task(process.app.open(), context=process.context)
        while not opening.done() and not process.line.dead:
            await asyncio.wait([opening], timeout=1)
        return process

    # -- people --------------------------------------------------------------------------------------------------------

    async def _through(self, act: Callable[[Holdfast], Awaitable[Any]], *, second: bool = False) -> Any:
        """Do it in some process, which may die over it; else as somebody whose program never dies."""
        able = [each for each in self.processes if not each.line.dead and (each.second or not second)]
        if able and self.chance.random() < 0.5:
            process = self.chance.choice(able)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(15):
                    return await process.inside(_awaited(act, process.app))
        return await act(self.people)

    async def _send(self, tenant: str) -> None:
        for event in self.given[tenant]:
            await self._send_one(tenant, event)
            if self.chance.random() < 0.4:
                await asyncio.sleep(self.chance.random() * 6)

    async def _send_one(self, tenant: str, event: Event) -> None:
        for _ in range(self.chance.choice((1, 1, 1, 2))):  # sent again, it is heard once
            while True:
                try:
                    sent = await self._through(lambda app: app.machines.send(event, id=event.id, tenant=tenant))
                    assert sent.heard
                    break
                except CellFull:  # somebody releases it
                    self.reached["a cell was full"] += 1
                    await asyncio.sleep(1)

    async def _meddle(self, tenant: str) -> None:
        while True:
            await asyncio.sleep(self.chance.random() * 4)
            act = self.chance.choice(
                (self._split, self._pause, self._resume, self._resume, self._release, self._release)
            )
            try:
                await act(tenant)
                self.reached[act.__name__] += 1
            except HoldfastError as error:
                self.reached[f"{act.__name__}: {error.code}"] += 1

    async def _split(self, tenant: str) -> None:
        lanes = [run for run in await self.lanes(tenant) if run.split is None or not p.is_split(run.split)]
        if len(lanes) < account.lanes * 6:
            count = max(account.lanes, len(lanes))
            await self._through(lambda app: app.machines.split(account.name, count * 2, tenant=tenant))

    async def lanes(self, tenant: str) -> list[p.Run]:
        return [run for run in await self.store.find(p.Query(tenant), 1000) if is_lane(run.key.run)]

    async def _pause(self, tenant: str) -> None:
        if lanes := await self.lanes(tenant):
            lane = self.chance.choice(lanes).key.run
            await self._through(lambda app: app.run(lane, tenant=tenant).pause(PERSON))

    async def _resume(self, tenant: str) -> None:
        if lanes := [run for run in await self.lanes(tenant) if PERSON in (run.pause or "")]:
            lane = self.chance.choice(lanes).key.run
            await self._through(lambda app: app.run(lane, tenant=tenant).resume())

    async def rows(self, tenant: str) -> list[p.CellRow]:
        return await self.store.find_cells(p.CellQuery(tenant, account.name), 10_000)

    async def cells(self, tenant: str) -> list[tuple[str, CellRecord]]:
        assert account.key_schema is not None
        found = []
        for row in await self.rows(tenant):
            record = decode_cell(row.record)
            if record.chain is not None:
                lane = p.Key(tenant, row.lane)
                rows = await self.store.held_events(lane, row.key, record.chain.first, 10_000, 1 << 30)
                record = unchained(record, [event for _, event in rows])
            found.append((account.key_schema.decode(row.key), record))
        return found

    async def _release(self, tenant: str) -> None:
        if parked := [key for key, record in await self.cells(tenant) if record.status == "parked"]:
            key, drop = self.chance.choice(parked), self.chance.random() < 0.4

            async def release(app: Holdfast) -> None:
                self.drops[tenant, key] += drop  # where a process dies over it, the next one may be another event's
                await app.cell(account.name, key, tenant=tenant).release(drop=drop)

            await self._through(release)

    async def _roll_out(self) -> None:
        """Newer code comes: it is proposed and applied in one tenant, where nothing blocks it."""
        author = self.engine(self.store, second=True, worker=False)
        await author.open()
        await asyncio.sleep(self.chance.random() * 20)
        while "default" not in self.applied:
            await self._apply(author, "default")
            await asyncio.sleep(self.chance.random() * 4)

    async def _apply(self, author: Holdfast, tenant: str) -> None:
        machines = author.machines
        try:
            if tenant not in self._proposals:
                proposal = (await machines.propose(tenant=tenant, by="ann")).id
                await machines.shadow(proposal, tenant=tenant, by="ann")
                await machines.approve(proposal, tenant=tenant, by="bob")
                self._proposals[tenant] = proposal
            proposal = self._proposals[tenant]
            await self._apply_somewhere(author, proposal, tenant)
            self.applied[tenant] = self.clock.now()
            self.reached["applied"] += 1
        except HoldfastError as error:
            self.reached[f"apply: {error.code}"] += 1
            if error.code == "proposal_conflict":
                del self._proposals[tenant]

    async def _apply_somewhere(self, author: Holdfast, proposal: str, tenant: str) -> None:
        """In a process that may die over it, or by somebody whose program never does."""
        able = [each for each in self.processes if each.second and not each.line.dead]
        if able and self.chance.random() < 0.4:
            process = self.chance.choice(able)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(40):
                    await process.inside(_awaited(lambda app: app.machines.apply(proposal, tenant=tenant), process.app))
                    return
            if (await author.machines.proposal(proposal, tenant=tenant)).status == "applied":
                return
        await author.machines.apply(proposal, tenant=tenant)

    # -- the end -------------------------------------------------------------------------------------------------------

    async def _come_to_rest(self) -> None:
        """Workers that never die have the rest to do; people mend what is left standing."""
        for process in self.processes:
            process.line.dead = True
        self.processes = []
        if self.rolls:
            self.people = self.engine(self.store, second=True, worker=False)
            await self.people.open()
            await self._begin_process(dies=False, second=False)
        await self._begin_process(dies=False, second=self.rolls)
        await self._rest()
        await check_held(self)
        self.fair = True
        await self._rest()
        if self.violations:
            raise MixtureViolation(self.violations[0])

    async def _rest(self) -> None:
        """Wait until everything is handled; parked cells are released in fair weather only."""
        until = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        turn = asyncio.get_running_loop().time() + TOGETHER_SECONDS
        while left := [each for tenant in TENANTS for each in await self._left(tenant)]:
            if asyncio.get_running_loop().time() > until:
                raise MixtureViolation(f"it never comes to rest: {left[:6]}")
            for tenant in TENANTS:
                await self._mend(tenant)
            await asyncio.sleep(4)
            if self.rolls and asyncio.get_running_loop().time() > turn:
                await self._take_turns()
                turn = asyncio.get_running_loop().time() + TOGETHER_SECONDS

    async def _take_turns(self) -> None:
        """Each version of the code is alone for a while: what the other one has left standing is this one's."""
        second = not (len(self.processes) == 1 and self.processes[0].second)
        for process in self.processes:
            process.line.dead = True
        self.processes = []
        await self._begin_process(dies=False, second=second)

    async def _left(self, tenant: str) -> list[str]:
        found = []
        for run in await self.lanes(tenant):
            if run.arrived > run.consumed or run.pause is not None or run.split == p.INHERITS:
                found.append(f"{run.key} {run.arrived - run.consumed} messages, {run.split}, {run.pause}")
        for key, record in await self.cells(tenant):
            is_open = bool(record.intents or record.timers)
            if record.status == "parked" and not self.fair:
                held = [read_held(each) for each in record.held]
                settled = [each.promise for each in held if isinstance(each, ReceiptArrived)]
                is_open = len(settled) < len(record.intents)  # the others are still to come
            if is_open or record.is_catching_up or (record.status == "parked" and self.fair):
                found.append(f"{tenant} {key} {record.status} {record.reason} {record.intents} {record.timers}")
        return found

    async def _mend(self, tenant: str) -> None:
        for run in await self.lanes(tenant):
            if run.pause is None or run.pause.startswith(WAITS):
                continue
            if PERSON not in run.pause and not run.pause.startswith(HELD):
                raise MixtureViolation(f"{run.key} is parked: {run.pause}")
            with contextlib.suppress(HoldfastError):  # resumed by somebody else
                await self.people.run(run.key.run, tenant=tenant).resume()
        for key, record in await self.cells(tenant):
            if record.status == "parked":
                if not record.reason.startswith(PARKED_BY):
                    raise MixtureViolation(f"{key} of {tenant} is parked: {record.reason}")
                if self.fair:
                    # No code that the manifest in force allows could read it: it is dropped.
                    drop = tenant in self.applied and record.reason.startswith(PARKED_BY[-1])
                    self.drops[tenant, key] += drop
                    with contextlib.suppress(HoldfastError):  # it has gone on meanwhile
                        await self.people.cell(account.name, key, tenant=tenant).release(drop=drop)


async def _awaited(act: Callable[[Holdfast], Awaitable[Any]], app: Holdfast) -> Any:
    return await act(app)


@contextlib.contextmanager
def small_turns() -> Iterator[None]:
    """A few cells are many turns, and effects take long enough to be open when their cell moves."""
    with (
        mock.patch.object(succession, "AT_ONCE", 2),
        mock.patch.object(cell_supplier, "AT_ONCE", 2),
        mock.patch.object(cell_supplier, "HELD_AT_ONCE", 2),
        mock.patch.object(cell_turn, "HELD_BEFORE", HELD_LIMIT),
        mock.patch.object(bank, "fee_seconds", 6.0),
    ):
        yield


def play(seed: int) -> Counter[str]:
    """Play one seed; gives what was reached. Raises MixtureViolation, with the seed in its note."""
    life = MixedLife(seed)
    try:
        with small_turns():
            run_virtually(life.run())
    except BaseException as error:
        error.add_note(f"seed {seed}: python -m tests.laws.machines.mixture {seed}")
        raise
    return life.reached


def main() -> None:
    logging.getLogger("holdfast").setLevel(logging.ERROR)
    play_seeds(play)


if __name__ == "__main__":
    main()
