"""Concurrent operations through several handles: nothing is leased twice, nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import chain

from holdfast.store import protocol as p
from holdfast.testing.stores.governance import samples as gate_samples
from holdfast.testing.stores.governance.files import governed_end, keep, kept_file
from holdfast.testing.stores.samples import (
    NOW,
    SERVES,
    begun,
    commit,
    deliver,
    key,
    leased,
    row,
    start,
    turn,
    work,
    worker,
)
from holdfast.testing.stores.topic import Topic, on_fresh_store


@asynccontextmanager
async def handles(store: p.Store, count: int = 3) -> AsyncIterator[list[p.Store]]:
    """The store and open twins of it."""
    twins = [store.twin() for _ in range(count - 1)]
    try:
        await asyncio.gather(*(twin.open() for twin in twins))
        yield [store, *twins]
    finally:
        for twin in twins:
            await twin.close()


class Concurrency(Topic):
    @on_fresh_store
    async def test_no_run_is_leased_twice(self, store: p.Store) -> None:
        """Claimers that run at once get different runs, and together all of them."""
        await store.commit([start(f"r{at}") for at in range(60)])
        async with handles(store) as shared:
            claims = await asyncio.gather(*(shared[at % 3].claim(f"worker-{at}", SERVES, 5, NOW) for at in range(15)))
            while rest := (await store.claim("last", SERVES, 5, NOW)).runs:
                claims.append(p.ClaimedRuns(rest, None))
        names = [run.key.run for claim in claims for run in claim.runs]
        assert sorted(names) == sorted(f"r{at}" for at in range(60))

    @on_fresh_store
    async def test_no_work_is_leased_twice(self, store: p.Store) -> None:
        """The same for work."""
        await leased(store)
        await store.commit([p.Enqueue(work(at)) for at in range(40)])
        async with handles(store) as shared:
            claims = await asyncio.gather(
                *(shared[at % 3].claim_work(f"worker-{at}", {"mail": 5}, NOW) for at in range(12))
            )
            claims.append(await store.claim_work("last", {"mail": 100}, NOW))
        positions = [found.position for claim in claims for found in claim.work]
        assert sorted(positions) == list(range(40))

    @on_fresh_store
    async def test_messages_sent_at_once_take_consecutive_positions(self, store: p.Store) -> None:
        """No position is given twice, none is left out, and each holds the message it was answered for."""
        await begun(store, start())
        async with handles(store) as shared:
            answers = await asyncio.gather(*(commit(shared[at % 3], deliver(body=str(at))) for at in range(30)))
        positions = [answer.position for answer in answers if isinstance(answer, p.Delivered)]
        assert sorted(positions) == list(range(1, 31))
        received = {at: found.body for at, found in (await store.messages([key()]))[key()]}
        assert received == {position: str(at).encode() for at, position in enumerate(positions)}

    @on_fresh_store
    async def test_one_of_many_starts_of_an_id_starts_it(self, store: p.Store) -> None:
        """The others get the answer that it exists."""
        async with handles(store) as shared:
            answers = await asyncio.gather(*(commit(shared[at % 3], start()) for at in range(9)))
        assert sorted(type(answer).__name__ for answer in answers) == ["Exists"] * 8 + ["Started"]

    @on_fresh_store
    async def test_one_of_many_starts_of_a_trigger_starts_a_run(self, store: p.Store) -> None:
        """Whatever their ids, in batches of several triggers in any order: all are told the same run."""
        triggers = [b"hook 1", b"hook 2", b"hook 3"]
        batches = [
            [start(f"{batch}-{at}", trigger_key=triggers[(at * 2 + batch) % 3]) for at in range(3)]
            for batch in range(9)
        ]
        async with handles(store) as shared:
            answers = await asyncio.gather(*(shared[at % 3].commit(batch) for at, batch in enumerate(batches)))
        found: dict[bytes | None, set[str]] = {}
        for change, answer in zip(chain(*batches), chain(*answers), strict=True):
            assert isinstance(answer, p.Started | p.Exists)
            run = change.key.run if isinstance(answer, p.Started) else answer.run
            found.setdefault(change.trigger_key, set()).add(run)
        assert [len(found[trigger]) for trigger in triggers] == [1, 1, 1]
        assert {run.key.run for run in await store.find(p.Query(), 99)} == set.union(*found.values())

    @on_fresh_store
    async def test_one_of_many_turns_at_a_version_is_applied(self, store: p.Store) -> None:
        """The others are fenced."""
        run = await leased(store)
        async with handles(store) as shared:
            answers = await asyncio.gather(*(commit(shared[at % 3], turn(run, mark=f" {at}")) for at in range(9)))
        assert sorted(type(answer).__name__ for answer in answers) == ["Advanced"] + ["Fenced"] * 8
        assert (await row(store)).version == run.version + 1

    @on_fresh_store
    async def test_one_of_many_messages_of_an_id_is_delivered(self, store: p.Store) -> None:
        """The others are repetitions."""
        await begun(store, start())
        async with handles(store) as shared:
            answers = await asyncio.gather(*(commit(shared[at % 3], deliver(id="m1")) for at in range(9)))
        assert sorted(type(answer).__name__ for answer in answers) == ["Delivered"] + ["Repeated"] * 8

    @on_fresh_store
    async def test_batches_that_touch_the_same_runs_all_come_through(self, store: p.Store) -> None:
        """In any order within each batch: no deadlock, and nothing is lost."""
        names = [f"r{at}" for at in range(6)]
        await store.commit([start(name) for name in names])
        async with handles(store) as shared:
            await asyncio.gather(
                *(
                    shared[at % 3].commit([deliver(name) for name in (names if at % 2 else reversed(names))])
                    for at in range(12)
                )
            )
        assert [run.arrived for run in await store.get([key(name) for name in names])] == [12] * 6

    @on_fresh_store
    async def test_a_task_that_is_passed_on_meanwhile_is_cancelled(self, store: p.Store) -> None:
        """In any order: cancelling is not refused, and no version is skipped."""
        names = [f"t{at}" for at in range(20)]
        await store.commit([p.PutTask(gate_samples.task(name)) for name in names])
        async with handles(store) as shared:

            async def race(at: int, name: str) -> tuple[p.Answer, p.Answer]:
                changed, cancelled = shared[at % 3], shared[(at + 1) % 3]
                passing_on = commit(changed, p.PutTask(gate_samples.task(name, 2)))
                cancelling = commit(cancelled, p.CancelTask("acme", name, NOW))
                return await asyncio.gather(*((passing_on, cancelling) if at % 2 else (cancelling, passing_on)))

            raced = await asyncio.gather(*(race(at, name) for at, name in enumerate(names)))
        after = {found.id: found for found in await store.tasks(p.TaskQuery(), 100)}
        for at, name in enumerate(names):
            passed_on, cancelled = raced[at] if at % 2 else raced[at][::-1]
            assert cancelled == p.Tasked()
            assert (after[name].status, after[name].version) == ("cancelled", 3 if passed_on == p.Tasked() else 2)

    @on_fresh_store
    async def test_one_of_many_notes_of_an_id_is_written(self, store: p.Store) -> None:
        """For any number of notes at once, with any other notes beside it."""
        async with handles(store) as shared:
            batches = [[gate_samples.note(f"{at}"), gate_samples.note("once", id="n")] for at in range(12)]
            answers = await asyncio.gather(*(shared[at % 3].commit(batch) for at, batch in enumerate(batches)))
        assert answers == [[p.Noted()] * 2] * 12
        assert sorted(await gate_samples.bodies(store)) == sorted([*map(str, range(12)), "once"])

    @on_fresh_store
    async def test_evidence_kept_while_an_entry_is_sealed_does_not_hide_it(self, store: p.Store) -> None:
        """In any order: the evidence is refused, or it is due again."""
        names = [f"r{at}" for at in range(20)]
        for name in names:
            await governed_end(store, name)
        await store.commit([gate_samples.note(name, run=name) for name in names])
        entries = await store.unsealed(100)
        async with handles(store) as shared:
            for at, (name, entry) in enumerate(zip(names, entries, strict=True)):
                keeping = keep(shared[1], kept_file(p.EVIDENCE, run=name), b"data")
                sealing = gate_samples.seal(shared[2], gate_samples.block(at + 1, at + 1), [entry.sequence])
                await asyncio.gather(*((keeping, sealing) if at % 2 else (sealing, keeping)))
        assert [run.key.run for run in await store.evidence_due(100)] == sorted(names)

    @on_fresh_store
    async def test_rescuing_at_once_counts_one_crash(self, store: p.Store) -> None:
        """A worker's death counts once, even if several rescues notice it."""
        await store.register(worker(), -1)
        run = await leased(store)
        async with handles(store) as shared:
            await asyncio.gather(*(handle.rescue(NOW) for handle in shared))
        after = await row(store)
        assert (after.crashes, after.epoch, after.owner) == (1, run.epoch + 1, None)

    @on_fresh_store
    async def test_a_cancelled_caller_harms_nobody(self, store: p.Store) -> None:
        """A cancelled commit is made completely or not at all, and the store still works."""
        await store.commit([start("one"), start("two")])
        for moment in range(4):
            task = asyncio.create_task(store.commit([deliver("one"), deliver("two")]))
            for _ in range(moment):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        one, two = await row(store, "one"), await row(store, "two")
        assert one.arrived == two.arrived
        assert await commit(store, deliver("one")) == p.Delivered(one.arrived + 1)
