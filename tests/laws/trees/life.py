"""One life: trees of runs on engines that die, and people who cancel, answer, say words and then follow advice.

Everything comes from the seed. When the schedule is over nothing dies any more, no engine is started but where
somebody is advised to, and nobody does anything but what is advised for a run that no other run holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from contextlib import AbstractAsyncContextManager
from typing import Final

import msgspec

from holdfast import Holdfast
from holdfast.client.views.runs import RunInfo
from holdfast.client.views.tasks import TaskInfo
from holdfast.errors import HoldfastError
from holdfast.runs.advice import Advice, AdviceCode
from tests.follower import Asked, Follower, NoProgress
from tests.laws.acts.life import ENDED, Violation
from tests.laws.acts.process import PROCESS_OPTIONS, Process
from tests.laws.trees.grow import Grower, shown
from tests.laws.trees.plant import FLOW, hurried, tree
from tests.laws.trees.world import FAR, MODERN, World, unhire, worlds
from tests.unit.worker.ground import Ground, Line, asking

LEVELS: Final = 2
"""So many levels of children below a root: three levels of runs."""
IDLE_ROUNDS: Final = 60
"""So often somebody follows advice, and waits, until something must have moved: five virtual minutes."""
ROUND_SECONDS: Final = 5.0


class Life:
    """What happens, and what was noted of it."""

    def __init__(self, ground: Ground, seed: int) -> None:
        self.ground = ground
        self.source = source = random.Random(f"trees {seed}")
        self.world = World(random.Random(f"world of trees {seed}"))
        self.reached: Counter[str] = Counter()
        self.tenant = source.choice(("default", "other"))
        self.app: Holdfast  # it has no worker, and never dies
        self._grower = Grower(source)
        self._events = source.randrange(6, 30)
        self._wait = source.choice((0.5, 2.0, 10.0))
        self._deaths = source.choice((0.0, 0.4, 0.8))
        self._kinds = {
            "start": 4,
            "cancel": source.choice((0, 1, 3)),
            "leave": source.choice((0, 0, 1)),
            "word": 2,
            "answer": 3,
            "kill": source.choice((0, 1, 2)),
            "restart": source.choice((0, 1, 1)),
        }
        self._processes: list[Process] = []
        self._engines = 0
        self._runs = 0
        self._is_over = False
        self._openings: set[asyncio.Task[None]] = set()
        worlds[:] = [self.world]

    # -- engines ---------------------------------------------------------------------------------------------------

    async def play(self) -> None:
        """Let it all happen, until every run has ended."""
        await self.app.definitions.publish(FLOW, tenant=self.tenant)
        for _ in range(self.source.choice((1, 2))):
            await self._open()
        for _ in range(self._events):
            await self._happen()
            await asyncio.sleep(self.source.expovariate(1 / self._wait))
        self._is_over = True
        self.world.tell("from now on people follow advice")
        while self._openings:
            await asyncio.wait(self._openings)
        await self._follow()

    async def close(self) -> None:
        for process in self._processes:
            await process.close()

    async def _open(self, *, modern: bool | None = None, far: bool | None = None) -> None:
        """Start an engine that has, or has not, all the code, and serves the queue, or not."""
        self._engines += 1
        modern = self.source.random() < 0.6 if modern is None else modern
        far = self.source.random() < 0.5 if far is None else far
        self.world.tell(
            f"engine {self._engines} begins{'' if modern else f', without {MODERN}'}{', far' if far else ''}"
        )
        without = () if modern else (MODERN,)
        options = msgspec.structs.replace(PROCESS_OPTIONS, queues={FAR: 2} if far else {})

        def opening(line: Line) -> AbstractAsyncContextManager[Holdfast]:
            return self.ground.engine(
                tree,
                hurried,
                policy=asking(),
                options=options,
                line=line,
                without=without,
            )

        dies_at = self.source.randrange(2, 80) if self.source.random() < self._deaths else -1
        process = Process(
            self.ground,
            self._engines,
            dies_at,
            before=self.source.random() < 0.5,
            opening=opening,
            may_die=self._may_die,
        )
        self._processes.append(process)
        await process.opened()

    def _may_die(self, process: Process, when: str) -> bool:
        if self._is_over:
            return False
        self._processes.remove(process)
        self.world.deaths.append(self.world.now)
        self.reached[f"an engine was killed {when}"] += 1
        self.world.tell(f"engine {process.number} is killed {when}")
        if self.source.random() < 0.8:
            task = asyncio.get_running_loop().create_task(self._replace(self.source.choice((0.0, 0.5, 30.0))))
            self._openings.add(task)
            task.add_done_callback(self._openings.discard)
        return True

    async def _replace(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._open()

    async def _end(self, process: Process) -> None:
        """Stop an engine as an operator does."""
        self.world.tell(f"engine {process.number} is stopped")
        self.world.deaths.append(self.world.now)
        if process in self._processes:
            self._processes.remove(process)
        await process.close()
        process.dead = True  # as its process ends, nothing that it had begun goes on

    # -- what happens ----------------------------------------------------------------------------------------------

    async def _happen(self) -> None:
        kind = self.source.choices(list(self._kinds), list(self._kinds.values()))[0]
        living = [process for process in self._processes if process.is_open]
        if kind == "kill" and living:
            self.source.choice(living).die("at some time")
        elif kind == "restart" and living:
            await self._end(self.source.choice(living))
            await self._open()
        elif kind in ("start", "cancel", "leave", "word", "answer"):
            with contextlib.suppress(HoldfastError):
                await getattr(self, f"_{kind}")()

    async def _start(self) -> None:
        self._runs += 1
        id, ops = f"root-{self._runs}", self._grower.program(LEVELS)
        workflow = self.source.choice((tree, tree, hurried))
        self.world.tell(f"{id} starts as {workflow.name}: {shown(ops)}")
        await self.app.start(workflow, id, ops, id=id, tenant=self.tenant)

    async def _cancel(self, *, leave_children: bool = False) -> None:
        if open_ := [run for run in await self.runs() if run.status not in ENDED]:
            run = self.source.choice(open_)
            level = run.id.count("~")
            self.reached[f"level {level} is cancelled{' without its children' if leave_children else ''}"] += 1
            self.world.tell(f"{run.id} is to be cancelled{' without its children' if leave_children else ''}")
            await self.app.run(run.id, tenant=self.tenant).cancel("enough", leave_children=leave_children)

    async def _leave(self) -> None:
        await self._cancel(leave_children=True)

    async def _word(self) -> None:
        if open_ := [run for run in await self.runs() if run.status not in ENDED]:
            await self._say(self.source.choice(open_).id, "word")

    async def _say(self, run: str, word: str) -> None:
        self.world.tell(f"{run} hears: {word}")
        await self.app.run(run, tenant=self.tenant).signal(word)

    async def _answer(self) -> None:
        if tasks := [task async for task in self.app.tasks.list(tenant=self.tenant, status="requested")]:
            await self._decide(self.source.choice(tasks), refuses=self.source.random() < 0.2)

    async def _decide(self, task: TaskInfo, *, refuses: bool = False) -> None:
        if task.kind == "outcome":
            receipt = await self.app.receipts.get(task.details["receipt"], tenant=self.tenant)
            label = self.world.happened.get(receipt.key)
            self.world.tell(
                f"{task.run}: people say that {receipt.key} {'did not happen' if label is None else 'happened'}"
            )
            self.reached["people say what became of an act"] += 1
            if label is None:
                await self.app.tasks.did_not_happen(task.id, by="cleo", tenant=self.tenant)
            else:
                self.world.asked.add(label)
                await self.app.tasks.happened(task.id, by="cleo", result=label, tenant=self.tenant)
            return
        operation, target = str(task.details["operation"]), str(task.details["target"])
        self.world.tell(f"{task.run}: {operation} {target} is {'rejected' if refuses else 'approved'}")
        if not refuses:
            await self.app.tasks.approve(task.id, by="cleo", tenant=self.tenant)
            return
        if operation == unhire.operation:
            self.world.kept_by_people.add(target)
        await self.app.tasks.reject(task.id, by="cleo", tenant=self.tenant)

    async def runs(self) -> list[RunInfo]:
        """All runs, in the order of their births."""
        found = [run async for run in self.app.list(tenant=self.tenant)]
        return sorted(found, key=lambda run: (run.created_at, run.id))

    # -- following advice ------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Do what is advised, until every run has ended."""
        hands = {
            AdviceCode.SEND_SIGNAL: self._hear,
            AdviceCode.APPROVE: self._settle,
            AdviceCode.ANSWER_OUTCOME: self._settle,
            AdviceCode.MEND_CODE: self._mend,
            AdviceCode.SERVE_STEP: self._deploy,
            AdviceCode.LEAVE_CHILDREN: self._let_leave,
            AdviceCode.START_WORKER: lambda _: self._open(),
            AdviceCode.SERVE_QUEUE: lambda _: self._open(far=True),
        }
        follower = Follower(self.source, hands, self._look, self.reached, patience=IDLE_ROUNDS)
        while True:
            runs = {run.id: run for run in await self.runs()}
            open_ = [run for run in runs.values() if run.status not in ENDED]
            tasks = [task async for task in self.app.tasks.list(tenant=self.tenant, status="requested")]
            if not open_ and not tasks:
                return
            now = [(run.id, run.status, run.events, run.pause_reason) for run in runs.values()], [*map(_id, tasks)]
            tops = [run for run in open_ if run.parent is None or runs[run.parent].status in ENDED]
            if asking := {task.run for task in tasks} if not open_ else set():
                tops = [runs[id] for id in sorted(asking)]
            asked = [await self._asked(top, runs) for top in tops]
            try:
                await follower.round(asked, now, most=1)
            except NoProgress as error:
                raise Violation("no progress", str(error)) from None
            await asyncio.sleep(ROUND_SECONDS)

    async def _asked(self, run: RunInfo, runs: dict[str, RunInfo]) -> Asked:
        """Why a run does not move. One that waits for its children has the advice for one of them."""
        found = await self.app.run(run.id, tenant=self.tenant).advice()
        if any(each.code == AdviceCode.LEAVE_CHILDREN and each.thing == run.id for each in found):
            held = [each.id for each in runs.values() if each.parent == run.id and each.status not in ENDED]
            self.reached["a run is held by its children"] += 1
            if held and not any(each.run in held for each in found):
                raise Violation("the child that holds its parent is not named", f"{held}: {found}")
        return Asked(run.id, found)

    async def _hear(self, advice: Advice) -> None:
        await self._say(advice.thing, advice.more)

    async def _settle(self, advice: Advice) -> None:
        await self._decide(await self.app.tasks.get(advice.thing, tenant=self.tenant))

    async def _look(self, advice: Advice) -> tuple[Advice, ...]:
        return await self.app.run(advice.thing, tenant=self.tenant).advice()

    async def _let_leave(self, advice: Advice) -> None:
        self.world.tell(f"{advice.thing} is to end without its children")
        await self.app.run(advice.thing, tenant=self.tenant).cancel("enough", leave_children=True)

    async def _deploy(self, _: Advice) -> None:
        """Newer code, which has every step, in place of all that runs."""
        for process in list(self._processes):
            await self._end(process)
        await self._open(modern=True)

    async def _mend(self, advice: Advice) -> None:
        """Mend all code, deploy it, and resume the run."""
        self.world.fits = True
        await self._deploy(advice)
        self.world.tell(f"{advice.thing} is resumed")
        await self.app.run(advice.thing, tenant=self.tenant).resume()


def _id(task: TaskInfo) -> str:
    return task.id
