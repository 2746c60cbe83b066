"""One life: runs of two tenants on engines that die, and people who say words, cancel, fork, retry, reverse and answer.

Everything comes from the seed. When the schedule is over the weather is fair: engines stay, every question is answered
truthfully, every run gets words until it ends. Then, in some lives, what has failed is retried, up to three times.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter, defaultdict
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from holdfast import Holdfast
from holdfast.client.runs.handle import RunHandle
from holdfast.client.views.runs import RunInfo
from holdfast.client.views.tasks import TaskInfo
from holdfast.errors import HoldfastError, RetryDiverged
from holdfast.programs.function.reversal import REVERSE
from holdfast.store import protocol as p
from tests.laws.acts.grow import TENANTS, mood, program, retries_of, weather
from tests.laws.acts.process import PROCESS_OPTIONS, Process
from tests.laws.acts.trade import Trade, trade
from tests.laws.acts.world import World, unhire, worlds
from tests.unit.worker.ground import FREE, Ground, Line, asking

REST_SECONDS: Final = 3_000.0
"""Within this virtual time after the last fault, everything has come to rest."""
FAILED: Final = ("failed", "cancelled")
ENDED: Final = ("completed", *FAILED)
MOST: Final = 10_000
REPORT: Final = "could not all be taken back"


class Violation(Exception):
    """A law is broken. ``kind`` is its name."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(f"{kind}: {what}")
        self.kind = kind


