"""Forking a machine: its cells begin again elsewhere, and the machine goes on there by itself."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta

import pytest

from holdfast import Holdfast
from holdfast.cells.cell import CellIntent, CellRecord, decode_cell, encode_cell
from holdfast.client.machines.forks import _deliver, _taken_in
from holdfast.errors import InvalidRequest
from holdfast.lanes.roots import RootContent, make_root
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.testing.virtual import VirtualClock, run_virtually
from holdfast.worker.presence.heart import LoopPulse
from tests.laws.machines.bank import Account, Deposited, Event, Moved, account
from tests.unit.worker.ground import OPTIONS


async def _opened(clock: VirtualClock) -> Holdfast:
    store = MemoryStore(clock.now)
    app = Holdfast(store, clock=clock, entropy=random.Random(1), pulse=LoopPulse, options=OPTIONS)  # type: ignore[arg-type]
    await app.open()
    return app


async def _engine() -> Holdfast:
    return await _opened(VirtualClock(asyncio.get_running_loop()))


async def _send(app: Holdfast, event: Event, tenant: str | None = None) -> None:
    sent = await app.machines.send(event, id=None, tenant=tenant)
    await app.machines.cell(account, event.account, tenant=tenant).state(after=sent.places[0])


async def _balances(app: Holdfast, tenant: str) -> dict[str, int]:
    rows = await app.store.find_cells(p.CellQuery(tenant, account.name), 1000)
    found: dict[str, int] = {}
    for row in rows:
        state = decode_cell(row.record).state
        assert state is not None
        held: Account = account.state.decode(state)
        assert account.key_schema is not None
        found[account.key_schema.decode(row.key)] = held.balance
    return found


def test_a_fork_has_all_cells_and_goes_on_by_itself() -> None:
    """What happens there does not happen here; its journals are verified like any other, and it is noted."""

    async def check() -> None:
        app = await _engine()
        for number in range(20):
            await _send(app, Deposited(f"a{number}", f"e{number}", 20 + number))
        before = await _balances(app, "default")
        forked = await app.machines.fork(account, "what-if", by="ann")
        assert (forked.cells, forked.tenant) == (20, "what-if")
        assert await _balances(app, "what-if") == before
        await _send(app, Deposited("a1", "more", 100), tenant="what-if")
        assert await _balances(app, "default") == before
        assert (await _balances(app, "what-if"))["a1"] == before["a1"] + 100
        async for lane in app.machines.verify():
            assert lane.good, lane.problems
        notes = [entry.record for entry in await app.store.entries(p.AuditQuery("what-if"), 100)]
        assert {"act": "fork_cells", "who": "ann"}.items() <= notes[-1].items()
        await app.close()

    run_virtually(check())


def test_a_fork_into_another_engine_takes_the_same_tenant() -> None:
    async def check() -> None:
        app, other = await _engine(), await _engine()
        await _send(app, Deposited("a1", "e1", 50))
        await app.machines.fork(account, other)
        assert await _balances(other, "default") == {"a1": 50}
        await app.close()
        await other.close()

    run_virtually(check())


def test_timers_go_on_in_a_fork() -> None:
    async def check() -> None:
        app = await _engine()
        await _send(app, Moved("a1", "e1", "a2", 10))
        await asyncio.sleep(1)
        await app.machines.fork(account, "soon")
        await asyncio.sleep(10)
        state = await app.machines.cell(account, "a2", tenant="soon").state()
        assert state is not None
        assert state.reminders == ["e1"]
        await app.close()

    run_virtually(check())


def test_a_cell_that_waits_for_an_effect_is_parked_in_the_fork() -> None:
    """No receipt will come there: it is not passed over silently."""

    async def check() -> None:
        app = await _engine()
        assert account.key_schema is not None
        key = account.key_schema.encode("a1")
        waits = CellRecord(
            key=key,
            state=account.state.encode(Account(balance=5)),
            status="waiting",
            intents=(CellIntent(7, "bank.fee", 1),),
            asked=1,
        )
        ends = await _deliver(app, "later", account, RootContent({key: encode_cell(waits)}, {}), "elsewhere")
        await _taken_in(app, ends)
        found = await app.machines.cell(account, "a1", tenant="later").record()
        assert found is not None
        assert (found.status, found.intents, found.state) == ("parked", (), waits.state)
        assert found.reason == "forked from elsewhere while effects were open: bank.fee 1"
        await app.close()

    run_virtually(check())


def test_a_past_state_is_forked_from_a_kept_root() -> None:
    async def check() -> None:
        app = await _engine()
        await _send(app, Deposited("a1", "e1", 50))
        handle = app.machines.cell(account, "a1")
        await make_root(app.store, app.clock, handle.lane_key)
        then = datetime.fromtimestamp(app.clock.now() / 1e6, UTC)
        await asyncio.sleep(5)
        await _send(app, Deposited("a1", "e2", 30))
        await app.machines.fork(account, "then", at=then)
        await app.machines.fork(account, "now")
        assert await _balances(app, "then") == {"a1": 50}
        assert await _balances(app, "now") == {"a1": 80}
        with pytest.raises(InvalidRequest, match=r"no root .* is kept from that time"):
            await app.machines.fork(account, "before", at=then - timedelta(microseconds=1000))
        with pytest.raises(InvalidRequest, match="time zone"):
            await app.machines.fork(account, "before", at=then.replace(tzinfo=None))
        await app.close()

    run_virtually(check())


def test_a_fork_goes_nowhere_where_the_machine_has_cells() -> None:
    async def check() -> None:
        app = await _engine()
        await _send(app, Deposited("a1", "e1", 50))
        await _send(app, Deposited("a1", "e1", 50), tenant="other")
        for into, why in (("other", "has cells in tenant other already"), ("default", "another tenant")):
            with pytest.raises(InvalidRequest, match=why):
                await app.machines.fork(account, into)
        await app.close()

    run_virtually(check())
