"""One way happens: its runs on engines that die, people who answer truthfully, cancel, reverse and retry."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from holdfast import Holdfast
from holdfast.client.views.runs import RunInfo
from holdfast.client.views.tasks import TaskInfo
from holdfast.errors import HoldfastError, InvalidRequest, NotReversible, RetryDiverged, RetryRefused
from holdfast.programs.function.reversal import REVERSE
from holdfast.store import protocol as p
from tests.laws.acts.process import PROCESS_OPTIONS, Process
from tests.laws.twins.document import documents
from tests.laws.twins.function import Start, function
from tests.laws.twins.grow import Case, Play
from tests.laws.twins.world import World, worlds
from tests.unit.worker.ground import FREE, Ground, Line

WAYS: Final = ("function", "definition")
ENDED: Final = ("completed", "failed", "cancelled")
REST_SECONDS: Final = 2_000.0
TENANT: Final = "default"
RETRIES: Final = 4
"""So often a run is retried. A definition may fail of one of two failures, and then of the other: see the package."""


class Violation(Exception):
    """A law is broken. ``kind`` is its name."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(f"{kind}: {what}")
        self.kind = kind


class Life:
    """One way of a case. ``seen`` is what it came to, whenever all rests."""

    def __init__(self, ground: Ground, case: Case, way: str) -> None:
        self.ground = ground
        self.case = case
        self.way = way
        self.world = World(case.seed, **case.chances)
        self.world.heard = self._heard
        self.seen: list[dict[str, Any]] = []
        self.reached: Counter[str] = Counter()
        self._process: Process
        self._deaths = list(case.deaths)
        self._engines = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._cancelled: set[str] = set()
        worlds[:] = [self.world]

    @property
    def app(self) -> Holdfast:
        return self._process.app

    async def play(self) -> None:
        await self._open()
        for play in self.case.plays:
            self._spawn(self._begin(play))
        await self._rest()
        await self._see()
        self.world.is_kind = True
        if self.case.reversed:
            await self._reverse()
            await self._rest()
            await self._see()
        if self.case.retries:
            for _ in range(RETRIES):
                await self._retry()
                await self._rest()
            await self._see()

    async def close(self) -> None:
        await self._process.close()

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- engines ---------------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        self._engines += 1
        dies_at, before = self._deaths.pop(0) if self._deaths else (-1, False)
        self._process = Process(
            self.ground, self._engines, dies_at, before=before, opening=self._opening, may_die=self._dies
        )
        await self._process.opened()

    def _opening(self, line: Line) -> AbstractAsyncContextManager[Holdfast]:
        return _with(self.ground.engine(function, policy=FREE, options=PROCESS_OPTIONS, line=line), self._documents())

    def _documents(self) -> list[dict[str, Any]]:
        if self.way == "function":
            return []
        return [each for play in self.case.plays for each in documents(f"twins.{play.id}", play.id, play.ops)]

    def _dies(self, process: Process, when: str) -> bool:
        self.reached[f"an engine was killed {when}"] += 1
        self.world.tell(f"engine {process.number} is killed {when}")
        self._spawn(self._open())
        return True

    async def _doing(self, work: Any) -> Any:
        """By the engine that lives. If it dies meanwhile, by the next: all that people do here may be repeated."""
        while True:
            process = self._process
            await process.opened()
            if not process.dead:
                doing = process.inside(work(process.app))
                over = asyncio.get_running_loop().create_task(process._over.wait())
                await asyncio.wait([doing, over], return_when=asyncio.FIRST_COMPLETED)
                over.cancel()
                if doing.done():
                    return doing.result()
            await asyncio.sleep(0.1)

    # -- what happens ----------------------------------------------------------------------------------------------

    async def _begin(self, play: Play) -> None:
        await asyncio.sleep(play.begins)

        async def start(app: Holdfast) -> None:
            if self.way == "function":
                await app.start(function, Start(play.id, play.ops), id=play.id, actor="ann")
            else:
                await app.start(f"twins.{play.id}", {}, id=play.id, actor="ann")

        await self._doing(start)
        for number, word in enumerate(play.words):

            async def say(app: Holdfast, number: int = number, word: str = word) -> None:
                with contextlib.suppress(HoldfastError):
                    await app.run(play.id).signal("word", word, id=f"{play.id}-{number}")

            await self._doing(say)

    def _heard(self, run: str, at: str) -> None:
        """A program has come to a mark: perhaps it is cancelled there, once."""
        (play,) = [each for each in self.case.plays if each.id == run]
        if play.cancelled_at == at and run not in self._cancelled:
            self._cancelled.add(run)
            self._spawn(self._cancel(run))

    async def _cancel(self, run: str) -> None:
        await asyncio.sleep(1.0)

        async def cancel(app: Holdfast) -> None:
            with contextlib.suppress(HoldfastError):
                await app.run(run).cancel("enough")

        self.world.tell(f"{run} is to be cancelled")
        self.reached["cancelled"] += 1
        await self._doing(cancel)

    async def _reverse(self) -> None:
        for order in self.case.reversed:
            rows = [row for row in await self._receipts() if row.target == order and row.state == "succeeded"]
            for row in sorted(rows, key=lambda row: row.key):
                with contextlib.suppress(NotReversible):
                    await self._doing(lambda app, row=row: app.receipts.reverse(row.id, by="ben"))
                    self.reached["reversed"] += 1

    async def _retry(self) -> None:
        for run in await self._runs():
            if run.status in ("failed", "cancelled") and run.parent is None:
                self.world.tell(f"{run.id} is retried")
                try:
                    await self._doing(lambda app, run=run: app.run(run.id).retry(tree=True, by="ben"))
                    self.reached["retried"] += 1
                except InvalidRequest:  # it was retried by the engine that died then
                    self.reached["retried"] += 1
                except RetryRefused as refused:
                    self.world.tell(str(refused))
                    self.reached["not retried"] += 1

    # -- rest ------------------------------------------------------------------------------------------------------

    async def _runs(self) -> list[RunInfo]:
        async def listed(app: Holdfast) -> list[RunInfo]:
            return [run async for run in app.list()]

        found: list[RunInfo] = await self._doing(listed)
        return sorted(found, key=lambda run: run.id)

    async def _receipts(self) -> list[p.ReceiptRow]:
        found: list[p.ReceiptRow] = await self._doing(lambda app: app.store.receipts(p.ReceiptQuery(TENANT), 10_000))
        return found

    async def _rest(self) -> None:
        """Answer until nothing is open any more."""
        limit = asyncio.get_running_loop().time() + REST_SECONDS
        await asyncio.sleep(20)
        while self._tasks or (found := await self._unrest()):
            if asyncio.get_running_loop().time() > limit:
                raise Violation("rest", f"{self.way}: {'; '.join(found) if not self._tasks else 'people still act'}")
            await asyncio.sleep(5)

    async def _unrest(self) -> list[str]:
        found = []
        for run in await self._runs():
            if run.status not in ENDED:
                found.append(f"{run.id} is {run.status}, {run.pause_reason}")
                if (run.pause_reason or "").startswith(RetryDiverged.code):  # another call than one not undone
                    name = str(run.pause_reason).removeprefix(f"{RetryDiverged.code}: ").partition(" ")[0]
                    with contextlib.suppress(HoldfastError):
                        await self._doing(lambda app, run=run, name=name: app.run(run.id).retry(again=[name], by="ben"))

        async def answer(app: Holdfast) -> None:
            async for task in app.tasks.list(status="requested"):
                found.append(task.summary)
                with contextlib.suppress(HoldfastError):
                    await self._tell_truth(app, task)

        await self._doing(answer)
        rows = await self._receipts()
        return found + [f"receipt {row.id} is {row.state}" for row in rows if row.state in ("pending", "unknown")]

    async def _tell_truth(self, app: Holdfast, task: TaskInfo) -> None:
        receipt = await app.receipts.get(task.details["receipt"])
        self.reached["answered"] += 1
        if (result := self.world.happened.get((TENANT, receipt.key))) is not None:
            await app.tasks.happened(task.id, by="ben", result=result)
        else:
            await app.tasks.did_not_happen(task.id, by="ben")

    # -- what it came to -------------------------------------------------------------------------------------------

    async def _see(self) -> None:
        """How the runs stand, and what is done of each act and not taken back."""
        world, runs = self.world, await self._runs()
        acts = {*world.done, *world.undone, *world.reversed}
        counts = {act[1]: (world.done[act], world.undone[act], world.reversed[act]) for act in sorted(acts)}
        net = {key: done - undone - back for key, (done, undone, back) in counts.items()}
        if wrong := {key: counts[key] for key, left in net.items() if left not in (0, 1) and "buy" not in key}:
            raise Violation("the ledger", f"{self.way}: (done, undone, reversed) is {wrong}")
        if any(left < 0 for left in net.values()):
            raise Violation("the ledger", f"{self.way}: (done, undone, reversed) is {counts}")
        ends = {run.id: run.status for run in runs if run.parent is None and run.workflow != REVERSE}
        results = {}
        for run in [run for run, status in ends.items() if status == "completed"]:
            found = await self._doing(lambda app, run=run: app.run(run).result())
            results[run] = sorted(key for key in found if key)
        relied = {key for keys in results.values() for key in keys}
        stand = {key: n for key, n in net.items() if n and (key in relied or not key.startswith("tip"))}
        self.seen.append({"ends": ends, "results": results, "ledger": stand})
        world.tell("; ".join(f"{run.id} is {run.status}: {run.error}" for run in runs))
        for status in ends.values():
            self.reached[status] += 1
        await self._judge_store(runs)

    async def _judge_store(self, runs: list[RunInfo]) -> None:
        async def judge(app: Holdfast) -> None:
            found = await app.audit.verify()
            if broken := [claim.text for claim in found.claims if claim.state == "broken"]:
                raise Violation("the audit", f"{self.way}: {'; '.join(broken)}")
            for run in runs:
                check = await app.run(run.id).verify()
                if not check.good:
                    raise Violation("a journal", f"{self.way}: {run.id}: {check.problem}")

        await self._doing(judge)


@contextlib.asynccontextmanager
async def _with(engine: AbstractAsyncContextManager[Holdfast], documents: list[dict[str, Any]]) -> Any:
    async with engine as app:
        for document in documents:
            app.definitions.add(document)
        yield app