class Life:
    """What happens, and what was noted of it."""

    def __init__(self, ground: Ground, seed: int) -> None:
        self.ground = ground
        self.source = source = random.Random(f"acts {seed}")
        self.world = World(random.Random(f"world {seed}"), mood(source))
        self.weather = weather(source, retries_of(seed))
        self.reached: Counter[str] = Counter()
        self.born_without: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        """Keys of acts that were taken back, or were being taken back, when a fork was made that inherited them."""
        self._continued: set[str] = set()
        """Runs that continue as new. Their arguments name what they rely on, and a retry does not look for it again
        where it has no undo."""
        self.despite: set[tuple[str, str]] = set()
        """Acts that people wanted to have reversed even if a run relies on them."""
        self.reported: set[tuple[str, str]] = set()
        """Runs that were retried after they had reported that something could not be taken back."""
        self._processes: list[Process] = []
        self.is_fair = False
        self._engines = 0
        self._runs = 0
        self._doings: set[asyncio.Task[Any]] = set()
        self._openings: set[asyncio.Task[Any]] = set()
        worlds[:] = [self.world]

    @property
    def app(self) -> Holdfast:
        """An engine that lives."""
        return self._processes[0].app

    async def play(self) -> None:
        """Let it all happen, until everything rests."""
        for _ in range(self.source.choice((1, 2, 2))):
            await self._open()
        for _ in range(self.weather.events):
            self._happen()
            await asyncio.sleep(self.source.expovariate(1 / self.weather.wait))
        self.is_fair = True
        self.world.tell("the weather is fair")
        await self._rest()
        for _ in range(self.weather.rounds):
            await self._processes[0].inside(self._retry_all(self.app))
            await self._rest()

    async def close(self) -> None:
        for process in self._processes:
            await process.close()

    async def _open(self) -> None:
        self._engines += 1
        dies_at = self.source.randrange(2, 60) if self.source.random() < self.weather.deaths else -1
        process = Process(
            self.ground,
            self._engines,
            dies_at,
            before=self.source.random() < 0.5,
            opening=self._opening,
            may_die=self._may_die,
        )
        self._processes.append(process)
        await process.opened()

    def _opening(self, line: Line) -> AbstractAsyncContextManager[Holdfast]:
        policy = asking() if self.weather.is_governed else FREE
        return self.ground.engine(trade, policy=policy, options=PROCESS_OPTIONS, line=line)

    # -- what happens ----------------------------------------------------------------------------------------------

    def _happen(self) -> None:
        kinds = list(self.weather.weights)
        kind = self.source.choices(kinds, list(self.weather.weights.values()))[0]
        living = [process for process in self._processes if process.is_open]
        if not living:
            return
        process = self.source.choice(living)
        if kind == "kill":
            process.die("at some time")
            return
        work = {"start": self._start, "word": self._word, "cancel": self._cancel, "fork": self._fork}
        work |= {"reverse": self._reverse, "answer": self._answer, "retry": self._retry}
        self._do(process, work[kind](process.app))

    def _do(self, process: Process, work: Coroutine[Any, Any, None]) -> None:
        """Somebody does it by an engine, which may die meanwhile; then nobody learns what came of it."""

        async def done() -> None:
            with contextlib.suppress(HoldfastError):
                await work

        task = process.inside(done())
        self._doings.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._doings.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    def _may_die(self, process: Process, when: str) -> bool:
        """Nothing dies in fair weather. Else another engine is started later."""
        if self.is_fair:
            return False
        self._processes.remove(process)
        self.reached[f"an engine was killed {when}"] += 1
        self.world.tell(f"engine {process.number} is killed {when}")
        task = asyncio.get_running_loop().create_task(self._replace(self.source.choice((0.0, 0.5, 30.0))))
        self._openings.add(task)
        task.add_done_callback(self._openings.discard)
        return True

    async def _replace(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._open()

    async def _start(self, app: Holdfast) -> None:
        self._runs += 1
        id, tenant, ops = f"run-{self._runs}", self.source.choice(TENANTS), program(self.source, self.weather)
        self.world.tell(f"{tenant} {id} starts: {shown(ops)}")
        self._continued |= {id} if any(op.do == "again" for op in ops) else set()
        await app.start(trade, Trade(tenant, ops), id=id, tenant=tenant, actor="ann")

    async def _word(self, app: Holdfast) -> None:
        if (run := await self._some_run(app, ended=False)) is not None:
            word = self.source.choice(("good", "bad"))
            self.world.tell(f"{run.tenant} {run.id} hears: {word}")
            await app.run(run.id, tenant=run.tenant).signal("word", word)

    async def _cancel(self, app: Holdfast) -> None:
        if (run := await self._some_run(app, ended=False)) is not None:
            self.world.tell(f"{run.tenant} {run.id} is to be cancelled")
            self.reached["cancelled"] += 1
            await app.run(run.id, tenant=run.tenant).cancel("enough")

    async def _fork(self, app: Holdfast) -> None:
        run = await self._some_run(app)
        if run is None or run.events < 2 or run.workflow == REVERSE:
            return
        sequence = self.source.randrange(1, run.events + 1)
        fork = await app.run(run.id, tenant=run.tenant).fork(sequence, by="ben")
        self.reached["forked"] += 1
        gone = {row.key for row in await self.receipts(app, run.tenant) if await _is_taken(app, row)}
        self.born_without[run.tenant, fork.id] |= gone
        self.world.tell(f"{run.tenant} {run.id} is forked before {sequence} as {fork.id}")

    async def _reverse(self, app: Holdfast) -> None:
        tenant = self.source.choice(TENANTS)
        rows = [row for row in await self.receipts(app, tenant) if row.state == "succeeded" and row.reverse]
        if rows:
            row, anyway = self.source.choice(rows), self.source.random() < 0.4
            self.world.tell(f"{tenant} {row.key} is to be reversed{' anyway' if anyway else ''}")
            self.despite |= {(tenant, row.key)} if anyway else set()
            await app.receipts.reverse(row.id, by="ben", anyway=anyway, tenant=tenant)
            self.reached["reversed"] += 1

    async def _retry(self, app: Holdfast) -> None:
        """Retry a run that has failed, or answer one that is parked since it was retried."""
        runs = [run for run in await self.runs(app) if run.status in FAILED or _has_diverged(run)]
        if runs:
            await self._retry_run(app, self.source.choice(runs))

    async def _retry_all(self, app: Holdfast) -> None:
        """Retry most of what has failed. A child is retried with its parent, or alone."""
        for run in await self.runs(app):
            if run.status in FAILED and self.source.random() < 0.7:
                with contextlib.suppress(HoldfastError):
                    await self._retry_run(app, run)

    async def _retry_run(self, app: Holdfast, run: RunInfo) -> None:
        """In one of the ways that there are. ``--again`` and ``--keep`` are about names that the plan has."""
        handle: RunHandle[Any] = app.run(run.id, tenant=run.tenant)
        said: dict[str, Any] = {"tree": True} if self.source.random() < 0.6 else {}
        how = self.source.choice(
            ("new", "again", "keep", "again", "keep", *(() if _has_diverged(run) else ("plain",) * 5))
        )
        if how == "new":
            said["new"] = True
        elif how != "plain":
            kept = sorted(set((await handle.plan_retry(**said, new=True)).kept))
            said[how] = [name for name in kept if self.source.random() < 0.5] or kept[:1]
        shown = " ".join(
            f"--{word} {','.join(names) if isinstance(names, list) else ''}" for word, names in said.items()
        )
        self.reported |= {(each.tenant, each.id) for each in await self.runs(app) if REPORT in (each.error or "")}
        if run.id.partition("-fork")[0].partition("~")[0] in self._continued:
            gone = {row.key for row in await self.receipts(app, run.tenant) if await _is_taken(app, row)}
            self.born_without[run.tenant, run.id] |= gone
        await handle.retry(**said, by="ben")
        self.world.tell(f"{run.tenant} {run.id} is retried {shown}")
        self.reached["answered since it was retried" if _has_diverged(run) else f"retried, {how}"] += 1

    async def _answer(self, app: Holdfast) -> None:
        tasks = [task for tenant in TENANTS async for task in app.tasks.list(tenant=tenant, status="requested")]
        if tasks:
            await self._decide(app, self.source.choice(tasks))

    async def _decide(self, app: Holdfast, task: TaskInfo) -> None:
        if task.kind == "outcome":
            await self._tell_truth(app, task)
            return
        act = str(task.details["operation"]), str(task.details["target"])
        if self.source.random() < 0.8:
            self.world.tell(f"{task.tenant} {task.run}: {' '.join(act)} is approved")
            await app.tasks.approve(task.id, by="cleo", tenant=task.tenant)
            self.reached["approved"] += 1
            return
        self.world.tell(f"{task.tenant} {task.run}: {' '.join(act)} is rejected")
        if act[0] == unhire.operation:
            self.world.undos_failed[task.tenant, act[1]].add(task.run)
        await app.tasks.reject(task.id, by="cleo", tenant=task.tenant)
        self.reached["rejected"] += 1

    async def _tell_truth(self, app: Holdfast, task: TaskInfo) -> None:
        """Say what became of an act of unknown outcome."""
        receipt = await app.receipts.get(task.details["receipt"], tenant=task.tenant)
        self.reached["answered"] += 1
        if (result := self.world.happened.get((task.tenant, receipt.key))) is not None:
            self.world.tell(f"{task.tenant} {task.run}: {receipt.action} {receipt.key} happened, says ben")
            await app.tasks.happened(task.id, by="ben", result=result, tenant=task.tenant)
        else:
            self.world.tell(f"{task.tenant} {task.run}: {receipt.action} {receipt.key} did not happen, says ben")
            await app.tasks.did_not_happen(task.id, by="ben", tenant=task.tenant)

    # -- what there is ---------------------------------------------------------------------------------------------

    async def runs(self, app: Holdfast) -> list[RunInfo]:
        """All runs, in the order of their births."""
        found = [run for tenant in TENANTS async for run in app.list(tenant=tenant)]
        return sorted(found, key=lambda run: (run.created_at, run.tenant, run.id))

    async def _some_run(self, app: Holdfast, *, ended: bool = True) -> RunInfo | None:
        runs = [run for run in await self.runs(app) if ended or run.status not in ENDED]
        return self.source.choice(runs) if runs else None

    async def receipts(self, app: Holdfast, tenant: str) -> list[p.ReceiptRow]:
        """The rows of a tenant's receipts."""
        return await app.store.receipts(p.ReceiptQuery(tenant), MOST)

    # -- rest ------------------------------------------------------------------------------------------------------

    async def _rest(self) -> None:
        """Answer and talk until nothing is open any more."""
        loop = asyncio.get_running_loop()
        limit = loop.time() + REST_SECONDS
        while self._openings:
            await asyncio.wait(self._openings)
        while found := await self._processes[0].inside(self._unrest(self.app)):
            if loop.time() > limit:
                raise Violation("rest", "; ".join(found))
            await asyncio.sleep(5)

    async def _unrest(self, app: Holdfast) -> list[str]:
        """What is still open. Questions are answered, and runs get words."""
        found: list[str] = []
        for run in await self.runs(app):
            if run.status in ENDED:
                continue
            handle: RunHandle[Any] = app.run(run.id, tenant=run.tenant)
            found.append(f"{run.tenant} {run.id} is {run.status}: {run.pause_reason or await handle.explain()}")
            if _has_diverged(run):
                with contextlib.suppress(HoldfastError):
                    await self._retry_run(app, run)
            with contextlib.suppress(HoldfastError):
                await handle.signal("word", self.source.choice(("good", "bad")))
        for tenant in TENANTS:
            async for task in app.tasks.list(tenant=tenant, status="requested"):
                found.append(f"task {task.id} of {task.run}: {task.summary}")
                with contextlib.suppress(HoldfastError):
                    await self._decide(app, task)
            rows = await self.receipts(app, tenant)
            found += [f"receipt {row.id} is {row.state}" for row in rows if row.state in ("pending", "unknown")]
        return found


def _has_diverged(run: RunInfo) -> bool:
    """Whether it is parked since it was retried, until a person says what becomes of a kept result."""
    return run.status == "paused" and (run.pause_reason or "").startswith(RetryDiverged.code)


async def _is_taken(app: Holdfast, row: p.ReceiptRow) -> bool:
    return row.reversed_by is not None or (await app.store.stakes(row.tenant, row.id)).taking is not None


def shown(ops: Any) -> str:
    """A program on one line."""
    parts = []
    for op in ops:
        inside = f"({shown(op.parts)})" if op.parts else ""
        parts.append(f"{op.do}{' ' + op.order if op.order else ''}{f' {op.seconds:g}' if op.seconds else ''}{inside}")
    return ", ".join(parts)
