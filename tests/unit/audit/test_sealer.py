"""The sealer and the archivist: every entry is sealed once, in order, and every governed run gets its evidence."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.audit import keys, records
from holdfast.audit.archivist import Archivist
from holdfast.audit.bundles import unpack
from holdfast.audit.chain import verify_chain
from holdfast.audit.check.bundle import verify_bundle
from holdfast.audit.collector import entries_of, gather
from holdfast.audit.keychain import Keychain
from holdfast.audit.sealer import BLOCK_LIMIT, LOOK_LIMIT, Sealer
from holdfast.errors import KeyLocked, StoreCorrupt, StoreUnavailable
from holdfast.programs.definition.engine_tools import EngineTools
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.testing.virtual import VirtualClock, run_virtually
from holdfast.worker.roles.pruner import INTERVAL_SECONDS, Pruner
from tests.unit.audit.governed import NOW, RUN, TENANT, journal, run_in_store


def note(number: int, tenant: str = TENANT) -> p.Note:
    return p.Note(tenant, "run", "operator", NOW, b'{"kind":"operator","at":%d,"act":"x","who":"y"}' % number)


async def opened() -> tuple[MemoryStore, VirtualClock]:
    clock = VirtualClock(asyncio.get_running_loop())
    store = MemoryStore(clock.now)
    await store.open()
    return store, clock


async def check(store: p.Store, tenant: str, count: int) -> list[p.Block]:
    """The tenant's chain is whole and has so many entries; gives its blocks."""
    blocks = await store.blocks(tenant, 0, 1000)
    entries = [entry async for entry in entries_of(store, p.AuditQuery(tenant))]
    publics = {key.id: key.public for key in await store.signing_keys()}
    assert verify_chain(tenant, blocks, entries, publics) is None
    assert len(entries) == count
    return blocks


def test_entries_are_sealed_within_a_second_of_a_wake() -> None:
    """A wake seals at once, or after a short pause if entries were sealed just before."""

    async def main() -> None:
        store, clock = await opened()
        sealer = Sealer(store, clock)
        sealer.start()
        await asyncio.sleep(1)
        for number in range(5):
            await store.commit([note(number)])
            sealer.wake()
            await asyncio.sleep(0)
        await asyncio.sleep(0.9)
        assert await store.unsealed(1) == []
        await sealer.stop()
        blocks = await check(store, TENANT, 5)
        assert len(blocks) < 5

    run_virtually(main())


def test_entries_of_other_processes_are_found_without_a_wake() -> None:
    """Nobody wakes the sealer for an entry that a command wrote: it looks regularly."""

    async def main() -> None:
        store, clock = await opened()
        sealer = Sealer(store, clock)
        sealer.start()
        await asyncio.sleep(10)
        await store.commit([note(1)])
        await asyncio.sleep(5)
        await sealer.stop()
        await check(store, TENANT, 1)

    run_virtually(main())


def test_the_first_key_is_made_at_the_start() -> None:
    """Its public half can be published before anything is signed. A second sealer uses the same key."""

    async def main() -> None:
        store, clock = await opened()
        await Sealer(store, clock).round()
        (first,) = await store.signing_keys()
        await Sealer(store, clock).round()
        assert await store.signing_keys() == [first]
        assert (first.number, first.id) == (1, keys.key_id(first.public))

    run_virtually(main())


def test_blocks_are_bounded_and_each_tenant_has_a_chain() -> None:
    """Many entries become several blocks. The chain of each tenant begins at position 0."""

    async def main() -> None:
        store, clock = await opened()
        await store.commit([note(number, TENANT if number % 3 else "other") for number in range(LOOK_LIMIT + 10)])
        sealer = Sealer(store, clock)
        assert await sealer.round() == 0.0  # there may be more: the next round is at once
        await sealer.round()
        others = len(range(0, LOOK_LIMIT + 10, 3))
        for tenant, count in ((TENANT, LOOK_LIMIT + 10 - others), ("other", others)):
            blocks = await check(store, tenant, count)
            assert max(block.count for block in blocks) <= BLOCK_LIMIT
            assert blocks[0].first == 0

    run_virtually(main())


class _Slow(MemoryStore):
    """A store whose answers take a moment, so that the steps of two sealers alternate."""

    async def unsealed(self, limit: int) -> list[p.AuditEntry]:
        found = await super().unsealed(limit)
        await asyncio.sleep(0.01)
        return found

    async def blocks(self, tenant: str, first: int, limit: int) -> list[p.Block]:
        found = await super().blocks(tenant, first, limit)
        await asyncio.sleep(0.01)
        return found

    async def signing_keys(self) -> list[p.SigningKey]:
        found = await super().signing_keys()
        await asyncio.sleep(0.01)
        return found


