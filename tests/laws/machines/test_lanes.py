"""The laws of lanes: whatever dies when, each event is handled once, in order, and the journal tells what was done."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from msgspec.structs import replace

from holdfast import Holdfast
from holdfast.cells.cell import decode_cell
from holdfast.journal.promise import PromiseId
from holdfast.lanes.counts import lanes_of
from holdfast.programs.machine.kind import Machines
from holdfast.programs.machine.lanes.checked_lane import check_lane
from holdfast.runs.journals import check_chain
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.testing.virtual import VirtualClock, run_virtually
from holdfast.worker.presence.heart import LoopPulse
from tests.laws.machines.bank import Account, Event, account, events, expected
from tests.scope import each_seed
from tests.unit.worker.ground import OPTIONS, Line

TENANT = "default"


class Fragile(Line):
    """A line that dies around one of its commits."""

    def __init__(self, store: p.Store, dies_at: int, before: bool) -> None:
        super().__init__(store)
        self._left = dies_at
        self._before = before

    async def commit(self, changes: Any) -> Any:
        self._left -= 1
        if self._left == 0 and self._before:
            self.dead = True
        await self._pass()
        answer = await self._store.commit(changes)
        if self._left == 0:
            self.dead = True
        await self._pass()
        return answer


MOST_LIVES = 60
"""Then engines live on: a lane whose worker died takes one thing in a turn, and effects that are begun again report
more than some lives have turns for."""


class Life:
    """One history: events, and engines that die while they handle them."""

    options = replace(OPTIONS, lease_seconds=8.0, checkpoint_events=20)

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.seed = seed
        self._lives = 0
        self.clock: VirtualClock
        self.store: MemoryStore

    async def run(self, given: list[Event]) -> dict[str, Account]:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.store = MemoryStore(self.clock.now)
        await self.store.open()
        left = list(given)
        while left or await self._unhandled():
            await self._live(left)
        async with asyncio.timeout(3600):
            app = await self._engine(Line(self.store))
            await self._rest(app)
            await app.close(0)
        return await self._accounts()

    async def _engine(self, line: Line) -> Holdfast:
        entropy = random.Random(self.chance.random())
        app = Holdfast(line, clock=self.clock, entropy=entropy, pulse=LoopPulse, options=self.options)  # type: ignore[arg-type]
        await app.open()
        return app

    async def _live(self, left: list[Event]) -> None:
        """Until this engine dies, or has nothing more to do. What it had not taken in is sent again, with its id."""
        self._lives += 1
        commits, is_lost = self.chance.randrange(2, 40), self.chance.random() < 0.5
        line = Fragile(self.store, commits if self._lives <= MOST_LIVES else 10_000, is_lost)
        app = await self._engine(line)
        sending = asyncio.create_task(self._send(app, left))
        try:
            async with asyncio.timeout(60):
                while not line.dead and not (sending.done() and not await self._unhandled()):
                    await app.changed(0.1)
        except TimeoutError:
            pass
        sending.cancel()
        await asyncio.wait([sending])
        if not line.dead:
            line.dead = True

    async def _send(self, app: Holdfast, left: list[Event]) -> None:
        while left:
            sent = await app.machines.send(left[0], id=left[0].id)
            assert sent.heard
            left.pop(0)
            if self.chance.random() < 0.3:
                await asyncio.sleep(self.chance.random() * 4)

    async def _unhandled(self) -> bool:
        runs = await self.store.find(p.Query(TENANT), 100)
        if any(run.arrived > run.consumed or run.split == p.INHERITS for run in runs):
            return True
        rows = await self.store.find_cells(p.CellQuery(TENANT, account.name), 1000)
        return any(decode_cell(row.record).intents or row.wake_at is not None for row in rows)

    async def _rest(self, app: Holdfast) -> None:
        while await self._unhandled():
            await app.changed(0.5)

    async def _accounts(self) -> dict[str, Account]:
        rows = await self.store.find_cells(p.CellQuery(TENANT, account.name), 1000)
        found = {}
        for row in rows:
            record = decode_cell(row.record)
            assert record.state is not None
            assert account.key_schema is not None
            found[account.key_schema.decode(row.key)] = account.state.decode(record.state)
        await self._check(rows)
        return found

    async def _check(self, rows: list[p.CellRow]) -> None:
        """The journals, replayed with their handlers, give the rows."""
        kind = Machines({account.name: account})
        async for keys in lanes_of(self.store, TENANT, account.name):
            for run in await self.store.get(keys):
                entries = [entry async for entry in check_chain(self.store, run)]
                found = check_lane(
                    PromiseId(run.root), entries, account, kind.board, self.clock.now(), random.Random(0)
                )
                assert {row.key: decode_cell(row.record) for row in rows if row.lane == run.key.run} == found.cells


def _comparable(accounts: dict[str, Account]) -> dict[str, tuple[Any, ...]]:
    return {
        name: (each.balance, sorted(each.seen), each.fees, each.open, sorted(each.reminders))
        for name, each in accounts.items()
    }


@each_seed(0.5)
def test_every_event_is_handled_once_whatever_dies(seed: int) -> None:
    """No event, effect or timer is lost or doubled, and the order of a cell's own events is that of their commits."""
    given = events(seed, random.Random(seed).randint(1, 25))

    found = run_virtually(Life(seed).run(given))

    assert _comparable(found) == _comparable(expected(given))
    for name, each in found.items():
        own = [event.id for event in given if event.account == name]
        assert [id for id in each.seen if not id.endswith("+")] == own
        assert {id: last for id, (_, last) in each.progress.items()} == {id: len(id) + 1 for id in each.fees}