def test_two_sealers_that_race_seal_every_entry_once() -> None:
    """They read the same entries and the same last block. The store takes the block of one, and no entry is lost."""

    async def main() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        store = _Slow(clock.now)
        await store.open()
        sealers = [Sealer(store, clock), Sealer(store, clock)]
        for sealer in sealers:
            sealer.start()
        for number in range(40):
            await store.commit([note(number), note(number, "other")])
            for sealer in sealers:
                sealer.wake()
            await asyncio.sleep(0.1)
        await asyncio.sleep(2)
        for sealer in sealers:
            await sealer.stop()
        assert len(await store.signing_keys()) == 1
        for tenant in (TENANT, "other"):
            blocks = await check(store, tenant, 40)
            assert sum(block.count for block in blocks) == 40

    run_virtually(main())


def test_a_locked_key_makes_the_entries_wait_and_loses_none(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once. With the passphrase, sealing continues without a restart."""
    passphrases: list[str | None] = ["sesame"]

    async def main() -> None:
        store, clock = await opened()
        await Sealer(store, clock, passphrase=lambda: passphrases[0]).seal()
        passphrases[0] = None
        sealer = Sealer(store, clock, passphrase=lambda: passphrases[0])
        await store.commit([note(1)])
        with pytest.raises(KeyLocked, match="HOLDFAST_KEY_PASSPHRASE"):
            await sealer.seal()
        sealer.start()
        await asyncio.sleep(60)
        passphrases[0] = "wrong"
        await asyncio.sleep(60)
        assert len(await store.unsealed(10)) == 1
        passphrases[0] = "sesame"
        await asyncio.sleep(5)
        await sealer.stop()
        await check(store, TENANT, 1)

    with caplog.at_level(logging.WARNING, "holdfast.sealer"):
        run_virtually(main())
    messages = [record.getMessage() for record in caplog.records]
    assert [message.split(":")[0] for message in messages] == [
        "the audit cannot be sealed",  # no passphrase
        "the audit cannot be sealed",  # a wrong one
        "the audit is sealed again",
    ]


def test_a_sealer_waits_for_a_store_that_is_down() -> None:
    """It seals as soon as the store is back."""

    async def main() -> None:
        store, clock = await opened()
        sealer = Sealer(store, clock)
        await store.close()
        with pytest.raises(StoreUnavailable):
            await sealer.round()
        sealer.start()
        await asyncio.sleep(30)
        await store.open()
        await store.commit([note(1)])
        await asyncio.sleep(10)
        await sealer.stop()
        await check(store, TENANT, 1)

    run_virtually(main())


def test_after_a_rotation_the_new_key_signs_and_the_chain_stays_whole() -> None:
    """Two keys, one chain."""

    async def main() -> None:
        store, clock = await opened()
        sealer = Sealer(store, clock)
        await store.commit([note(1)])
        await sealer.seal()
        second = await Keychain(store, clock).rotate(lambda _: note(2))
        await sealer.seal()
        blocks = await check(store, TENANT, 2)
        assert [block.signer == second.id for block in blocks] == [False, True]
        line = await Keychain(store, clock).published()
        assert keys.check_line(line) is None

    run_virtually(main())


def test_a_governed_run_gets_evidence_once_its_entries_are_sealed() -> None:
    """The sealer wakes the archivist; the stored bundle verifies under the store's key, and the row has its hash."""

    async def main() -> bytes:
        store, clock = await opened()
        run = await run_in_store(store)
        archivist = Archivist(store, clock)
        assert await archivist.round() == 0.5  # nothing is sealed yet: it looks again soon
        assert await store.files(run.key) == []
        sealer = Sealer(store, clock, [archivist])
        archivist.start()
        sealer.start()
        await asyncio.sleep(2)
        await sealer.stop()
        await archivist.stop()
        (file,) = await store.files(run.key)
        (row,) = await store.get([run.key])
        assert (file.name, file.generation, file.sha256) == ("evidence.zip", 0, row.evidence)
        assert await store.evidence_due(10) == []
        data = await store.file(run.key, 0, p.EVIDENCE)
        assert data is not None
        (key,) = await store.signing_keys()
        verdict = verify_bundle(data, [key.public])
        assert [claim.text for claim in verdict.claims if claim.state == "broken"] == []
        assert verdict.trusted
        return data

    run_virtually(main())


class _Counting(MemoryStore):
    """A store that counts its calls."""

    def __init__(self, now: Callable[[], int]) -> None:
        super().__init__(now)
        self.calls: Counter[str] = Counter()

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if not name.startswith("_") and inspect.iscoroutinefunction(found):
            self.calls[name] += 1
        return found


@pytest.mark.parametrize("tenants", [1, 150])
def test_sealing_takes_as_many_calls_for_many_tenants_as_for_one(tenants: int) -> None:
    """One read of entries, of keys and of heads, and one commit. A commit for each tenant would take minutes."""

    async def main() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        store = _Counting(clock.now)
        await store.open()
        sealer = Sealer(store, clock)
        for _ in range(2):
            await store.commit([note(number, f"t{number}") for number in range(tenants)])
            await sealer.seal()
            calls, store.calls = store.calls, Counter()
        calls.pop("commit")
        assert calls == {"unsealed": 1, "signing_keys": 1, "heads": 1, "seal": 1}
        for number in (0, tenants - 1):
            assert len(await check(store, f"t{number}", 2)) == 2

    run_virtually(main())


@pytest.mark.parametrize("tenants", [1, 150])
def test_evidence_takes_as_many_calls_for_many_tenants_as_for_one(tenants: int) -> None:
    """The parts of all bundles are read together, and all bundles are stored together."""

    async def main() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        store = _Counting(clock.now)
        await store.open()
        runs = [await run_in_store(store, tenant=f"t{number}") for number in range(tenants)]
        await Sealer(store, clock).seal()
        store.calls.clear()
        await Archivist(store, clock).round()
        reading = {"items", "evidence_due", "get", "signing_keys", "entries_in", "holders", "journals", "keep_files"}
        assert set(store.calls) == reading
        assert max(store.calls.values()) <= 2  # one more page where there are many entries
        (key,) = await store.signing_keys()
        for run in (runs[0], runs[-1]):
            data = await store.file(run.key, 0, p.EVIDENCE)
            assert data is not None
            assert verify_bundle(data, [key.public]).trusted

    run_virtually(main())


@pytest.mark.parametrize("later", [0, 1, 30, 199])
def test_the_block_of_an_entry_is_found_at_once(later: int) -> None:
    """However many blocks come before and after it."""

    async def main() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        store = _Counting(clock.now)
        await store.open()
        sealer = Sealer(store, clock)
        for number in range(200 - later):
            await store.commit([note(number)])
            await sealer.seal()
        run = await run_in_store(store)
        await sealer.seal()
        for number in range(later):
            await store.commit([note(number)])
            await sealer.seal()
        store.calls.clear()
        made = await gather(store, Keychain(store, clock), clock, run)
        assert sum(store.calls.values()) <= 5
        assert verify_bundle(made.data, [(await store.signing_keys())[0].public]).trusted

    run_virtually(main())


def test_evidence_can_be_gathered_with_values_and_of_entries_in_many_blocks() -> None:
    """The entries are found in all their blocks; the values prove the journal's hashes."""

    async def main() -> None:
        store, clock = await opened()
        sealer = Sealer(store, clock)
        for number in range(30):
            await store.commit([note(number)])
            await sealer.seal()
        run = await run_in_store(store)
        for number in range(30):
            await sealer.seal()
            await store.commit([note(number)])
        keychain = Keychain(store, clock)
        made = await gather(store, keychain, clock, run, values=True)
        assert made.unsealed == 0
        verdict = verify_bundle(made.data, [(await keychain.line())[0].public])
        assert verdict.good
        assert "proved" in {claim.state for claim in verdict.claims if claim.about == "values"}

    run_virtually(main())


@pytest.mark.parametrize("changed", [{"digests": b""}, {"digests": b"\0" * 31}, {"form": 9}], ids=str)
def test_a_damaged_block_gives_no_evidence(changed: dict[str, Any]) -> None:
    """It could not prove that it holds an entry."""

    async def main() -> None:
        store, clock = await opened()
        run = await run_in_store(store)
        await Sealer(store, clock).seal()
        tables = store._tables
        tables.blocks[TENANT] = [replace(block, **changed) for block in tables.blocks[TENANT]]
        with pytest.raises(StoreCorrupt, match="block 1 of tenant acme was altered: restore"):
            await gather(store, Keychain(store, clock), clock, run)

    run_virtually(main())


def test_a_damaged_journal_gets_no_evidence_and_delays_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once, and the archivist continues."""
    damaged = [*journal()[:-1], p.Segment(journal()[-1].first, journal()[-1].count, b"bad", b"bad", NOW)]

    async def main() -> None:
        store, clock = await opened()
        run = await run_in_store(store, damaged)
        await Sealer(store, clock).seal()
        archivist = Archivist(store, clock)
        for _ in range(3):
            assert await archivist.round() == 10.0
            await asyncio.sleep(40)
        assert await store.files(run.key) == []

    with caplog.at_level(logging.WARNING, "holdfast.archivist"):
        run_virtually(main())
    assert len(caplog.records) == 1
    assert "was altered" in caplog.records[0].getMessage()


def late() -> p.Note:
    """An entry of a run that has ended: an act may end after its run."""
    return p.Note(TENANT, RUN, "operator", NOW, records.encode(records.Operated(NOW, "fork", "latecomer", run=RUN)))


async def kept(store: p.Store, run: p.Run) -> bytes:
    data = await store.file(run.key, 0, p.EVIDENCE)
    assert data is not None
    return data


def test_an_entry_after_the_end_of_a_run_comes_into_its_evidence() -> None:
    """A bundle with the entry replaces the stored one, and the row has the new hash."""

    async def main() -> None:
        store, clock = await opened()
        run = await run_in_store(store)
        archivist = Archivist(store, clock)
        sealer = Sealer(store, clock, [archivist])
        await sealer.seal()
        assert await archivist.round() == 10.0
        first = await kept(store, run)
        await store.commit([late()])
        await archivist.round()
        assert await kept(store, run) == first
        await sealer.seal()
        await archivist.round()
        second = await kept(store, run)
        assert b"latecomer" in unpack(second)["entries.jsonl"]
        ((row,), (file,)) = await store.get([run.key]), await store.files(run.key)
        assert row.evidence == file.sha256 == hashlib.sha256(second).digest()
        assert verify_bundle(second, [(await store.signing_keys())[0].public]).good

    run_virtually(main())


class _Busy(MemoryStore):
    """A store in which one more entry is sealed, once, right before evidence is stored."""

    async def keep_files(self, files: Sequence[p.File]) -> list[bool]:
        entries = await self.entries(p.AuditQuery(TENANT, RUN), 100)
        if not any(entry.record.get("who") == "latecomer" for entry in entries):
            await self.commit([late()])
            await Sealer(self, VirtualClock(asyncio.get_running_loop())).seal()
        return await super().keep_files(files)


def test_outdated_evidence_is_not_stored() -> None:
    """It is made again, and soon."""

    async def main() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        store = _Busy(clock.now)
        await store.open()
        run = await run_in_store(store)
        await Sealer(store, clock).seal()
        archivist = Archivist(store, clock)
        assert await archivist.round() == 0.5
        assert await store.files(run.key) == []
        assert await archivist.round() == 10.0
        assert b"latecomer" in unpack(await kept(store, run))["entries.jsonl"]

    run_virtually(main())


class _Picky(MemoryStore):
    """A store that refuses the evidence of one run, and counts the commits of the others."""

    refused = ""
    commits = 0

    async def keep_files(self, files: Sequence[p.File]) -> list[bool]:
        if any(file.about.key.run == self.refused for file in files):
            raise ValueError("it is too large")
        self.commits += 1
        return await super().keep_files(files)


@pytest.mark.parametrize(("refused", "commits"), [("", 1), ("r-3", 6)])
def test_bundles_are_stored_in_one_commit(refused: str, commits: int, caplog: pytest.LogCaptureFixture) -> None:
    """Where one of them cannot be stored, the others are, each alone; the problem is logged once."""

    async def main() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        store = _Picky(clock.now)
        store.refused = refused
        await store.open()
        for number in range(7):
            await run_in_store(store, name=f"r-{number}")
        await Sealer(store, clock).seal()
        archivist = Archivist(store, clock)
        for _ in range(3):
            await archivist.round()
            await asyncio.sleep(40)
        assert store.commits == commits
        assert [run.key.run for run in await store.evidence_due(10)] == [refused][: bool(refused)]

    with caplog.at_level(logging.WARNING, "holdfast.archivist"):
        run_virtually(main())
    messages = [record.getMessage() for record in caplog.records]
    assert messages == [f"no evidence of run {refused} of tenant acme: it is too large"][: bool(refused)]


def test_runs_that_wait_for_evidence_past_their_time_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """They are not deleted. They are logged again only when their number changes."""

    async def main() -> None:
        store, clock = await opened()
        run = await run_in_store(store)
        assert run.ended_at is not None
        pruner = Pruner(store, clock, EngineTools({}), (clock.now() - run.ended_at) / 1e6 - 1)
        for _ in range(3):
            assert await pruner.round() == INTERVAL_SECONDS
        assert await store.get([run.key]) == [run]
        await Sealer(store, clock).seal()
        await Archivist(store, clock).round()
        for _ in range(2):
            await pruner.round()
        assert await store.get([run.key]) == []

    with caplog.at_level(logging.INFO, "holdfast.pruner"):
        run_virtually(main())
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 3
    assert messages[0].startswith("1 governed runs that ended more than")
    assert messages[1].startswith("deleted 1 runs")
    assert messages[2] == "no run waits for its evidence past its time any more"
